//! `unbloat growth` in words, as a page and as JSON: the shape of growth of each quantity, and the conclusion.

use super::plot::{self, By};
use super::rising;
use crate::chart::page::{PART, STILL, figure};
use crate::page::{Page, section};
use crate::style::{Ink, Style, wrap};
use maud::html;
use serde_json::{Value, json};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_recording::Recording;
use unbloat_recording::growth::{Conclusion, Findings, NotJudged, Objects, Quantity};
use unbloat_stats::growth::{Growth, Shape, Shortfall};

/// Seconds per hour, the unit in which growth is reported.
const HOUR: f64 = 3600.0;

fn label(quantity: Quantity, findings: &Findings) -> &'static str {
    match quantity {
        Quantity::Live => "live",
        Quantity::Bloat => "bloat",
        Quantity::RubyLiveSlots => "Ruby live slots",
        Quantity::Memory => findings.counted.name(),
    }
}

fn key(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::Live => "live",
        Quantity::Bloat => "bloat",
        Quantity::RubyLiveSlots => "ruby_live_slots",
        Quantity::Memory => "memory",
    }
}

/// Describes the meaning of the findings, in sentences that name their evidence.
fn conclusion(findings: &Findings) -> String {
    let memory = findings.counted;
    match findings.conclusion() {
        Conclusion::Leak { rate, objects } => format!(
            "A leak is suspected: live memory grows steadily, by {} an hour.{}",
            size(rate * HOUR),
            rising::sentence(findings).unwrap_or_else(|| beside(objects))
        ),
        Conclusion::Fragmentation { limit } => format!(
            "This is fragmentation: what the program holds does not grow steadily, and bloat rises towards \
            a limit of about {}. `unbloat inspect` shows how much of it can be returned.",
            size(limit)
        ),
        Conclusion::GrowingBloat { rate } => format!(
            "Bloat grows steadily, by {} an hour, while what the program holds does not: fragmentation \
            that has not leveled off yet. Record for longer to see its limit.",
            size(rate * HOUR)
        ),
        Conclusion::FillingCaches { limit } => format!(
            "Live memory rises towards a limit of about {}: caches fill, nothing leaks as far as this recording shows.",
            size(limit)
        ),
        Conclusion::Plateau => "A plateau: neither what the program holds nor bloat grows.".to_owned(),
        Conclusion::MemoryGrows { rate, objects } => format!(
            "{memory} grows steadily, by {} an hour. The growing part is unknown: {}.{}",
            size(rate * HOUR),
            why_not_judged(findings),
            rising::sentence(findings).unwrap_or_else(|| match objects {
                Objects::Grow(_) => beside(objects),
                Objects::DoNotGrow | Objects::NotRecorded => String::new(),
            })
        ),
        Conclusion::MemorySaturates { limit } => format!(
            "{memory} rises towards a limit of about {}. Its composition is unknown: {}.",
            size(limit),
            why_not_judged(findings)
        ),
        Conclusion::MemoryPlateau => format!("A plateau: {memory} does not grow."),
        Conclusion::NotEnoughData => {
            "Not enough data: record for longer, under the load that is in question.".to_owned()
        }
    }
}

/// The reason why only the whole was judged.
fn why_not_judged(findings: &Findings) -> &'static str {
    match findings.not_judged {
        Some(NotJudged::NotWalked) => {
            "the heap of an allocator in the tree was not walked, so freed and live memory cannot be distinguished"
        }
        Some(NotJudged::NoCensus) => {
            "the recording contains no census. Record for longer or with a larger --budget"
        }
        None => "the recording contains too few censuses (about 24 are needed)",
    }
}

/// Describes the number of Ruby objects accompanying a leak.
fn beside(objects: Objects) -> String {
    match objects {
        Objects::Grow(rate) => format!(
            " Ruby objects grow with it, by {:.0} slots an hour: look for what keeps them, with \
            `unbloat holds`.",
            rate * HOUR
        ),
        Objects::DoNotGrow => " The number of Ruby objects does not grow with it: they grow in size, or an extension keeps memory.".to_owned(),
        Objects::NotRecorded => String::new(),
    }
}

/// Renders the findings as text.
#[must_use]
pub fn text(findings: &Findings, style: &Style) -> String {
    let mut out = wrap(&conclusion(findings), style.width, 0);
    out.push('\n');
    for (quantity, growth) in &findings.judged {
        let label = label(*quantity, findings);
        let body = wrap(&sentence(*quantity, growth), style.width, 17);
        let _ = write!(out, "{}{}", style.paint(Ink::Bold, &format!("{label:<17}")), body.trim_start());
    }
    out + &rising::text(findings, style)
}

fn sentence(quantity: Quantity, growth: &Growth) -> String {
    let write = |value: f64| {
        if quantity == Quantity::RubyLiveSlots { format!("{:.0} slots", value) } else { size(value) }
    };
    let body = match growth.shape {
        Shape::None { rate, level } => format!(
            "no growth: it stays around {} ({} to {} an hour)",
            write(level),
            write(rate.low * HOUR),
            write(rate.high * HOUR)
        ),
        Shape::Linear { rate } => format!(
            "linear: {} an hour (95 % interval {} to {})",
            write(rate.value * HOUR),
            write(rate.low * HOUR),
            write(rate.high * HOUR)
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

/// The findings as a page, above the chart that they judge.
#[must_use]
pub fn html(findings: &Findings, recording: &Recording) -> String {
    let by = if recording.censuses.is_empty() { By::Process } else { By::Category };
    let chart = plot::chart(std::slice::from_ref(recording), by);
    let judged = html! {
        table.facts {
            @for (quantity, growth) in &findings.judged {
                tr { td { (label(*quantity, findings)) } td { (sentence(*quantity, growth)) } }
            }
        }
    };
    let body = html! {
        section.answer.yes[!findings.leak_suspected()] { p { (conclusion(findings)) } }
        (section("What was judged", "", &judged))
        (rising::html(findings))
        section { (figure(&chart)) }
    };
    let (title, subtitle) = (chart.title.as_str(), chart.subtitle.as_str());
    Page { command: "unbloat growth", title, subtitle, body, parts: &[STILL, PART] }.render()
}

/// Renders the findings according to `docs/reference/growth.schema.json`.
#[must_use]
pub fn json(findings: &Findings) -> Value {
    let judged: serde_json::Map<String, Value> =
        findings.judged.iter().map(|(q, growth)| (key(*q).to_owned(), json!(growth))).collect();
    let mut document = json!({
        "schema": 1,
        "duration_s": findings.duration_s,
        "counted_as": findings.counted.name().to_lowercase(),
        "leak_suspected": findings.leak_suspected(),
        "conclusion": conclusion(findings),
        "quantities": judged,
    });
    if findings.rising.looks > 0 {
        document["rubies"] = rising::json(findings);
    }
    document
}
