//! `unbloat growth`: what grows, how, and what that means.

use super::series::Loaded;
use crate::segment::Segment;
use crate::style::{Ink, Style, wrap};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_stats::growth::{Growth, Shape, Shortfall, judge};

/// A quantity that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// What the program holds: malloc chunks in use, Ruby objects.
    Live,
    /// cached + trimmable + stranded.
    Bloat,
    /// Ruby slots with an object.
    RubyLiveSlots,
    /// PSS of the tree, or RSS where PSS was never taken.
    Memory,
}

impl Quantity {
    fn label(self, memory: &'static str) -> &'static str {
        match self {
            Quantity::Live => "live",
            Quantity::Bloat => "bloat",
            Quantity::RubyLiveSlots => "Ruby live slots",
            Quantity::Memory => memory,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Quantity::Live => "live",
            Quantity::Bloat => "bloat",
            Quantity::RubyLiveSlots => "ruby_live_slots",
            Quantity::Memory => "memory",
        }
    }
}

/// What was found in a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// One for each quantity that was recorded.
    pub judged: Vec<(Quantity, Growth)>,
    /// `PSS` or `RSS`.
    pub memory: &'static str,
    /// How long the recording is, in seconds.
    pub duration_s: f64,
}

impl Findings {
    /// Judges a recording.
    #[must_use]
    pub fn of(loaded: &Loaded) -> Self {
        let census = |belongs: fn(Segment) -> bool| -> Vec<(f64, f64)> {
            let sum = |census: &BTreeMap<String, u64>| {
                let parts = census.iter().filter(|(name, _)| belongs(Segment::named(name)));
                parts.map(|(_, bytes)| *bytes as f64).sum()
            };
            loaded.censuses.iter().map(|(at, census)| (*at, sum(census))).collect()
        };
        let slots: Vec<(f64, f64)> = loaded
            .counters
            .iter()
            .filter_map(|(at, values)| Some((*at, *values.get("ruby_live_slots")? as f64)))
            .collect();
        let (memory, kind) = loaded.memory();
        let all = [
            (Quantity::Live, census(Segment::is_live)),
            (Quantity::Bloat, census(Segment::is_bloat)),
            (Quantity::RubyLiveSlots, slots),
            (Quantity::Memory, memory),
        ];
        let judged =
            all.iter().filter(|(_, points)| !points.is_empty()).map(|(q, points)| (*q, judge(points)));
        Findings { judged: judged.collect(), memory: kind, duration_s: loaded.duration_s() }
    }

    fn shape(&self, quantity: Quantity) -> Option<&Shape> {
        self.judged.iter().find(|(q, _)| *q == quantity).map(|(_, growth)| &growth.shape)
    }

    /// Live memory grows steadily.
    #[must_use]
    pub fn leak_suspected(&self) -> bool {
        let grows = |q| matches!(self.shape(q), Some(Shape::Linear { rate }) if rate.low > 0.0);
        grows(Quantity::Live) || grows(Quantity::RubyLiveSlots)
    }

    /// What it means, in sentences that name their evidence.
    #[must_use]
    pub fn conclusion(&self) -> String {
        let linear = |q| match self.shape(q) {
            Some(Shape::Linear { rate }) if rate.low > 0.0 => Some(rate.value),
            _ => None,
        };
        let bloat_limit = match self.shape(Quantity::Bloat) {
            Some(Shape::Saturating { limit, .. }) => Some(limit.value),
            _ => None,
        };
        if let Some(rate) = linear(Quantity::Live) {
            let slots = match linear(Quantity::RubyLiveSlots) {
                Some(slots) => format!(" Ruby objects grow with it, by {:.0} slots an hour: look for what keeps them, with ObjectSpace.dump_all.", slots * 3600.0),
                None if self.shape(Quantity::RubyLiveSlots).is_some() => " The number of Ruby objects does not grow with it: they grow in size, or an extension keeps memory.".to_owned(),
                None => String::new(),
            };
            return format!(
                "A leak is suspected: live memory grows steadily, by {} an hour.{slots}",
                size(rate * 3600.0)
            );
        }
        if let Some(limit) = bloat_limit {
            return format!(
                "This is fragmentation: what the program holds does not grow steadily, and bloat rises towards a limit of about {}. `unbloat inspect` says what of it can be returned.",
                size(limit)
            );
        }
        if let Some(rate) = linear(Quantity::Bloat) {
            return format!(
                "Bloat grows steadily, by {} an hour, while what the program holds does not: fragmentation that has not come to its end yet. Record for longer to see its limit.",
                size(rate * 3600.0)
            );
        }
        if let Some(Shape::Saturating { limit, .. }) = self.shape(Quantity::Live) {
            return format!(
                "Live memory rises towards a limit of about {}: caches fill, nothing leaks as far as this recording shows.",
                size(limit.value)
            );
        }
        let seen = |q| self.shape(q).is_some_and(|v| !matches!(v, Shape::NotEnough { .. }));
        if seen(Quantity::Live) {
            return "A plateau: neither what the program holds nor bloat grows.".to_owned();
        }
        match self.shape(Quantity::Memory) {
            Some(Shape::Linear { rate }) => format!(
                "{} grows steadily, by {} an hour. What grows cannot be said: the recording holds too few censuses (about {} are needed).",
                self.memory,
                size(rate.value * 3600.0),
                24
            ),
            Some(Shape::Saturating { limit, .. }) => format!(
                "{} rises towards a limit of about {}. What it is made of cannot be said: the recording holds too few censuses.",
                self.memory,
                size(limit.value)
            ),
            Some(Shape::None { .. }) => format!("A plateau: {} does not grow.", self.memory),
            Some(Shape::NotEnough { .. }) | None => {
                "Not enough data: record for longer, under the load that is in question.".to_owned()
            }
        }
    }
}

/// The findings as text.
#[must_use]
pub fn text(findings: &Findings, style: &Style) -> String {
    let mut out = wrap(&findings.conclusion(), style.width, 0);
    out.push('\n');
    for (quantity, growth) in &findings.judged {
        let label = quantity.label(findings.memory);
        let body = wrap(&sentence(*quantity, growth), style.width, 17);
        let _ = write!(out, "{}{}", style.paint(Ink::Bold, &format!("{label:<17}")), body.trim_start());
    }
    out
}

fn sentence(quantity: Quantity, growth: &Growth) -> String {
    let write = |value: f64| {
        if quantity == Quantity::RubyLiveSlots { format!("{:.0} slots", value) } else { size(value) }
    };
    let hour = 3600.0;
    let body = match growth.shape {
        Shape::None { rate, level } => format!(
            "no growth: it stays around {} ({} to {} an hour)",
            write(level),
            write(rate.low * hour),
            write(rate.high * hour)
        ),
        Shape::Linear { rate } => format!(
            "linear: {} an hour (95 % interval {} to {})",
            write(rate.value * hour),
            write(rate.low * hour),
            write(rate.high * hour)
        ),
        Shape::Saturating { limit, time_constant_s, left } => format!(
            "saturating: towards {} (95 % interval {} to {}), 63 % of the way in {}; {} left to go",
            write(limit.value),
            write(limit.low),
            write(limit.high),
            time(time_constant_s),
            write(left)
        ),
        Shape::NotEnough { reason } => {
            return match reason {
                Shortfall::Points => "not enough data: fewer than 24 readings spread over time".to_owned(),
                Shortfall::Time => "not enough data: less than a minute".to_owned(),
                Shortfall::Precision => {
                    "not enough data: growth that would matter is hidden by noise".to_owned()
                }
            };
        }
    };
    let mut notes = Vec::new();
    if growth.warm_up_s > 0.0 {
        notes.push(format!("after a warm-up of {}", time(growth.warm_up_s)));
    }
    if growth.steps > 0 {
        notes.push(format!("with {} level step{}", growth.steps, if growth.steps == 1 { "" } else { "s" }));
    }
    if notes.is_empty() { body } else { format!("{body}, {}", notes.join(", ")) }
}

fn size(bytes: f64) -> String {
    let sign = if bytes < 0.0 { "−" } else { "" };
    format!("{sign}{}", Iec(bytes.abs() as u64))
}

fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} d", s / 86_400.0),
    }
}

/// The findings as `docs/reference/growth.schema.json` has them.
#[must_use]
pub fn json(findings: &Findings) -> Value {
    let judged: serde_json::Map<String, Value> =
        findings.judged.iter().map(|(q, growth)| (q.key().to_owned(), json!(growth))).collect();
    json!({
        "schema": 1,
        "duration_s": findings.duration_s,
        "counted_as": findings.memory.to_lowercase(),
        "leak_suspected": findings.leak_suspected(),
        "conclusion": findings.conclusion(),
        "quantities": judged,
    })
}
