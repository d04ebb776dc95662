//! The whole experiment: block after block until the plan is done, or decided.

use crate::analysis::{Analysis, Settings, analyze};
use crate::file::ExperimentFile;
use crate::plan::Plan;
use crate::recommend::{Recommendation, recommend};
use crate::result::{Exclusion, RunResult};
use crate::run::{RunError, TestBed};
use crate::schedule::{self, Slot};
use crate::variant::Variant;
use std::path::Path;
use std::time::Duration;

/// Who wants to know how far it is.
pub trait Progress {
    /// A run begins; `done` of `total` runs are made, the rest takes about `remaining`.
    fn begins(
        &mut self,
        variant: &Variant,
        slot: Slot,
        done: usize,
        total: usize,
        remaining: Option<Duration>,
    );
    /// A run has ended.
    fn ended(&mut self, variant: &Variant, result: &RunResult);
}

/// At how many blocks the data are looked at.
///
/// Once, at the plan's end; or, if blocks may be added until something is decided, at the planned number, at the limit,
/// and half-way between.
#[must_use]
pub fn looks(plan: &Plan, until_decided: bool) -> Vec<usize> {
    let (blocks, limit) = (plan.design.blocks, plan.design.max_blocks.max(plan.design.blocks));
    let mut looks =
        if until_decided { vec![blocks, usize::midpoint(blocks, limit), limit] } else { vec![blocks] };
    looks.dedup();
    looks
}

/// Makes the runs that are still missing. `results` has those that are made, and gets the others.
///
/// # Errors
/// The file cannot be written, or the user wants to stop; what was made is in the file.
pub fn conduct(
    bench: &TestBed,
    file: &mut ExperimentFile,
    results: &mut Vec<RunResult>,
    until_decided: bool,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let looks = looks(bench.plan, until_decided);
    let runs_of_a_block = bench.variants.len() + 1;
    something_works(results, runs_of_a_block, file.path())?;
    for (index, &blocks) in looks.iter().enumerate() {
        let missing = missing(bench.plan.design.seed, blocks, bench.variants.len(), results);
        let total = results.len() + missing.len();
        for (slot, position) in missing {
            let Some(variant) = bench.variants.get(slot.variant) else { continue };
            progress.begins(variant, slot, results.len(), total, remaining(bench, results, total));
            let result = bench.run(file, variant, slot, position)?;
            progress.ended(variant, &result);
            results.push(result);
            block_works(results, slot.block, runs_of_a_block, file.path())?;
        }
        let decided = !matches!(answer(bench, results, looks.len()).1, Recommendation::NeedBlocks { .. });
        if decided || index + 1 == looks.len() {
            break;
        }
    }
    Ok(())
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
    let settings = Settings { rule: plan.rule.clone(), seed: plan.design.seed, looks };
    let analysis = analyze(&names, results, settings);
    let recommendation = recommend(&analysis, plan.design.max_blocks);
    (analysis, recommendation)
}

fn answer(bench: &TestBed, results: &[RunResult], looks: usize) -> (Analysis, Recommendation) {
    conclude(bench.plan, bench.variants, results, looks)
}

/// The runs of the first `blocks` blocks that are not made yet, with their places, in the order of the schedule.
fn missing(seed: u64, blocks: usize, variants: usize, made: &[RunResult]) -> Vec<(Slot, usize)> {
    let is_made = |slot: &Slot| made.iter().any(|result| result.slot == *slot);
    let places = |block| schedule::block(seed, block, variants).into_iter().enumerate();
    (0..blocks)
        .flat_map(places)
        .map(|(position, slot)| (slot, position))
        .filter(|(slot, _)| !is_made(slot))
        .collect()
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
    let is_broken = |run: &&RunResult| !matches!(run.excluded, None | Some(Exclusion::Disturbed(_)));
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

/// By the runs so far; before the first, by what the plan expects of one.
fn remaining(bench: &TestBed, results: &[RunResult], total: usize) -> Option<Duration> {
    let left = total.saturating_sub(results.len()) as f64;
    let made: f64 = results.iter().map(|r| r.wall_s).sum();
    let each = match results.len() {
        0 => {
            let design = &bench.plan.design;
            (design.run_takes + design.warm_up + design.idle_tail).as_secs_f64()
        }
        n => made / n as f64,
    };
    Duration::try_from_secs_f64(left * each).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::runs;

    #[test]
    fn what_is_made_is_not_made_again_and_the_rest_keeps_its_order() {
        let all = missing(1, 3, 2, &[]);
        assert_eq!(all.len(), 9);
        let made: Vec<RunResult> = runs(1, &[(1.0, 1.0), (1.0, 1.0)]);
        let rest = missing(1, 3, 2, &made);
        assert_eq!(rest, all[3..]);
    }

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
