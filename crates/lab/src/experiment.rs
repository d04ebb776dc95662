//! The whole experiment: a calibration, then block after block until the plan is complete or decided.

use crate::analysis::Settings;
use crate::budget::{Until, last_of, looks, takes};
use crate::calibration::Calibration;
use crate::demands::Demands;
use crate::executor::{Executor, Order, RunError};
use crate::file::ExperimentFile;
use crate::plan::{Design, Plan, Rate};
use crate::result::{Exclusion, RunResult, to_repeat};
use crate::schedule::{self, Slot};
use crate::variant::Variant;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use unbloat_stats::decision::Answer;
use unbloat_stats::forecast::Forecast;
use unbloat_stats::looks::FIRST_LOOK;

/// Follows an experiment.
pub trait Progress {
    /// The calibration on the control starts.
    fn calibrates(&mut self, control: &Variant);
    /// The calibration is complete.
    fn calibrated(&mut self, calibration: &Calibration);
    /// Reports the beginning of a run.
    fn begins(&mut self, variant: &Variant, slot: Slot, place: &Place);
    /// A run has ended.
    fn ended(&mut self, variant: &Variant, result: &RunResult);
    /// Reports the end of a block of an experiment that continues until it is decided.
    fn looked(&mut self, look: &BlockEnd);
}

impl<P: Progress + ?Sized> Progress for &mut P {
    fn calibrates(&mut self, control: &Variant) {
        (**self).calibrates(control);
    }
    fn calibrated(&mut self, calibration: &Calibration) {
        (**self).calibrated(calibration);
    }
    fn begins(&mut self, variant: &Variant, slot: Slot, place: &Place) {
        (**self).begins(variant, slot, place);
    }
    fn ended(&mut self, variant: &Variant, result: &RunResult) {
        (**self).ended(variant, result);
    }
    fn looked(&mut self, look: &BlockEnd) {
        (**self).looked(look);
    }
}

/// Progress of an experiment when a run begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Number of runs made, excluding repetitions of disturbed ones.
    pub done: usize,
    /// Largest number of runs.
    pub most: usize,
    /// Number of disturbed runs of this place so far.
    pub repeat: usize,
    /// Estimated remaining time: until an answer, if one is expected before the last block.
    pub remaining: Duration,
    /// The chance of an answer according to the blocks so far.
    pub chance: Option<f64>,
}

/// State of an experiment at the end of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct BlockEnd {
    /// Number of blocks made.
    pub blocks: usize,
    /// Largest number of blocks.
    pub last: usize,
    /// The chance of an answer within them, and the expected number of blocks until then.
    pub forecast: Option<Forecast>,
    /// Estimated remaining time of the experiment.
    pub remaining: Duration,
    /// Names of variants that get no further runs.
    pub dropped: Vec<String>,
    /// The experiment ends here: there is an answer, or continuing would hardly bring one.
    pub is_over: bool,
}

/// An experiment in progress, with its plan, variants, executor, file and follower.
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
    /// Makes the missing runs. `results` contains the existing runs and receives the new ones; `calibration`
    /// is the one in the file.
    ///
    /// # Errors
    /// The file cannot be written, the control has no rate, or the user wants to stop; completed runs are in
    /// the file.
    pub fn conduct(
        &mut self,
        results: &mut Vec<RunResult>,
        calibration: Option<Calibration>,
        until: Until,
    ) -> Result<(), RunError> {
        let began = Instant::now();
        something_works(results, self.runs_of_a_block(), self.file.path())?;
        let calibration = match calibration {
            Some(calibration) => Some(calibration),
            None => self.calibrate()?,
        };
        let mut state =
            State { running: vec![true; self.variants.len()], calibration, forecast: None, last: 0 };
        for block in 0.. {
            state.last = self.last(until, block, &state, results)?;
            if block >= state.last || !self.has_time(block, until, began, results) {
                break;
            }
            self.block(block, &state, results)?;
            if until.is_sequential() {
                let end = self.look(block + 1, &mut state, results);
                self.progress.looked(&end);
                if end.is_over {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the largest number of blocks. Under a time limit, the duration of the first block determines
    /// it until the first look; then it is fixed, because all looks are planned for it.
    fn last(
        &mut self,
        until: Until,
        block: usize,
        state: &State,
        results: &[RunResult],
    ) -> Result<usize, RunError> {
        let made = results.iter().map(|run| run.slot.block + 1).max().unwrap_or(0);
        let is_settled = block != 1 || made >= FIRST_LOOK;
        match self.file.looks().and_then(last_of) {
            Some(last) if until.is_sequential() && is_settled => return Ok(last),
            Some(_) | None => {}
        }
        let runs = self.runs_of_a_block() as f64;
        let takes = takes(self.plan, state.calibration.as_ref(), results, runs);
        let last = until.last(&self.plan.design, takes);
        if block == 1 || !until.is_sequential() {
            self.file.looked(looks(until, last))?;
        }
        Ok(last)
    }

    /// Returns whether there is time for a block, according to those before. An existing block takes none,
    /// and the first one begins in any case.
    fn has_time(&self, block: usize, until: Until, began: Instant, results: &[RunResult]) -> bool {
        let Until::Decided { within: Some(within) } = until else { return true };
        let is_begun = results.iter().any(|run| run.slot.block >= block);
        let runs = self.runs_of_a_block() as f64;
        is_begun || results.is_empty() || began.elapsed() + takes(self.plan, None, results, runs) <= within
    }

    /// Analyzes the blocks so far. Later blocks of a continued experiment do not count yet.
    fn look(&self, blocks: usize, state: &mut State, results: &[RunResult]) -> BlockEnd {
        let so_far: Vec<RunResult> = results.iter().filter(|run| run.slot.block < blocks).cloned().collect();
        let settings = Settings::of(self.plan, self.variants.len(), self.file.looks().unwrap_or(1));
        let demands = Demands::of(self.variants.len(), &so_far, &settings);
        let barred: Vec<bool> = demands.barred.iter().map(Option::is_some).collect();
        let mut race = demands.race(state.last);
        race.running = state.running[1..].to_vec();
        let look = match blocks {
            // Nothing is planned yet.
            1 => None,
            _ => Some(race.look(&demands.variants, &barred, blocks, settings.seed)),
        };
        let left: Vec<bool> = std::iter::once(true).chain(race.running).collect();
        let names = self.variants.iter().zip(state.running.iter().zip(&left));
        let dropped = names.filter(|(_, (before, now))| **before && !**now).map(|(v, _)| v.name.clone());
        let dropped = dropped.collect();
        state.running = left;
        state.forecast = look.as_ref().and_then(|look| look.forecast.clone());
        BlockEnd {
            blocks,
            last: state.last,
            forecast: state.forecast.clone(),
            remaining: self.remaining(blocks, state, results),
            dropped,
            is_over: look.is_some_and(|look| look.answer != Answer::GoOn),
        }
    }

    /// Returns the estimated remaining time after this many blocks.
    fn remaining(&self, blocks: usize, state: &State, results: &[RunResult]) -> Duration {
        let left = state.last.saturating_sub(blocks) as f64;
        // Before the first look there is no answer, however clear the data seem; the forecast knows that.
        let expected = state.forecast.as_ref().map_or(left, |forecast| forecast.blocks);
        let runs = expected * state.runs_of_a_block() as f64;
        takes(self.plan, state.calibration.as_ref(), results, runs)
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

    /// Makes the missing runs of a block, then repeats the disturbed ones.
    fn block(&mut self, block: usize, state: &State, results: &mut Vec<RunResult>) -> Result<(), RunError> {
        let Design { seed, max_repeats, .. } = self.plan.design;
        let order = schedule::block(seed, block, self.variants.len());
        let position = |slot: Slot| order.iter().position(|other| *other == slot).unwrap_or(0);
        let is_made = |slot: &Slot| results.iter().any(|run| run.slot == *slot);
        let is_wanted =
            |slot: &Slot| state.running.get(slot.variant).copied().unwrap_or(false) && !is_made(slot);
        let missing: Vec<Slot> = order.iter().copied().filter(is_wanted).collect();
        for &slot in &missing {
            self.run(slot, position(slot), 0, state, results)?;
        }
        // A repetition may be disturbed, too; each round repeats every such slot once.
        loop {
            let again = to_repeat(results, block, max_repeats);
            if again.is_empty() {
                break;
            }
            for (slot, repeat) in again {
                self.run(slot, position(slot), repeat, state, results)?;
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => block_works(results, block, state.runs_of_a_block(), self.file.path()),
        }
    }

    fn run(
        &mut self,
        slot: Slot,
        position: usize,
        repeat: usize,
        state: &State,
        results: &mut Vec<RunResult>,
    ) -> Result<(), RunError> {
        let Some(variant) = self.variants.get(slot.variant) else { return Ok(()) };
        let done = places(results);
        let place = Place {
            done,
            most: done.max(
                places_before(results, slot.block) + (state.last - slot.block) * state.runs_of_a_block(),
            ),
            repeat,
            remaining: self.remaining(slot.block, state, results),
            chance: state.forecast.as_ref().map(|forecast| forecast.chance),
        };
        self.progress.begins(variant, slot, &place);
        let id = self.file.begin(slot, position, repeat)?;
        let order =
            Order { id, variant, slot, repeat, calibration: state.calibration.as_ref(), earlier: results };
        let result = self.executor.execute(self.file, &order)?;
        self.file.end(id, &result)?;
        self.progress.ended(variant, &result);
        results.push(result);
        Ok(())
    }
}

/// Conditions of the remaining blocks.
#[derive(Debug)]
struct State {
    /// Variants that get further runs; the control always does.
    running: Vec<bool>,
    calibration: Option<Calibration>,
    forecast: Option<Forecast>,
    /// The largest number of blocks.
    last: usize,
}

impl State {
    fn runs_of_a_block(&self) -> usize {
        1 + self.running.iter().filter(|is_running| **is_running).count()
    }
}

/// Returns the number of places with a run before a block.
fn places_before(results: &[RunResult], block: usize) -> usize {
    results.iter().map(|run| run.slot).filter(|slot| slot.block < block).collect::<BTreeSet<_>>().len()
}

/// Returns the number of places of the experiment with a run.
fn places(results: &[RunResult]) -> usize {
    places_before(results, usize::MAX)
}

/// Stops a resumed experiment if none of its runs counts, since it is not worth more of the machine's time.
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

/// Stops after a block if none of its runs counts. A disturbance may be over in the next block; a broken
/// setup is not.
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
        false => "Fix that; the same command then continues with the next block.".to_owned(),
    };
    Err(RunError::NothingWorks { block: block + 1, reason, next })
}

fn begin_anew(path: &Path) -> String {
    format!(
        "Existing runs are not repeated: fix that, then remove {} or give another file with -o.",
        path.display()
    )
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
            text.contains("block 2") && text.contains("no Redis") && text.contains("continues with the next"),
            "{text}"
        );
        // A resumed experiment continues, because some run counts.
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
