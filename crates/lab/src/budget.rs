//! The end of an experiment: a number of blocks, an answer, or a time limit.

use crate::calibration::Calibration;
use crate::plan::{Design, Plan};
use crate::result::RunResult;
use std::time::Duration;
use unbloat_stats::looks::FIRST_LOOK;

/// The fewest blocks for which a sequential experiment is planned: two looks.
pub const FEWEST: usize = FIRST_LOOK + 1;

/// The end of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Exactly this many blocks.
    Blocks(usize),
    /// The rule has an answer, the plan's max-blocks are reached, or no time is left for another block.
    Decided {
        /// The time limit from now on.
        within: Option<Duration>,
    },
}

impl Until {
    /// Returns the end according to the command line, or else the plan.
    #[must_use]
    pub fn of(design: &Design, blocks: Option<usize>, within: Option<Duration>) -> Self {
        match (blocks, within) {
            (Some(blocks), _) => Until::Blocks(blocks),
            (None, Some(within)) => Until::Decided { within: Some(within) },
            (None, None) => design.blocks.map_or(Until::Decided { within: design.within }, Until::Blocks),
        }
    }

    /// Returns whether the data are analyzed after each block.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(self, Until::Decided { .. })
    }

    /// Returns the largest number of blocks; `block` is the duration of one.
    ///
    /// The looks are planned for it, so it must not depend on the results of the runs; their duration is no
    /// result. It is at least [`FEWEST`]: with less time there is no answer, and the experiment can be
    /// continued.
    #[must_use]
    pub fn last(self, design: &Design, block: Duration) -> usize {
        match self {
            Until::Blocks(blocks) => blocks,
            Until::Decided { within: None } => design.max_blocks.max(FEWEST),
            Until::Decided { within: Some(within) } => {
                let fit = within.as_secs_f64() / block.as_secs_f64().max(0.001);
                (fit as usize).clamp(FEWEST, design.max_blocks.max(FEWEST))
            }
        }
    }
}

/// Returns the number of looks at the data of an experiment of at most `last` blocks, as stored in the file.
#[must_use]
pub fn looks(until: Until, last: usize) -> usize {
    match until {
        Until::Blocks(_) => 1,
        Until::Decided { .. } => last.max(FEWEST) - FIRST_LOOK + 1,
    }
}

/// Returns the largest number of blocks of an experiment with this many looks; `None` with one look, which
/// allows any number of blocks.
#[must_use]
pub fn last_of(looks: usize) -> Option<usize> {
    (looks > 1).then(|| FIRST_LOOK + looks - 1)
}

/// Returns the expected duration of this many runs, from the runs so far, or from the plan's estimate before
/// the first.
#[must_use]
pub fn takes(plan: &Plan, calibration: Option<&Calibration>, results: &[RunResult], runs: f64) -> Duration {
    let made: f64 = results.iter().map(|run| run.wall_s).sum();
    let each = match results.len() {
        0 => plan.run_takes(calibration).as_secs_f64(),
        n => made / n as f64,
    };
    Duration::try_from_secs_f64(runs * each).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_asked_for_counts_before_the_plan() {
        let fixed = Design { blocks: Some(3), within: Some(MINUTE), ..Design::default() };
        assert_eq!(Until::of(&fixed, None, None), Until::Blocks(3));
        assert_eq!(Until::of(&fixed, Some(8), Some(MINUTE)), Until::Blocks(8));
        assert_eq!(Until::of(&fixed, None, Some(2 * MINUTE)), Until::Decided { within: Some(2 * MINUTE) });
        assert_eq!(Until::of(&Design::default(), None, None), Until::Decided { within: None });
    }

    #[test]
    fn time_sets_the_largest_number_of_blocks_between_two_looks_and_the_plan_s() {
        let last = |minutes: u32| {
            Until::Decided { within: Some(minutes * MINUTE) }.last(&Design::default(), 2 * MINUTE)
        };
        assert_eq!([last(1), last(13), last(20), last(600)], [7, 7, 10, 20]);
        assert_eq!(Until::Decided { within: None }.last(&Design::default(), MINUTE), 20);
        assert_eq!(Until::Blocks(3).last(&Design::default(), MINUTE), 3);
    }

    #[test]
    fn looks_say_how_many_blocks_they_were_planned_for() {
        let until = Until::Decided { within: None };
        assert_eq!(last_of(looks(until, 20)), Some(20));
        assert_eq!((looks(Until::Blocks(9), 9), last_of(1)), (1, None));
    }
}
