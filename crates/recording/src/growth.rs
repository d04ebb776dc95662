//! Judges what grows in a recording, how, and whether that is a leak, fragmentation or neither.

use crate::looks::Points;
use crate::recording::{Counted, Recording, Sums};
use unbloat_stats::growth::{Growth, Shape, judge};

/// A quantity that is judged.
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

/// The role of a category of the census.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// The program holds it.
    Live,
    /// It is freed and kept.
    Bloat,
    /// Neither, or not known.
    Neither,
}

/// The judgment of a recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// One for each quantity that was recorded.
    pub judged: Vec<(Quantity, Growth)>,
    /// How [`Quantity::Memory`] is counted.
    pub counted: Counted,
    /// Length of the recording, in seconds.
    pub duration_s: f64,
}

/// The meaning of the findings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Conclusion {
    /// Live memory grows steadily, by bytes a second.
    Leak {
        /// Bytes a second.
        rate: f64,
        /// The number of Ruby objects beside it.
        objects: Objects,
    },
    /// Bloat rises towards a limit, in bytes, while live memory does not grow steadily.
    Fragmentation {
        /// Bytes.
        limit: f64,
    },
    /// Bloat grows steadily while live memory does not: fragmentation that has not ended yet.
    GrowingBloat {
        /// Bytes a second.
        rate: f64,
    },
    /// Live memory rises towards a limit, in bytes.
    FillingCaches {
        /// Bytes.
        limit: f64,
    },
    /// Neither live memory nor bloat grows.
    Plateau,
    /// The tree's memory grows steadily; there are too few censuses to say what of it.
    MemoryGrows {
        /// Bytes a second.
        rate: f64,
    },
    /// The tree's memory rises towards a limit; there are too few censuses to say what of it.
    MemorySaturates {
        /// Bytes.
        limit: f64,
    },
    /// The tree's memory does not grow; there are too few censuses to say more.
    MemoryPlateau,
    /// The recording is too short or too sparse.
    NotEnoughData,
}

/// The trend of the number of Ruby objects while live memory grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objects {
    /// Their number grows steadily, by slots a second.
    Grow(f64),
    /// It does not.
    DoNotGrow,
    /// It was not recorded.
    NotRecorded,
}

impl Findings {
    /// Judges a recording. `holding` tells what a category of the census counts as, by its name.
    #[must_use]
    pub fn of(recording: &Recording, holding: impl Fn(&str) -> Holding) -> Self {
        let census = |wanted: Holding| -> Points {
            let sum = |census: &Sums| {
                let parts = census.iter().filter(|(name, _)| holding(name) == wanted);
                parts.map(|(_, bytes)| *bytes as f64).sum()
            };
            recording.censuses.over_time.iter().map(|(at, census)| (*at, sum(census))).collect()
        };
        let slots = |(at, values): &(f64, Sums)| Some((*at, *values.get("ruby_live_slots")? as f64));
        let (memory, counted) = recording.memory();
        let all = [
            (Quantity::Live, census(Holding::Live)),
            (Quantity::Bloat, census(Holding::Bloat)),
            (Quantity::RubyLiveSlots, recording.counters.iter().filter_map(slots).collect()),
            (Quantity::Memory, memory),
        ];
        let judged =
            all.iter().filter(|(_, points)| !points.is_empty()).map(|(q, points)| (*q, judge(points)));
        Findings { judged: judged.collect(), counted, duration_s: recording.duration_s() }
    }

    /// Tells whether live memory grows steadily.
    #[must_use]
    pub fn leak_suspected(&self) -> bool {
        self.steady_rate(Quantity::Live).is_some() || self.steady_rate(Quantity::RubyLiveSlots).is_some()
    }

    /// The meaning of the findings.
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
            (_, Some(Shape::Linear { rate })) => Conclusion::MemoryGrows { rate: rate.value },
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

    /// Units a second, where the interval excludes a shrinking.
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
