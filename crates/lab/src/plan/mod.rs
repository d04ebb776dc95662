//! The plan of an experiment, read from TOML.
//!
//! | module | concept |
//! |---|---|
//! | [`server`] | the server: starting it, detecting readiness, stopping it |
//! | [`load`] | its work, and the rate |
//! | [`design`] | number, order and conditions of the runs |
//! | [`rule`] | the decision rule |
//! | [`check`] | errors for invalid plans |
//! | [`spelling`] | suggestions for unknown words |

mod check;
mod design;
mod load;
mod rule;
mod server;
mod spelling;

pub use check::PlanError;
pub use design::Design;
pub use load::{BenchCommand, BenchDriver, Load, Rate};
pub use rule::{Margins, Rule};
pub use server::{Ready, Server, Stop};

use crate::calibration::Calibration;
use crate::variant::{self, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// A plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The subject of the experiment in a few words; the report's heading.
    pub title: String,
    /// The server under test.
    pub server: Server,
    /// Its work.
    pub load: Load,
    /// Number, order and conditions of the runs.
    #[serde(default)]
    pub design: Design,
    /// The decision rule.
    #[serde(default)]
    pub rule: Rule,
    /// Built-in variants, by name; the first is the control.
    #[serde(default)]
    pub compare: Vec<String>,
    /// User-defined variants. Without `compare` the first is the control.
    #[serde(default, rename = "variant")]
    pub own: Vec<Variant>,
}

impl Plan {
    /// Parses and checks a plan.
    ///
    /// # Errors
    /// Each names the key or value, and the known alternatives.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let plan: Plan = toml::from_str(text).map_err(|e| PlanError::Syntax {
            message: format!("{e}{}", spelling::nearest_key(e.message())),
        })?;
        plan.variants()?;
        check::check(&plan)?;
        Ok(plan)
    }

    /// Returns all variants, the control first.
    ///
    /// # Errors
    /// An unknown built-in, two variants of the same name, or fewer than two variants.
    pub fn variants(&self) -> Result<Vec<Variant>, PlanError> {
        let built_in = self
            .compare
            .iter()
            .map(|name| variant::built_in(name).ok_or_else(|| check::unknown_variant(name)));
        let mut variants = built_in.collect::<Result<Vec<_>, _>>()?;
        variants.extend(self.own.iter().cloned());
        variants.iter().try_for_each(check::check_variant)?;
        let mut names = BTreeSet::new();
        if let Some(twice) = variants.iter().find(|v| !names.insert(&v.name)) {
            return Err(PlanError::SameName(twice.name.clone()));
        }
        if variants.len() < 2 {
            return Err(PlanError::TooFew);
        }
        Ok(variants)
    }
}

impl Plan {
    /// Returns the warm-up time of a fresh server. At a rate, a web application's first requests are not what
    /// is measured: they compile its templates.
    #[must_use]
    pub fn warm_up(&self) -> Duration {
        let default = match (&self.load, self.load.rate()) {
            (Load::Http(_), Some(Rate::PerSecond(_) | Rate::Auto)) => WARM_UP,
            (_, Some(Rate::PerSecond(_) | Rate::Auto | Rate::Closed) | None) => Duration::ZERO,
        };
        self.design.warm_up.unwrap_or(default)
    }
}

impl Plan {
    /// Returns the expected duration of a run, as known before the first one.
    #[must_use]
    pub fn run_takes(&self, calibration: Option<&Calibration>) -> Duration {
        let load = calibration.map_or(self.design.run_takes, |calibration| {
            Duration::from_secs_f64(calibration.run_s) + SERVER_STARTS
        });
        load + self.warm_up() + self.design.idle_tail
    }
}

/// Expected time for a server to start and end.
const SERVER_STARTS: Duration = Duration::from_secs(5);

/// See [`Plan::warm_up`].
const WARM_UP: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::metric::Metric;

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
        assert_eq!((plan.design.blocks, plan.design.max_blocks), (None, 20));
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
        let bench = BenchCommand {
            url: "{url}".into(),
            options: vec!["--clients=300".into()],
            rate: None,
            utilization: 0.5,
            run_length: None,
        };
        assert_eq!(plan.load, Load::Cable(bench));
        let error =
            Plan::parse(&SMALL.replace("driver = \"own\"", "driver = \"http\"\nopitons = []")).unwrap_err();
        assert!(error.to_string().contains("did you mean `options`?"), "{error}");
    }

    #[test]
    fn a_rate_is_a_word_or_a_number_and_decides_what_the_options_would() {
        let with = |lines: &str| {
            Plan::parse(&SMALL.replace("driver = \"own\"", &format!("driver = \"http\"\n{lines}")))
        };
        for (written, rate) in
            [("\"auto\"", Rate::Auto), ("\"closed\"", Rate::Closed), ("12", Rate::PerSecond(12.0))]
        {
            let plan = with(&format!("rate = {written}")).unwrap();
            assert_eq!(plan.load.rate(), Some(rate));
            assert_eq!(plan.warm_up().is_zero(), rate == Rate::Closed);
            assert_eq!(Plan::parse(&toml::to_string(&plan).unwrap()).unwrap(), plan);
        }
        let refusal = |lines: &str| with(lines).unwrap_err().to_string();
        for (lines, expected) in [
            ("rate = \"auto\"\noptions = [\"--time=5s\"]", "\"--time=5s\", which load.rate determines"),
            ("rate = \"closed\"\noptions = [\"--rate=5\"]", "which load.rate determines"),
            ("rate = 0", "a number per second above 0"),
            ("rate = \"fast\"", "\"auto\", \"closed\" or a number per second"),
            ("run-length = \"10s\"", "set load.rate, too"),
            ("rate = \"auto\"\nutilization = 1.5", "load.utilization"),
        ] {
            assert!(refusal(lines).contains(expected), "{lines}: {}", refusal(lines));
        }
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
            (format!("{SMALL}[design]\nmax-blocks = 3\n"), "design.max-blocks"),
            (format!("{SMALL}[rule]\nmargin = {{ p95 = 2 }}\n"), "rule.margin"),
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
