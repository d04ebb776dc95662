//! The whole loop of an experiment with a stand-in for the servers: the runs made, their order, and the
//! repetitions.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use unbloat_lab::analysis::conclude_plan;
use unbloat_lab::budget::Until;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::executor::{Executor, Order, RunError};
use unbloat_lab::experiment::{BlockEnd, Experiment, Place, Progress};
use unbloat_lab::file::{ExperimentFile, Stored};
use unbloat_lab::metric::Metric;
use unbloat_lab::plan::Plan;
use unbloat_lab::recommend::{Answer, Objection, Standing};
use unbloat_lab::result::{Exclusion, RunResult};
use unbloat_lab::schedule::Slot;
use unbloat_lab::variant::Variant;

const PLAN: &str = r#"
title = "two"
compare = ["glibc", "arenas=2"]
[server]
start = ["true"]
ready = { line = "ready" }
[load]
driver = "http"
rate = "auto"
[design]
max-blocks = 12
"#;

const RATE: Calibration =
    Calibration { sustained_per_s: Some(40.0), utilization: Some(0.5), rate_per_s: 20.0, run_s: 30.0 };

/// Decides the outcome of a run; the number counts all runs so far.
type Make = fn(&Order, usize) -> Result<Option<Exclusion>, RunError>;

/// A stand-in: the variant uses 0.7 of the control's memory at no cost, and `make` decides the rest of a
/// run's outcome.
struct Mock {
    make: Make,
    calibrations: usize,
    orders: Vec<(Slot, usize, Option<Calibration>)>,
}

impl Mock {
    fn new(make: Make) -> Self {
        Mock { make, calibrations: 0, orders: Vec::new() }
    }
}

impl Executor for &mut Mock {
    fn execute(&mut self, _file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError> {
        let excluded = (self.make)(order, self.orders.len())?;
        self.orders.push((order.slot, order.repeat, order.calibration.copied()));
        Ok(RunResult { excluded, ..made_up(order) })
    }

    fn calibrate(&mut self, control: &Variant) -> Result<Option<Calibration>, RunError> {
        assert_eq!(control.name, "glibc");
        self.calibrations += 1;
        Ok(Some(RATE))
    }
}

/// A run of a variant with 0.7 of the control's memory at its cost; the noise is a fixed pattern of about 1 %.
fn made_up(order: &Order) -> RunResult {
    let Slot { block, variant, replica } = order.slot;
    let noise =
        |frequency: f64| 1.0 + 0.01 * ((block * 7 + variant * 3 + replica * 5) as f64 * frequency).sin();
    let memory = if variant == 0 { 1.0 } else { 0.7 };
    let metrics = BTreeMap::from([
        (Metric::PssEnd, 3e8 * memory * noise(1.3)),
        (Metric::P95, 0.1 * noise(2.1)),
        (Metric::CpuPerUnit, 0.02 * noise(0.7)),
    ]);
    RunResult {
        slot: order.slot,
        repeat: order.repeat,
        wall_s: 40.0,
        metrics,
        steps: Vec::new(),
        proof: Vec::new(),
        harness_cpu: 0.001,
        other_cpu: Some(0.02),
        stalled: [None; 3],
        excluded: None,
    }
}

/// Reports of each run and of each block.
#[derive(Default)]
struct Told(Vec<Place>, Vec<BlockEnd>);

impl Progress for Told {
    fn calibrates(&mut self, _control: &Variant) {}
    fn calibrated(&mut self, _calibration: &Calibration) {}
    fn begins(&mut self, _variant: &Variant, _slot: Slot, place: &Place) {
        self.0.push(*place);
    }
    fn ended(&mut self, _variant: &Variant, _result: &RunResult) {}
    fn looked(&mut self, end: &BlockEnd) {
        self.1.push(end.clone());
    }
}

/// Conducts the plan in the file at `path`, like `unbloat compare`; returns the outcome and the results.
fn conduct(
    path: &Path,
    mock: &mut Mock,
    told: &mut Told,
    until: Until,
) -> (Result<(), RunError>, Vec<RunResult>) {
    let plan = Plan::parse(PLAN).unwrap();
    let variants = plan.variants().unwrap();
    let (mut file, stored) = ExperimentFile::open(path, &plan, PLAN, &variants).unwrap();
    let mut results = stored.results();
    let mut experiment =
        Experiment { plan: &plan, variants: &variants, executor: mock, file: &mut file, progress: told };
    let end = experiment.conduct(&mut results, stored.calibration, until);
    // Another process would find that this one has ended.
    file.finish("the test says so").unwrap();
    assert_eq!(Stored::read(path).unwrap().results(), results, "what is told is what is kept");
    (end, results)
}

fn answer(results: &[RunResult]) -> Answer {
    let plan = Plan::parse(PLAN).unwrap();
    conclude_plan(&plan, &plan.variants().unwrap(), results, 1).1.answer
}

#[test]
fn every_run_of_the_plan_is_made_once_at_the_rate_of_the_control() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.unbloat");
    let (mut mock, mut told) = (Mock::new(|_, _| Ok(None)), Told::default());
    let (end, results) = conduct(&path, &mut mock, &mut told, Until::Blocks(6));
    end.unwrap();
    assert_eq!((mock.calibrations, results.len()), (1, 18));
    assert!(mock.orders.iter().all(|(_, repeat, calibration)| *repeat == 0 && *calibration == Some(RATE)));
    let expected: Vec<Slot> = (0..6).flat_map(|block| unbloat_lab::schedule::block(1, block, 2)).collect();
    assert_eq!(mock.orders.iter().map(|order| order.0).collect::<Vec<_>>(), expected);
    assert_eq!(told.0.iter().map(|place| place.done).collect::<Vec<_>>(), (0..18).collect::<Vec<_>>());
    // Before the first run by the calibration: 30 s of load, 10 s of warm-up, 10 s of idling, 5 s around them.
    assert_eq!(told.0[0].remaining, Duration::from_secs(18 * 55));
    assert_eq!(told.0[15].remaining, Duration::from_secs(3 * 40), "the last block");
    assert_eq!(answer(&results), Answer::Use { variant: 1, ties: vec![] });
    // Once more: nothing is left to be done.
    let mut again = Mock::new(|_, _| panic!("made already"));
    conduct(&path, &mut again, &mut Told::default(), Until::Blocks(6)).0.unwrap();
    assert_eq!(again.calibrations, 0);
}

#[test]
fn an_interrupted_experiment_goes_on_with_its_order_and_its_rate() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.unbloat");
    let mut mock = Mock::new(|_, made| if made == 7 { Err(RunError::Interrupted) } else { Ok(None) });
    let (end, results) = conduct(&path, &mut mock, &mut Told::default(), Until::Blocks(6));
    assert!(matches!(end, Err(RunError::Interrupted)) && results.len() == 7);
    let mut rest = Mock::new(|_, _| Ok(None));
    conduct(&path, &mut rest, &mut Told::default(), Until::Blocks(6)).0.unwrap();
    assert_eq!((rest.calibrations, rest.orders.len()), (0, 11), "the rate is kept in the file");
    let order: Vec<Slot> = mock.orders.iter().chain(&rest.orders).map(|order| order.0).collect();
    let expected: Vec<Slot> = (0..6).flat_map(|block| unbloat_lab::schedule::block(1, block, 2)).collect();
    assert_eq!(order, expected);
}

#[test]
fn disturbed_runs_are_made_again_at_their_block_s_end_up_to_the_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.unbloat");
    // A noisy neighbor: the second run of the second block once, the variant's run of the third block every
    // time.
    let mut mock = Mock::new(|order, made| {
        let disturbed = made == 4 || (order.slot.block == 2 && order.slot.variant == 1);
        Ok(disturbed.then(|| Exclusion::Disturbed("other programs took 33 %".into())))
    });
    let mut told = Told::default();
    let (end, results) = conduct(&path, &mut mock, &mut told, Until::Blocks(6));
    end.unwrap();
    assert_eq!(results.len(), 18 + 1 + 2);
    let repeats: Vec<(usize, usize, bool)> = results
        .iter()
        .filter(|run| run.repeat > 0)
        .map(|run| (run.slot.block, run.repeat, run.excluded.is_none()))
        .collect();
    assert_eq!(repeats, [(1, 1, true), (2, 1, false), (2, 2, false)]);
    assert_eq!(mock.orders[6].0, mock.orders[4].0, "before the next block begins");
    assert!(told.0.iter().all(|place| place.most == 18 && place.done <= 18));
    assert!(told.0[6].repeat == 1);
    // Five blocks of the variant are left, and they suffice.
    assert_eq!(answer(&results), Answer::Use { variant: 1, ties: vec![] });
    // Gone on with, nothing is tried a fourth time.
    conduct(
        &path,
        &mut Mock::new(|_, _| panic!("tried often enough")),
        &mut Told::default(),
        Until::Blocks(6),
    )
    .0
    .unwrap();
}

#[test]
fn a_neighbor_changes_no_answer() {
    let answers = [(|_, _| Ok(None)) as Make, |order, made| {
        // Occupies a core for a while: every fifth run, which makes memory look better and latency worse.
        Ok((order.repeat == 0 && made % 5 == 0).then(|| Exclusion::Disturbed("a neighbor".into())))
    }]
    .map(|make| {
        let directory = tempfile::tempdir().unwrap();
        let (end, results) = conduct(
            &directory.path().join("x.unbloat"),
            &mut Mock::new(make),
            &mut Told::default(),
            Until::Blocks(6),
        );
        end.unwrap();
        answer(&results)
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn blocks_are_added_until_the_rule_has_an_answer() {
    let directory = tempfile::tempdir().unwrap();
    // In the first six blocks all but four of the variant's runs fail: too few to conclude anything.
    let mut mock = Mock::new(|order, _| {
        let fails = order.slot.variant == 1 && (2..6).contains(&order.slot.block);
        Ok(fails.then(|| Exclusion::Dirty("3 lost".into())))
    });
    let (end, results) = conduct(
        &directory.path().join("x.unbloat"),
        &mut mock,
        &mut Told::default(),
        Until::Decided { within: None },
    );
    end.unwrap();
    let blocks = results.iter().map(|run| run.slot.block + 1).max();
    assert_eq!(
        blocks,
        Some(10),
        "five of the variant's runs, after nine blocks, cannot reach the level of their look; six can"
    );
    assert_eq!(answer(&results), Answer::Use { variant: 1, ties: vec![] });
}

#[test]
fn a_decided_experiment_ends_at_its_first_look_and_a_budget_ends_any() {
    let directory = tempfile::tempdir().unwrap();
    let until = Until::Decided { within: None };
    let path = directory.path().join("x.unbloat");
    let (end, results) = conduct(&path, &mut Mock::new(|_, _| Ok(None)), &mut Told::default(), until);
    end.unwrap();
    assert_eq!(results.len(), 18, "six blocks");
    // Each run reports 40 s: after the first block there is no time for a second one.
    let until = Until::Decided { within: Some(Duration::from_secs(100)) };
    let path = directory.path().join("y.unbloat");
    let mut told = Told::default();
    let (end, results) = conduct(&path, &mut Mock::new(|_, _| Ok(None)), &mut told, until);
    end.unwrap();
    assert_eq!(results.len(), 3);
    assert!(!told.1[0].is_over);
    // With more time the same command goes on.
    let until = Until::Decided { within: Some(Duration::from_secs(3600)) };
    let mut told = Told::default();
    conduct(&path, &mut Mock::new(|_, _| Ok(None)), &mut told, until).0.unwrap();
    let last = told.1.last().unwrap();
    assert_eq!(
        (last.blocks, last.last, last.is_over),
        (6, 12, true),
        "no look was taken, so the looks are planned anew"
    );
    let early = told.1[3].forecast.as_ref().unwrap();
    assert!(early.chance > 0.9 && early.blocks >= 2.0, "two blocks before the first look: {early:?}");
}

/// Of three variants one costs too much: it is dropped at the first look. The two others are noisy enough to go on.
#[test]
fn a_variant_that_is_ruled_out_is_not_run_any_more_also_after_an_interruption() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.unbloat");
    let plan_text = PLAN.replace("\"arenas=2\"]", "\"arenas=2\", \"jemalloc\"]");
    let plan = Plan::parse(&plan_text).unwrap();
    let variants = plan.variants().unwrap();
    let mut orders = Vec::new();
    for interrupt_at in [Some(30), None] {
        let made = orders.len();
        let mut executor =
            Costly { orders: &mut orders, interrupt_at: interrupt_at.map(|at: usize| at - made) };
        let (mut file, stored) = ExperimentFile::open(&path, &plan, &plan_text, &variants).unwrap();
        let (mut results, mut told) = (stored.results(), Told::default());
        let mut experiment = Experiment {
            plan: &plan,
            variants: &variants,
            executor: &mut executor,
            file: &mut file,
            progress: &mut told,
        };
        let until = Until::Decided { within: None };
        let end = experiment.conduct(&mut results, stored.calibration, until);
        assert_eq!(end.is_err(), interrupt_at.is_some());
        assert_eq!(told.1[5].dropped, ["jemalloc"], "at the first look, and again when it is gone on with");
        file.finish("the test says so").unwrap();
    }
    let of_costly = orders.iter().filter(|slot| slot.variant == 2);
    assert_eq!(of_costly.map(|slot| slot.block).max(), Some(5));
    let others = orders.iter().filter(|slot| slot.variant == 1);
    assert!(others.map(|slot| slot.block).max() > Some(6), "the race goes on without it");
    let stored = Stored::read(&path).unwrap();
    let (_, found) = conclude_plan(&plan, &variants, &stored.results(), stored.looks.unwrap());
    assert_eq!(found.standings[1], Standing::RuledOut(Objection::Costs(Metric::CpuPerUnit)), "{found:?}");
}

/// A third variant that costs a third more CPU; the second one's p95 swings from block to block.
struct Costly<'a> {
    orders: &'a mut Vec<Slot>,
    interrupt_at: Option<usize>,
}

impl Executor for &mut Costly<'_> {
    fn execute(&mut self, _file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError> {
        if self.interrupt_at == Some(0) {
            return Err(RunError::Interrupted);
        }
        self.interrupt_at = self.interrupt_at.map(|left| left - 1);
        self.orders.push(order.slot);
        let mut result = made_up(order);
        let factor = match (order.slot.variant, order.slot.block % 2) {
            (1, 0) => 1.12,
            (1, _) => 0.90,
            _ => 1.0,
        };
        result.metrics.entry(Metric::P95).and_modify(|p95| *p95 *= factor);
        let cost = if order.slot.variant == 2 { 1.33 } else { 1.0 };
        result.metrics.entry(Metric::CpuPerUnit).and_modify(|cpu| *cpu *= cost);
        Ok(result)
    }

    fn calibrate(&mut self, _control: &Variant) -> Result<Option<Calibration>, RunError> {
        Ok(Some(RATE))
    }
}

#[test]
fn what_never_works_ends_after_a_block_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.unbloat");
    let mut mock = Mock::new(|_, _| Ok(Some(Exclusion::NotReady("no Redis".into()))));
    let (end, results) = conduct(&path, &mut mock, &mut Told::default(), Until::Blocks(6));
    assert_eq!(results.len(), 3);
    let text = end.unwrap_err().to_string();
    assert!(text.contains("no Redis") && text.contains("-o"), "{text}");
}
