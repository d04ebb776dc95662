//! The whole experiment: a calibration, then block after block until the plan is done, or decided.

use crate::analysis::{Analysis, Settings, analyze};
use crate::calibration::Calibration;
use crate::executor::{Executor, Order, RunError};
use crate::file::ExperimentFile;
use crate::plan::{Design, Plan, Rate};
use crate::recommend::{Recommendation, recommend};
use crate::result::{Exclusion, RunResult, to_repeat};
use crate::schedule::{self, Slot};
use crate::variant::Variant;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use unbloat_stats::looks::FIRST_LOOK;

/// Follows an experiment.
pub trait Progress {
    /// The rate of all runs is being found on the control.
    fn calibrates(&mut self, control: &Variant);
    /// It is found.
    fn calibrated(&mut self, calibration: &Calibration);
    /// A run begins.
    fn begins(&mut self, variant: &Variant, slot: Slot, standing: &Standing);
    /// A run has ended.
    fn ended(&mut self, variant: &Variant, result: &RunResult);
}

/// How far an experiment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Runs that are made, repetitions of disturbed ones not counted.
    pub done: usize,
    /// Runs that there will be.
    pub total: usize,
    /// How many runs of this place were disturbed before.
    pub repeat: usize,
    /// About what the rest takes.
    pub remaining: Option<Duration>,
}

/// At how many blocks the data are looked at.
///
/// Once, at the plan's end; or, if the experiment goes on until it is decided, after each block from the first on that can tell
/// anything, up to the limit.
#[must_use]
pub fn looks(plan: &Plan, until_decided: bool) -> Vec<usize> {
    let limit = plan.design.max_blocks.max(plan.design.blocks);
    match until_decided && limit > FIRST_LOOK {
        true => (FIRST_LOOK..=limit).collect(),
        false if until_decided => vec![limit],
        false => vec![plan.design.blocks],
    }
}

/// How long an experiment goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// The plan's blocks are made.
    Done,
    /// The rule has an answer, or the plan's max-blocks are made, or there is no time for another block.
    Decided {
        /// The time that there is from now on.
        within: Option<Duration>,
    },
}

impl Until {
    /// Returns whether the data are looked at after each block.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(self, Until::Decided { .. })
    }
}

/// An experiment under way: its plan and variants, who makes its runs, where they are kept, and who follows it.
#[derive(Debug)]
pub struct Experiment<'a, E, P> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its variants, the control first.
    pub variants: &'a [Variant],
    /// Makes the runs.
    pub executor: E,
    /// Keeps them.
    pub file: &'a mut ExperimentFile,
    /// Follows it.
    pub progress: P,
}

impl<E: Executor, P: Progress> Experiment<'_, E, P> {
    /// Makes the runs that are still missing. `results` has those that are made, and gets the others; `calibration` is the one in
    /// the file.
    ///
    /// # Errors
    /// The file cannot be written, the control has no rate, or the user wants to stop; what was made is in the file.
    pub fn conduct(
        &mut self,
        results: &mut Vec<RunResult>,
        calibration: Option<Calibration>,
        until: Until,
    ) -> Result<(), RunError> {
        let began = Instant::now();
        let looks = looks(self.plan, until.is_sequential());
        something_works(results, self.runs_of_a_block(), self.file.path())?;
        let calibration = match calibration {
            Some(calibration) => Some(calibration),
            None => self.calibrate()?,
        };
        for &blocks in &looks {
            for block in 0..blocks {
                if !self.has_time(block, until, began, results) {
                    return Ok(());
                }
                self.block(block, blocks, calibration.as_ref(), results)?;
            }
            if until.is_sequential()
                && conclude(self.plan, self.variants, results, looks.len()).1.is_decided()
            {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether there is time for a block, by what those before took. One that is made takes none, and the first one
    /// begins in any case.
    fn has_time(&self, block: usize, until: Until, began: Instant, results: &[RunResult]) -> bool {
        let Until::Decided { within: Some(within) } = until else { return true };
        let is_begun = results.iter().any(|run| run.slot.block >= block);
        let Some(takes) = remaining(self.plan, None, results, self.runs_of_a_block()) else { return true };
        is_begun || results.is_empty() || began.elapsed() + takes <= within
    }

    fn runs_of_a_block(&self) -> usize {
        self.variants.len() + 1
    }

    fn calibrate(&mut self) -> Result<Option<Calibration>, RunError> {
        let Some(control) = self.variants.first() else { return Ok(None) };
        if self.plan.load.rate() == Some(Rate::Auto) {
            self.progress.calibrates(control);
        }
        let found = self.executor.calibrate(control)?;
        if let Some(calibration) = &found {
            self.file.calibrated(calibration)?;
            self.progress.calibrated(calibration);
        }
        Ok(found)
    }

    /// Makes what is missing of a block, then again what was disturbed.
    fn block(
        &mut self,
        block: usize,
        blocks: usize,
        calibration: Option<&Calibration>,
        results: &mut Vec<RunResult>,
    ) -> Result<(), RunError> {
        let Design { seed, max_repeats, .. } = self.plan.design;
        let order = schedule::block(seed, block, self.variants.len());
        let position = |slot: Slot| order.iter().position(|other| *other == slot).unwrap_or(0);
        let is_made = |slot: &Slot| results.iter().any(|run| run.slot == *slot);
        let missing: Vec<Slot> = order.iter().copied().filter(|slot| !is_made(slot)).collect();
        for &slot in &missing {
            self.run(slot, position(slot), 0, blocks, calibration, results)?;
        }
        // A repetition may be disturbed, too; each round makes one of every place.
        loop {
            let again = to_repeat(results, block, max_repeats);
            if again.is_empty() {
                break;
            }
            for (slot, repeat) in again {
                self.run(slot, position(slot), repeat, blocks, calibration, results)?;
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => block_works(results, block, self.runs_of_a_block(), self.file.path()),
        }
    }

    fn run(
        &mut self,
        slot: Slot,
        position: usize,
        repeat: usize,
        blocks: usize,
        calibration: Option<&Calibration>,
        results: &mut Vec<RunResult>,
    ) -> Result<(), RunError> {
        let Some(variant) = self.variants.get(slot.variant) else { return Ok(()) };
        let total = blocks * self.runs_of_a_block();
        let done = places(results);
        let left = total.saturating_sub(done).max(1);
        let remaining = remaining(self.plan, calibration, results, left);
        self.progress.begins(variant, slot, &Standing { done, total, repeat, remaining });
        let id = self.file.begin(slot, position, repeat)?;
        let order = Order { id, variant, slot, repeat, calibration, earlier: results };
        let result = self.executor.execute(self.file, &order)?;
        self.file.end(id, &result)?;
        self.progress.ended(variant, &result);
        results.push(result);
        Ok(())
    }
}

/// Places of the experiment that have a run.
fn places(results: &[RunResult]) -> usize {
    results.iter().map(|run| run.slot).collect::<BTreeSet<_>>().len()
}

/// What the runs show, and what follows.
#[must_use]
pub fn conclude(
    plan: &Plan,
    variants: &[Variant],
    results: &[RunResult],
    looks: usize,
) -> (Analysis, Recommendation) {
    let names: Vec<String> = variants.iter().map(|v| v.name.clone()).collect();
    let settings = Settings::of(plan, names.len(), looks);
    let analysis = analyze(&names, results, settings);
    let recommendation = recommend(&analysis, plan.design.max_blocks);
    (analysis, recommendation)
}

/// An experiment none of whose runs counts is not worth more of the machine's time: asked when it is begun again.
fn something_works(results: &[RunResult], runs_of_a_block: usize, path: &Path) -> Result<(), RunError> {
    match results.first().and_then(|first| first.excluded.as_ref()) {
        Some(reason)
            if results.len() >= runs_of_a_block && results.iter().all(|run| run.excluded.is_some()) =>
        {
            let next = begin_anew(path);
            Err(RunError::NothingWorks { block: 1, reason: reason.clone(), next })
        }
        _ => Ok(()),
    }
}

/// Asked at the end of each block. What disturbed one may be over in the next; what is broken is not.
fn block_works(
    results: &[RunResult],
    block: usize,
    runs_of_a_block: usize,
    path: &Path,
) -> Result<(), RunError> {
    let runs: Vec<&RunResult> = results.iter().filter(|run| run.slot.block == block).collect();
    let is_broken =
        |run: &&RunResult| run.excluded.as_ref().is_some_and(|why| !matches!(why, Exclusion::Disturbed(_)));
    let Some(reason) = runs.first().and_then(|first| first.excluded.clone()) else { return Ok(()) };
    if runs.len() < runs_of_a_block || !runs.iter().all(is_broken) {
        return Ok(());
    }
    let next = match results.iter().all(|run| run.excluded.is_some()) {
        true => begin_anew(path),
        false => "Mend that; the same command then goes on with the next block.".to_owned(),
    };
    Err(RunError::NothingWorks { block: block + 1, reason, next })
}

fn begin_anew(path: &Path) -> String {
    format!(
        "Runs that are made are not made again: mend that, then remove {} or give another file with -o.",
        path.display()
    )
}

/// What `left` runs take: by the runs so far; before the first, by what the plan expects of one.
fn remaining(
    plan: &Plan,
    calibration: Option<&Calibration>,
    results: &[RunResult],
    left: usize,
) -> Option<Duration> {
    let made: f64 = results.iter().map(|run| run.wall_s).sum();
    let each = match results.len() {
        0 => plan.run_takes(calibration).as_secs_f64(),
        n => made / n as f64,
    };
    Duration::try_from_secs_f64(left as f64 * each).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::runs;

    #[test]
    fn a_block_without_a_run_that_counts_ends_the_experiment_and_says_how_to_go_on() {
        let path = Path::new("x.unbloat");
        let mut results = runs(2, &[(1.0, 1.0), (1.0, 1.0)]);
        for run in &mut results[3..] {
            run.excluded = Some(Exclusion::LoadFailed("no Redis".into()));
        }
        let says = |end: Result<(), RunError>| end.err().map_or(String::new(), |error| error.to_string());
        assert_eq!(says(block_works(&results[..5], 1, 3, path)), "");
        let text = says(block_works(&results, 1, 3, path));
        assert!(
            text.contains("block 2") && text.contains("no Redis") && text.contains("goes on with the next"),
            "{text}"
        );
        // Begun again, it goes on, because some run counts.
        assert_eq!(says(something_works(&results, 3, path)), "");
        let broken = &results[3..];
        for text in [says(something_works(broken, 3, path)), says(block_works(broken, 1, 3, path))] {
            assert!(text.contains("remove x.unbloat") && text.contains("-o"), "{text}");
        }
        // A noisy block is no reason to stop.
        results[4].excluded = Some(Exclusion::Disturbed("loud".into()));
        assert_eq!(says(block_works(&results, 1, 3, path)), "");
    }
}
