//! A small experiment for the tests: a control and a variant with 0.6 of its memory at the same latency,
//! under a load with two steps of clients. The noise is a fixed pattern of about 1 %.

use super::{About, Experiment};
use unbloat_lab::analysis::{Analysis, conclude_plan};
use unbloat_lab::calibration::Calibration;
use unbloat_lab::metric::Metric;
use unbloat_lab::plan::Plan;
use unbloat_lab::recommend::Recommendation;
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule;
use unbloat_lab::schedule::Slot;
use unbloat_lab::trace::Trace;
use unbloat_lab::variant::Variant;

const PLAN: &str = r#"# Why <this>
title = "a shop"
compare = ["glibc"]
[server]
start = ["./start"]
ready = { line = "ready" }
[load]
driver = "own"
[design]
seed = 7
[[variant]]
name = "small"
environment = { MALLOC_ARENA_MAX = "2" }
"#;

const MIB: f64 = 1_048_576.0;

/// The owner of the data that an [`Experiment`] borrows.
pub(crate) struct Owned {
    pub(crate) plan: Plan,
    pub(crate) variants: Vec<Variant>,
    pub(crate) results: Vec<RunResult>,
    pub(crate) analysis: Analysis,
    pub(crate) recommendation: Recommendation,
    pub(crate) calibration: Option<Calibration>,
}

impl Owned {
    pub(crate) fn new(blocks: usize) -> Self {
        let plan = Plan::parse(PLAN).unwrap_or_else(|error| panic!("{error}"));
        let variants = plan.variants().unwrap_or_else(|error| panic!("{error}"));
        let results: Vec<RunResult> =
            (0..blocks).flat_map(|block| schedule::block(plan.design.seed, block, 2)).map(run).collect();
        let (analysis, recommendation) = conclude_plan(&plan, &variants, &results, 1);
        Owned { plan, variants, results, analysis, recommendation, calibration: None }
    }

    /// Repeats the analysis after the runs were changed.
    pub(crate) fn conclude(&mut self) {
        self.look(1);
    }

    /// Analyzes again, with this many looks planned.
    pub(crate) fn look(&mut self, looks: usize) {
        (self.analysis, self.recommendation) =
            conclude_plan(&self.plan, &self.variants, &self.results, looks);
    }

    pub(crate) fn experiment(&self) -> Experiment<'_> {
        Experiment {
            plan: &self.plan,
            variants: &self.variants,
            results: &self.results,
            analysis: &self.analysis,
            recommendation: &self.recommendation,
            calibration: self.calibration.as_ref(),
        }
    }

    pub(crate) fn about(&self) -> About {
        About {
            traces: self.results.iter().map(|run| trace(run.slot)).collect(),
            plan: PLAN.to_owned(),
            environment: [("unbloat", "1.2.3"), ("kernel", "6.1")]
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
                .into(),
            recording: "shop.unbloat".to_owned(),
            search: None,
        }
    }
}

fn memory(variant: usize) -> f64 {
    if variant == 0 { 300.0 * MIB } else { 180.0 * MIB }
}

fn run(slot: Slot) -> RunResult {
    let phase = (slot.block * 7 + slot.variant * 3 + slot.replica * 5) as f64;
    let noise = |frequency: f64| 1.0 + 0.01 * (phase * frequency).sin();
    let pss = memory(slot.variant) * noise(1.3);
    RunResult {
        slot,
        repeat: 0,
        wall_s: 10.0,
        metrics: [
            (Metric::PssEnd, pss),
            (Metric::PssPeak, pss * 1.1),
            (Metric::Floor, 150.0 * MIB * noise(0.9)),
            (Metric::P95, 0.1 * noise(2.1)),
            (Metric::P99, 0.2 * noise(1.7)),
            (Metric::Throughput, 100.0 * noise(0.7)),
        ]
        .into(),
        steps: vec![(100.0, 0.05 * noise(0.4)), (200.0, 0.1 * noise(2.1))],
        proof: vec![format!("glibc's arena_max is {}", if slot.variant == 0 { 16 } else { 2 })],
        harness_cpu: 0.001,
        other_cpu: Some(0.02),
        stalled: [None; 3],
        excluded: None,
    }
}

fn trace(slot: Slot) -> Trace {
    let stranded = if slot.variant == 0 { 100.0 } else { 10.0 };
    Trace {
        slot,
        points: (-5..25).map(|second| (f64::from(second), memory(slot.variant))).collect(),
        idle_at: Some(20.0),
        steps: vec![(0.0, 100.0), (10.0, 200.0)],
        made_of: [("malloc_stranded".to_owned(), stranded * MIB)].into(),
    }
}
