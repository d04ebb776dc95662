//! What is compared: the server, the load, the variants, the design and the rule of decision, read from TOML.

use crate::metric::Metric;
use crate::variant::{self, Variant};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use unbloat_process::signal;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// What the experiment is about, in a few words; the report's heading.
    pub title: String,
    /// How to start and stop the server.
    pub server: Server,
    /// What it has to do.
    pub load: Load,
    /// How many runs, in which order, how long.
    #[serde(default)]
    pub design: Design,
    /// Which variant to recommend.
    #[serde(default)]
    pub rule: Rule,
    /// Built-in variants, by name; the first is the control.
    #[serde(default)]
    pub compare: Vec<String>,
    /// Variants of one's own. Without `compare` the first is the control.
    #[serde(default, rename = "variant")]
    pub own: Vec<Variant>,
}

/// The server under test. Every run starts it afresh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Program and arguments. `{port}` stands for a free port, `{scratch}` for an empty directory of the run.
    pub start: Vec<String>,
    /// Where to start it; relative to the plan's file.
    #[serde(default)]
    pub directory: Option<PathBuf>,
    /// Environment for all variants.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Variable through which `start` takes the words to put in front of the server's own command. Without it they are
    /// put in front of `start`.
    #[serde(default)]
    pub wrapper_variable: Option<String>,
    /// When it is ready.
    pub ready: Ready,
    /// How long that may take.
    #[serde(default = "default_ready_within", with = "humantime_serde")]
    pub ready_within: Duration,
    /// How to ask it to end.
    #[serde(default)]
    pub stop: Stop,
    /// How long it may take to end after that before it is killed, and the run excluded.
    #[serde(default = "default_stop_within", with = "humantime_serde")]
    pub stop_within: Duration,
}

/// How to ask a server to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a signal's name, \"INT\", or a command, [\"./stop\", \"{pid}\"]")]
pub enum Stop {
    /// A signal to the process that was started, by name: `TERM`, `INT`.
    Signal(String),
    /// Program and arguments, run in the server's directory; `{pid}` stands for the process that was started, `{port}` and
    /// `{url}` are filled in.
    Command(Vec<String>),
}

impl Default for Stop {
    fn default() -> Self {
        Stop::Signal("TERM".to_owned())
    }
}

fn default_ready_within() -> Duration {
    Duration::from_secs(60)
}

fn default_stop_within() -> Duration {
    Duration::from_secs(20)
}

/// How to see that the server is ready.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Ready {
    /// A line on stdout that contains this. `url=…` and `pid=…` in it are taken up: `{url}` in the load, and the root of
    /// the tree that is measured.
    Line(String),
    /// A URL that answers with a status below 500.
    Http(String),
    /// A port of 127.0.0.1 that accepts connections.
    Port(String),
}

/// What the server has to do while it is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "driver", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// `unbloat bench cable`.
    Cable(BenchCommand),
    /// `unbloat bench http`.
    Http(BenchCommand),
    /// `unbloat bench jobs`.
    Jobs(BenchCommand),
    /// Any command; `{url}` and `{port}` are filled in. Exit status 0: clean, 3: dirty, anything else: failed. The last
    /// line of its stdout that is a JSON object may give `p50_s`, `p95_s`, `p99_s`, `throughput` and `units`.
    Command {
        /// Program and arguments.
        command: Vec<String>,
    },
    /// The server does its own work and reports it: a line on its stdout that contains `done` and has `key=value`
    /// words, of which the same names as above are taken.
    Own {
        /// What the line contains.
        #[serde(default = "default_done")]
        done: String,
        /// How long that may take.
        #[serde(default = "default_own_within", with = "humantime_serde")]
        within: Duration,
    },
}

/// One of `unbloat bench`'s drivers, with its options as on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BenchCommand {
    /// What to send the load to; `{url}`, `{host}` and `{port}` are filled in.
    #[serde(default = "default_url")]
    pub url: String,
    /// Options, one a string: `"--clients=300"`.
    #[serde(default)]
    pub options: Vec<String>,
}

fn default_url() -> String {
    "{url}".to_owned()
}

fn default_done() -> String {
    "done".to_owned()
}

fn default_own_within() -> Duration {
    Duration::from_secs(600)
}

/// The size and order of the experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Design {
    /// Blocks: every variant once, the control twice.
    pub blocks: usize,
    /// Blocks up to which `--until-decided` adds.
    pub max_blocks: usize,
    /// Of the order of the runs and of the resampling.
    pub seed: u64,
    /// How long a server that is ready is warmed up: the plan's load runs for so long, is then asked to end with SIGINT, and its
    /// figures are dropped. Zero: not at all.
    #[serde(with = "humantime_serde")]
    pub warm_up: Duration,
    /// The largest share of the machine's CPU that anything but server, load and harness may take while the load runs; a run
    /// with more does not count. Without it every run counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_other_cpu: Option<f64>,
    /// Idle time after the load, before memory is read again.
    #[serde(with = "humantime_serde")]
    pub idle_tail: Duration,
    /// How long a load that is a command may take before the run is given up.
    #[serde(with = "humantime_serde")]
    pub load_within: Duration,
    /// What a run takes, as far as one knows; for the remaining time before the first run has ended.
    #[serde(with = "humantime_serde")]
    pub run_takes: Duration,
    /// How often memory and CPU are sampled during a run, at most: sampling may take 1 % of one core.
    #[serde(with = "humantime_serde")]
    pub sample_every: Duration,
}

impl Default for Design {
    fn default() -> Self {
        Design {
            blocks: 6,
            max_blocks: 20,
            seed: 1,
            warm_up: Duration::ZERO,
            max_other_cpu: None,
            idle_tail: Duration::from_secs(10),
            load_within: Duration::from_secs(1800),
            run_takes: Duration::from_secs(30),
            sample_every: Duration::from_millis(250),
        }
    }
}

/// Which variant to recommend: the least of one metric among those that are shown not to cost more than a margin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Rule {
    /// What is to be small.
    pub minimize: Metric,
    /// What must not get worse.
    pub not_worse: Vec<Metric>,
    /// By how much at most, as a share: 0.03 is 3 %.
    pub margin: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Rule { minimize: Metric::PssEnd, not_worse: vec![Metric::P95, Metric::Throughput], margin: 0.03 }
    }
}

impl Rule {
    /// The metrics that it looks at, each once: what is to be small, then what must not get worse.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut seen = BTreeSet::new();
        let all = std::iter::once(self.minimize).chain(self.not_worse.iter().copied());
        all.filter(|metric| seen.insert(*metric)).collect()
    }
}

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not TOML, or not a plan's keys and types.
    #[error("{message}")]
    Syntax {
        /// What is wrong, with line and column, and the nearest known key.
        message: String,
    },
    /// A built-in variant that does not exist.
    #[error("no built-in variant is called {name:?}{hint}. There are: {known}")]
    UnknownVariant {
        /// What was asked for.
        name: String,
        /// `; did you mean …?`, or nothing.
        hint: String,
        /// All names.
        known: String,
    },
    /// Fewer than two variants.
    #[error(
        "a plan compares at least two variants: name them in `compare`, or describe them in [[variant]] tables"
    )]
    TooFew,
    /// Two variants of one name.
    #[error("two variants are called {0:?}: give one of them another name")]
    SameName(String),
    /// A value that makes no sense.
    #[error("{0}")]
    Value(String),
}

impl Plan {
    /// Reads a plan and checks it.
    ///
    /// # Errors
    /// Each names the key or value, and what is known instead.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = toml::from_str(text)
            .map_err(|e| PlanError::Syntax { message: format!("{e}{}", nearest_key(e.message())) })?;
        plan.variants()?;
        plan.check()?;
        Ok(plan)
    }

    /// All variants, the control first.
    ///
    /// # Errors
    /// An unknown built-in, two of one name, or fewer than two.
    pub fn variants(&self) -> Result<Vec<Variant>, PlanError> {
        let built_in =
            self.compare.iter().map(|name| variant::built_in(name).ok_or_else(|| unknown_variant(name)));
        let mut variants = built_in.collect::<Result<Vec<_>, _>>()?;
        variants.extend(self.own.iter().cloned());
        variants.iter().try_for_each(check_variant)?;
        let mut names = BTreeSet::new();
        if let Some(twice) = variants.iter().find(|v| !names.insert(&v.name)) {
            return Err(PlanError::SameName(twice.name.clone()));
        }
        if variants.len() < 2 {
            return Err(PlanError::TooFew);
        }
        Ok(variants)
    }

    fn check(&self) -> Result<(), PlanError> {
        let wrong = |text: &str| Err(PlanError::Value(text.to_owned()));
        if self.server.start.is_empty() {
            return wrong("server.start is empty: give the program and its arguments, each in quotes");
        }
        if self.server.start.iter().any(String::is_empty) {
            return wrong("server.start has an empty word: one that is not needed is left out");
        }
        match &self.server.stop {
            Stop::Signal(name) if signal::named(name).is_none() => {
                return wrong(&format!(
                    "server.stop: no signal is called {name:?}. TERM, INT and QUIT are common"
                ));
            }
            Stop::Command(words) if words.first().is_none_or(String::is_empty) => {
                return wrong("server.stop is empty: give a signal's name, or a program and its arguments");
            }
            _ => {}
        }
        match &self.load {
            Load::Command { command } if command.first().is_none_or(String::is_empty) => {
                return wrong("load.command is empty: give the program and its arguments, each in quotes");
            }
            Load::Own { .. } if !self.design.warm_up.is_zero() => {
                return wrong(
                    "design.warm-up: a server that does its own work (driver = \"own\") has no load that could warm it up",
                );
            }
            _ => {}
        }
        if self.design.max_other_cpu.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
            return wrong(
                "design.max-other-cpu is a share of the machine between 0 and 1: 0.1 stands for 10 %",
            );
        }
        if self.design.blocks == 0 {
            return wrong("design.blocks is 0: six are the fewest that say much");
        }
        if self.design.sample_every < Duration::from_millis(10) {
            return wrong("design.sample-every is below 10 ms: sampling would disturb what it measures");
        }
        if !(self.rule.margin > 0.0 && self.rule.margin < 1.0) {
            return wrong("rule.margin is a share between 0 and 1: 0.03 stands for 3 %");
        }
        Ok(())
    }
}

/// What is wrong with a variant of one's own would else be found out by its first run only.
fn check_variant(variant: &Variant) -> Result<(), PlanError> {
    let Variant { name, allocator, start, .. } = variant;
    if name.trim().is_empty() {
        return Err(PlanError::Value(
            "a [[variant]] has an empty name: tables and charts need one".to_owned(),
        ));
    }
    if let Some(unknown) = allocator.as_deref().filter(|name| !ALLOCATORS.contains(name)) {
        let hint =
            nearest(unknown, &ALLOCATORS).map_or(String::new(), |near| format!("; did you mean {near:?}?"));
        let known = ALLOCATORS.join(", ");
        return Err(PlanError::Value(format!(
            "variant {name:?}: no allocator is called {unknown:?}{hint} There are: {known}"
        )));
    }
    if start.as_ref().is_some_and(|start| start.first().is_none_or(String::is_empty)) {
        return Err(PlanError::Value(format!(
            "variant {name:?}: start is empty: leave it out, or give a program"
        )));
    }
    Ok(())
}

/// Allocators that can be told apart in a process.
const ALLOCATORS: [&str; 4] = ["glibc", "jemalloc", "mimalloc", "tcmalloc"];

fn unknown_variant(name: &str) -> PlanError {
    let names = variant::built_in_names();
    let hint = nearest(name, &names).map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    PlanError::UnknownVariant { name: name.to_owned(), hint, known: names.join(", ") }
}

/// What to add to serde's "unknown field `x`, expected one of `a`, `b`": the nearest of the known ones.
fn nearest_key(message: &str) -> String {
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return String::new();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next() else { return String::new() };
    let known: Vec<&str> = quoted.collect();
    nearest(unknown, &known).map_or(String::new(), |near| format!("did you mean `{near}`?\n"))
}

fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|k| (*k, strsim::jaro_winkler(word, k)));
    scored.filter(|(_, score)| *score > 0.7).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(k, _)| k)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SMALL: &str = r#"
title = "small"
compare = ["glibc", "arenas=2"]
[server]
start = ["./start", "--port", "{port}"]
ready = { line = "ready" }
[load]
driver = "own"
"#;

    #[test]
    fn a_small_plan_has_defaults() {
        let plan = Plan::parse(SMALL).unwrap();
        assert_eq!(plan.design.blocks, 6);
        assert_eq!(plan.rule.minimize, Metric::PssEnd);
        let names: Vec<_> = plan.variants().unwrap().into_iter().map(|v| v.name).collect();
        assert_eq!(names, ["glibc", "arenas=2"]);
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest_known_one() {
        let text = format!("{SMALL}\n[design]\nblokcs = 3\n");
        let error = Plan::parse(&text).unwrap_err().to_string();
        assert!(error.contains("`blokcs`") && error.contains("did you mean `blocks`?"), "{error}");
        assert!(error.contains("line 11"), "{error}");
    }

    #[test]
    fn an_unknown_variant_is_named_with_the_nearest_known_one() {
        let error = Plan::parse(&SMALL.replace("arenas=2", "jemaloc")).unwrap_err().to_string();
        assert!(error.contains("did you mean \"jemalloc\"?"), "{error}");
    }

    #[test]
    fn one_variant_or_the_same_twice_is_refused() {
        assert!(matches!(Plan::parse(&SMALL.replace(", \"arenas=2\"", "")), Err(PlanError::TooFew)));
        assert!(matches!(Plan::parse(&SMALL.replace("arenas=2", "glibc")), Err(PlanError::SameName(_))));
    }

    #[test]
    fn a_bench_driver_takes_its_options_and_nothing_unknown() {
        let load = "driver = \"cable\"\noptions = [\"--clients=300\"]";
        let plan = Plan::parse(&SMALL.replace("driver = \"own\"", load)).unwrap();
        let bench = BenchCommand { url: "{url}".into(), options: vec!["--clients=300".into()] };
        assert_eq!(plan.load, Load::Cable(bench));
        let error =
            Plan::parse(&SMALL.replace("driver = \"own\"", "driver = \"http\"\nopitons = []")).unwrap_err();
        assert!(error.to_string().contains("did you mean `options`?"), "{error}");
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_the_key() {
        let own = "driver = \"own\"";
        let variant = |lines: &str| format!("{SMALL}[[variant]]\n{lines}\n");
        let cases = [
            (SMALL.replace(own, "driver = \"command\"\ncommand = []"), "load.command is empty"),
            (variant("name = \" \""), "empty name"),
            (variant("name = \"x\"\nallocator = \"jemaloc\""), "did you mean \"jemalloc\"?"),
            (variant("name = \"x\"\nstart = []"), "start is empty"),
            (SMALL.replace("[load]", "stop = \"TREM\"\n[load]"), "no signal is called \"TREM\""),
            (SMALL.replace("[load]", "stop = []\n[load]"), "server.stop is empty"),
            (format!("{SMALL}[design]\nwarm-up = \"1s\"\n"), "design.warm-up"),
            (format!("{SMALL}[design]\nmax-other-cpu = 10\n"), "design.max-other-cpu"),
        ];
        for (text, expected) in cases {
            let error = Plan::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn a_server_is_stopped_by_a_signal_or_a_command() {
        let stop = |line: &str| {
            Plan::parse(&SMALL.replace("[load]", &format!("{line}\n[load]"))).unwrap().server.stop
        };
        assert_eq!(stop(""), Stop::Signal("TERM".into()));
        assert_eq!(stop("stop = \"INT\""), Stop::Signal("INT".into()));
        assert_eq!(
            stop("stop = [\"./stop\", \"{pid}\"]"),
            Stop::Command(vec!["./stop".into(), "{pid}".into()])
        );
    }

    #[test]
    fn a_plan_survives_being_written() {
        let plan = Plan::parse(SMALL).unwrap();
        assert_eq!(Plan::parse(&toml::to_string(&plan).unwrap()).unwrap(), plan);
    }
}
