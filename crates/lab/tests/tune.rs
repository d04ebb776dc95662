//! A whole search with a stand-in for the servers: what is tried, dropped and compared in full, and that it goes on where it was.
#![allow(clippy::unwrap_used)]

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use unbloat_lab::analysis::conclude_plan;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::executor::{Executor, Order, RunError};
use unbloat_lab::experiment::{BlockEnd, Place, Progress};
use unbloat_lab::file::{ExperimentFile, Stored};
use unbloat_lab::metric::Metric;
use unbloat_lab::plan::Plan;
use unbloat_lab::recommend::Answer;
use unbloat_lab::result::{Exclusion, RunResult};
use unbloat_lab::schedule::Slot;
use unbloat_lab::tune::standings::Fate;
use unbloat_lab::tune::{Executors, Follow, Round, Search, SearchError, SearchResult};
use unbloat_lab::variant::Variant;

const PLAN: &str = r#"
title = "shop"
compare = ["glibc", "arenas=4"]
[server]
start = ["puma", "-w", "2", "-t", "5"]
ready = { line = "ready" }
[load]
driver = "http"
rate = "auto"
run-length = "40s"
"#;

const RATE: Calibration =
    Calibration { sustained_per_s: Some(40.0), utilization: Some(0.5), rate_per_s: 20.0, run_s: 12.0 };

/// The true effect of a setup on memory and p95.
fn truth(variant: &Variant) -> (f64, f64) {
    let name = variant.name.as_str();
    let memory = match name {
        "glibc" => 1.0,
        name if name.starts_with("lean") => 0.7,
        name if name.starts_with("jemalloc-tuned") => 0.75,
        name if name.contains("arenas") => 0.85,
        _ => 0.95,
    };
    let (refork, gc) = (name.contains("refork"), name.contains("gc-early"));
    // Collecting early is what costs here.
    (memory * if refork { 0.75 } else { 1.0 } * if gc { 0.9 } else { 1.0 }, if gc { 1.4 } else { 1.0 })
}

/// Servers that are not there: each run's figures are the truth with noise of a few percent.
struct Mock {
    random: RefCell<Xoshiro256PlusPlus>,
    /// Runs that were made: of which plan, of what.
    made: RefCell<Vec<(String, String)>>,
    /// Runs after which the user interrupts.
    most: usize,
}

impl Mock {
    fn new(seed: u64, most: usize) -> Self {
        let random = RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed));
        Mock { random, made: RefCell::default(), most }
    }

    fn noise(&self, spread: f64) -> f64 {
        let mut random = self.random.borrow_mut();
        // Sum of twelve: close to normal.
        let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
        (spread * (sum - 6.0)).exp()
    }
}

impl Executors for &Mock {
    type Of<'p>
        = MockRuns<'p>
    where
        Self: 'p;

    fn of<'p>(&'p self, plan: &'p Plan) -> MockRuns<'p> {
        MockRuns { mock: self, plan }
    }

    fn ruby(&self, _plan: &Plan, control: &Variant) -> Result<Option<String>, RunError> {
        assert_eq!(control.name, "glibc");
        Ok(Some("3.1.7".to_owned()))
    }
}

struct MockRuns<'p> {
    mock: &'p Mock,
    plan: &'p Plan,
}

impl Executor for MockRuns<'_> {
    fn execute(&mut self, _file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError> {
        if self.mock.made.borrow().len() == self.mock.most {
            return Err(RunError::Interrupted);
        }
        let name = &order.variant.name;
        self.mock.made.borrow_mut().push((self.plan.title.clone(), name.clone()));
        let (memory, p95) = truth(order.variant);
        let metrics = BTreeMap::from([
            (Metric::PssEnd, 3e8 * memory * self.mock.noise(0.02)),
            (Metric::P95, 0.1 * p95 * self.mock.noise(0.04)),
            (Metric::CpuPerUnit, 0.02 * self.mock.noise(0.02)),
        ]);
        let fails = name.contains("puma=1x10").then(|| Exclusion::NotReady("no such option".to_owned()));
        Ok(RunResult {
            slot: order.slot,
            repeat: order.repeat,
            wall_s: order.calibration.unwrap().run_s,
            metrics,
            steps: Vec::new(),
            proof: Vec::new(),
            harness_cpu: 0.001,
            other_cpu: Some(0.02),
            stalled: [None; 3],
            excluded: fails,
        })
    }

    fn calibrate(&mut self, _control: &Variant) -> Result<Option<Calibration>, RunError> {
        assert!(
            self.plan.title.ends_with("round 1 of a search"),
            "one calibration is enough: {}",
            self.plan.title
        );
        Ok(Some(RATE))
    }
}

/// The reports so far.
#[derive(Default)]
struct Told {
    rounds: Vec<(usize, usize)>,
    finalists: Vec<String>,
}

impl Progress for Told {
    fn calibrates(&mut self, _control: &Variant) {}
    fn calibrated(&mut self, _calibration: &Calibration) {}
    fn begins(&mut self, _variant: &Variant, _slot: Slot, _place: &Place) {}
    fn ended(&mut self, _variant: &Variant, _result: &RunResult) {}
    fn looked(&mut self, _end: &BlockEnd) {}
}

impl Follow for Told {
    fn round(&mut self, _number: usize, _of: usize, round: &Round) {
        self.rounds.push((round.candidates, round.kept));
    }
    fn finals(&mut self, finalists: &[Variant]) {
        self.finalists = finalists.iter().map(|variant| variant.name.clone()).collect();
    }
}

fn search(
    directory: &Path,
    mock: &Mock,
    within: Option<Duration>,
) -> (Result<SearchResult, SearchError>, Told) {
    let plan = Plan::parse(PLAN).unwrap();
    let variants = plan.variants().unwrap();
    let mut search = Search {
        plan: &plan,
        variants: &variants,
        server_directory: Path::new("/srv/shop"),
        directory,
        executors: mock,
        follow: Told::default(),
    };
    let found = search.conduct(within);
    (found, search.follow)
}

#[test]
fn the_best_set_up_is_found_and_proved_on_fresh_runs() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Mock::new(3, usize::MAX);
    let (found, told) = search(directory.path(), &mock, None);
    let found = found.unwrap();
    assert!(
        told.rounds.len() >= 3 && told.rounds.windows(2).all(|pair| pair[1].0 <= pair[0].1),
        "{:?}",
        told.rounds
    );
    assert_eq!(told.finalists[0], "lean + refork", "{:?}", told.finalists);
    let fate =
        |name: &str| found.tried.iter().find(|tried| tried.variant.name == name).map(|tried| &tried.fate);
    assert_eq!(fate("lean + refork"), Some(&Fate::Final));
    assert!(matches!(fate("puma=1x10"), Some(Fate::Failed(1, why)) if why.contains("no such option")));
    assert!(
        matches!(fate("lean + gc-early"), Some(Fate::Dropped(_))),
        "it costs p95: {:?}",
        fate("lean + gc-early")
    );
    assert!(fate("arenas=4").is_some(), "the plan's own setups are tried, too");
    assert!(found.left_out.iter().all(|left| left.what != "refork"));
    // The final comparison: the control and the two, with runs as long as the plan's, none of them from the rounds.
    let stored = Stored::read(&found.recording).unwrap();
    assert_eq!(
        stored.calibration.map(|calibration| (calibration.rate_per_s, calibration.run_s)),
        Some((20.0, 40.0))
    );
    assert_eq!(stored.variants.len(), 3);
    let of_final =
        mock.made.borrow().iter().filter(|(title, _)| title == "shop: what a search found").count();
    assert_eq!(stored.runs.len(), of_final);
    let (_, recommendation) =
        conclude_plan(&stored.plan, &stored.variants, &stored.results(), stored.looks.unwrap());
    assert_eq!(recommendation.answer, Answer::Use { variant: 1, ties: vec![] });
}

#[test]
fn a_search_that_was_stopped_goes_on_with_what_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let whole = Mock::new(3, usize::MAX);
    let other = tempfile::tempdir().unwrap();
    let expected = search(other.path(), &whole, None).0.unwrap();
    let runs = whole.made.borrow().len();
    // One after another, with a cut in each of the phases: the noise goes on as if nothing had happened.
    let mut mock = Mock::new(3, 0);
    for most in [5, 40, runs - 3, usize::MAX] {
        mock.most = most;
        let (end, _) = search(directory.path(), &mock, None);
        match most {
            usize::MAX => {
                let found = end.unwrap();
                assert_eq!(found.tried, expected.tried);
                assert_eq!(
                    Stored::read(&found.recording).unwrap().results(),
                    Stored::read(&expected.recording).unwrap().results()
                );
            }
            _ => assert!(matches!(end, Err(SearchError::Run(RunError::Interrupted)))),
        }
    }
    assert_eq!(mock.made.borrow().len(), runs, "nothing is made twice");
}

#[test]
fn little_time_tries_the_likely_ones_and_says_what_it_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let mock = Mock::new(5, usize::MAX);
    let (found, told) = search(directory.path(), &mock, Some(Duration::from_secs(20 * 60)));
    let found = found.unwrap();
    assert!(found.tried.len() < 15 && told.rounds[0].0 == found.tried.len(), "{:?}", told.rounds);
    assert!(found.tried.iter().any(|tried| tried.variant.name == "lean"));
    let no_time = found.left_out.iter().filter(|left| left.why.to_string().contains("no time")).count();
    assert!(no_time > 5, "{:?}", found.left_out);
}
