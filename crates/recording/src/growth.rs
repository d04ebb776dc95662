//! Determines what grows in a recording, in what way, and whether that is a leak, fragmentation or neither.

use crate::looks::Points;
use crate::recording::{Composition, Counted, Recording, Sums};
use crate::rising::RisingAll;
use crate::rubies::ClassHolder;
use unbloat_stats::growth::{Growth, Shape, judge};

/// A quantity to analyze.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Memory that the program holds: malloc chunks in use, Ruby objects.
    Live,
    /// cached + trimmable + stranded.
    Bloat,
    /// Ruby slots with an object.
    RubyLiveSlots,
    /// PSS of the tree, or RSS where PSS was never taken.
    Memory,
}

/// The role of a census category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// The program holds it.
    Live,
    /// Freed, but kept by the process.
    Bloat,
    /// Neither, or unknown.
    Neither,
}

/// The findings for a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// One entry per recorded quantity.
    pub judged: Vec<(Quantity, Growth)>,
    /// The unit of [`Quantity::Memory`]: PSS or RSS.
    pub counted: Counted,
    /// The reason why live memory and bloat are not judged, if so.
    pub not_judged: Option<NotJudged>,
    /// The classes and the code that grow.
    pub rising: RisingAll,
    /// The holders of the classes that grow, by the place of the class; `None` if they were not recorded.
    pub holders: Vec<Option<ClassHolder>>,
    /// Length of the recording, in seconds.
    pub duration_s: f64,
}

/// The reason why live memory and bloat are not judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJudged {
    /// No census was taken.
    NoCensus,
    /// No census walked the allocator of every process, and so told freed memory from live.
    NotWalked,
}

/// The meaning of the findings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Conclusion {
    /// Live memory grows steadily.
    Leak {
        /// Bytes per second.
        rate: f64,
        /// The number of Ruby objects at the same time.
        objects: Objects,
    },
    /// Bloat approaches a limit, while live memory does not grow steadily.
    Fragmentation {
        /// Bytes.
        limit: f64,
    },
    /// Bloat grows steadily while live memory does not: fragmentation that has not leveled off yet.
    GrowingBloat {
        /// Bytes per second.
        rate: f64,
    },
    /// Live memory approaches a limit.
    FillingCaches {
        /// Bytes.
        limit: f64,
    },
    /// Neither live memory nor bloat grows.
    Plateau,
    /// The tree's memory grows steadily; the growing part is unknown.
    MemoryGrows {
        /// Bytes per second.
        rate: f64,
        /// The number of Ruby objects at the same time.
        objects: Objects,
    },
    /// The tree's memory approaches a limit; the growing part is unknown.
    MemorySaturates {
        /// Bytes.
        limit: f64,
    },
    /// The tree's memory does not grow; nothing else is known.
    MemoryPlateau,
    /// The recording is too short or too sparse.
    NotEnoughData,
}

/// The trend of the number of Ruby objects while live memory grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objects {
    /// Their number grows steadily, in slots per second.
    Grow(f64),
    /// Their number does not grow.
    DoNotGrow,
    /// Their number was not recorded.
    NotRecorded,
}

impl Findings {
    /// Analyzes a recording. `holding` returns the role of a census category, by its name.
    #[must_use]
    pub fn of(recording: &Recording, holding: impl Fn(&str) -> Holding) -> Self {
        let census = |wanted: Holding| -> Points {
            let sum = |census: &Sums| {
                let parts = census.iter().filter(|(name, _)| holding(name) == wanted);
                parts.map(|(_, bytes)| *bytes as f64).sum()
            };
            let told = recording.censuses.over_time.iter().filter(|census| tells_freed(census, &holding));
            told.map(|census| (census.time_s, sum(&census.bytes))).collect()
        };
        let slots = |(at, values): &(f64, Sums)| Some((*at, *values.get("ruby_live_slots")? as f64));
        let (memory, counted) = recording.memory();
        let live = census(Holding::Live);
        let not_judged = match (live.is_empty(), recording.censuses.is_empty()) {
            (false, _) => None,
            (true, true) => Some(NotJudged::NoCensus),
            (true, false) => Some(NotJudged::NotWalked),
        };
        let all = [
            (Quantity::Live, live),
            (Quantity::Bloat, census(Holding::Bloat)),
            (Quantity::RubyLiveSlots, recording.counters.iter().filter_map(slots).collect()),
            (Quantity::Memory, memory),
        ];
        let judged =
            all.iter().filter(|(_, points)| !points.is_empty()).map(|(q, points)| (*q, judge(points)));
        let rising = RisingAll::of(&recording.rubies);
        let holder = |label| recording.rubies.holder(label).cloned();
        Findings {
            judged: judged.collect(),
            counted,
            not_judged,
            holders: rising.classes.iter().map(|rising| holder(&rising.label)).collect(),
            rising,
            duration_s: recording.duration_s(),
        }
    }

    /// Returns whether live memory grows steadily.
    #[must_use]
    pub fn leak_suspected(&self) -> bool {
        self.steady_rate(Quantity::Live).is_some() || self.steady_rate(Quantity::RubyLiveSlots).is_some()
    }

    /// Returns the meaning of the findings.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        if let Some(rate) = self.steady_rate(Quantity::Live) {
            return Conclusion::Leak { rate, objects: self.objects() };
        }
        if let Some(limit) = self.limit(Quantity::Bloat) {
            return Conclusion::Fragmentation { limit };
        }
        if let Some(rate) = self.steady_rate(Quantity::Bloat) {
            return Conclusion::GrowingBloat { rate };
        }
        if let Some(limit) = self.limit(Quantity::Live) {
            return Conclusion::FillingCaches { limit };
        }
        match (self.shape(Quantity::Live), self.shape(Quantity::Memory)) {
            (Some(Shape::None { .. } | Shape::Linear { .. } | Shape::Saturating { .. }), _) => {
                Conclusion::Plateau
            }
            (_, Some(Shape::Linear { rate })) => {
                Conclusion::MemoryGrows { rate: rate.value, objects: self.objects() }
            }
            (_, Some(Shape::Saturating { limit, .. })) => Conclusion::MemorySaturates { limit: limit.value },
            (_, Some(Shape::None { .. })) => Conclusion::MemoryPlateau,
            (_, Some(Shape::NotEnough { .. }) | None) => Conclusion::NotEnoughData,
        }
    }

    fn objects(&self) -> Objects {
        match self.steady_rate(Quantity::RubyLiveSlots) {
            Some(rate) => Objects::Grow(rate),
            None if self.shape(Quantity::RubyLiveSlots).is_some() => Objects::DoNotGrow,
            None => Objects::NotRecorded,
        }
    }

    fn shape(&self, quantity: Quantity) -> Option<&Shape> {
        self.judged.iter().find(|(q, _)| *q == quantity).map(|(_, growth)| &growth.shape)
    }

    /// Returns units per second, if the interval excludes shrinking.
    fn steady_rate(&self, quantity: Quantity) -> Option<f64> {
        match self.shape(quantity) {
            Some(Shape::Linear { rate }) if rate.low > 0.0 => Some(rate.value),
            _ => None,
        }
    }

    fn limit(&self, quantity: Quantity) -> Option<f64> {
        match self.shape(quantity) {
            Some(Shape::Saturating { limit, .. }) => Some(limit.value),
            _ => None,
        }
    }
}

/// Tells whether a census tells freed memory from live. One of an older file does if it found some.
fn tells_freed(census: &Composition, holding: impl Fn(&str) -> Holding) -> bool {
    census.walked.unwrap_or_else(|| census.bytes.keys().any(|name| holding(name) == Holding::Bloat))
}
