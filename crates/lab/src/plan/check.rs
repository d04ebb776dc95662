//! Rejects plans with invalid values, naming the key and a valid value.

use super::load::{BenchCommand, BenchDriver, Load, Rate};
use super::server::{Server, Stop};
use super::spelling::nearest;
use super::{Design, Plan, Rule};
use crate::budget::FEWEST;
use crate::variant::{self, Variant};
use std::time::Duration;
use unbloat_process::signal;

/// The reason why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Not TOML, or not a plan's keys and types.
    #[error("{message}")]
    Syntax {
        /// The problem, with line and column, and the nearest known key.
        message: String,
    },
    /// A built-in variant that does not exist.
    #[error("no built-in variant is called {name:?}{hint}. There are: {known}")]
    UnknownVariant {
        /// The name as given.
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
    /// Two variants have the same name.
    #[error("two variants are called {0:?}: give one of them another name")]
    SameName(String),
    /// A value is invalid.
    #[error("{0}")]
    Value(String),
}

/// The result of a check.
type Checked = Result<(), PlanError>;

fn refuse(text: impl Into<String>) -> Checked {
    Err(PlanError::Value(text.into()))
}

/// Checks everything that the types alone do not.
pub(super) fn check(plan: &Plan) -> Checked {
    server(&plan.server)?;
    load(&plan.load, &plan.design)?;
    design(&plan.design)?;
    rule(&plan.rule)
}

fn server(server: &Server) -> Checked {
    if server.start.is_empty() {
        return refuse("server.start is empty: give the program and its arguments, each in quotes");
    }
    if server.start.iter().any(String::is_empty) {
        return refuse("server.start has an empty word: leave it out");
    }
    match &server.stop {
        Stop::Signal(name) if signal::named(name).is_none() => {
            refuse(format!("server.stop: no signal is called {name:?}. TERM, INT and QUIT are common"))
        }
        Stop::Command(words) if words.first().is_none_or(String::is_empty) => {
            refuse("server.stop is empty: give a signal's name, or a program and its arguments")
        }
        Stop::Signal(_) | Stop::Command(_) => Ok(()),
    }
}

fn load(load: &Load, design: &Design) -> Checked {
    match load {
        Load::Command { command } if command.first().is_none_or(String::is_empty) => {
            refuse("load.command is empty: give the program and its arguments, each in quotes")
        }
        Load::Own { .. } if design.warm_up.is_some_and(|time| !time.is_zero()) => refuse(
            "design.warm-up: a server that does its own work (driver = \"own\") has no load that could warm it up",
        ),
        Load::Command { .. } | Load::Own { .. } => Ok(()),
        Load::Cable(command) => bench(BenchDriver::Cable, command),
        Load::Http(command) => bench(BenchDriver::Http, command),
        Load::Jobs(command) => bench(BenchDriver::Jobs, command),
    }
}

fn bench(driver: BenchDriver, command: &BenchCommand) -> Checked {
    let BenchCommand { options, rate, utilization, run_length, .. } = command;
    if !(*utilization > 0.0 && *utilization < 1.0) {
        return refuse(
            "load.utilization is a share of what the control sustains, between 0 and 1: 0.5 is half of it",
        );
    }
    match rate {
        Some(Rate::PerSecond(rate)) if !(rate.is_finite() && *rate > 0.0) => {
            return refuse("load.rate is \"auto\", \"closed\" or a number per second above 0");
        }
        None | Some(Rate::Closed) if run_length.is_some() => {
            return refuse(
                "load.run-length applies to an open loop: set load.rate, too, for example to \"auto\"",
            );
        }
        _ if run_length.is_some_and(|time| time < Duration::from_secs(1)) => {
            return refuse("load.run-length is below a second: a run needs enough work to have a tail");
        }
        None | Some(Rate::Auto | Rate::Closed | Rate::PerSecond(_)) => {}
    }
    // An option that the rate determines, as the driver itself would refuse it.
    let decided = |option: &&String| {
        let name = option.split('=').next().unwrap_or(option);
        match rate {
            None => false,
            Some(Rate::Closed) => name == "--rate",
            Some(Rate::Auto | Rate::PerSecond(_)) => driver.paced_by().contains(&name),
        }
    };
    match options.iter().find(decided) {
        Some(option) => refuse(format!(
            "load.options has {option:?}, which load.rate determines: leave it out, or leave out load.rate \
             (load.run-length sets the length of a run)"
        )),
        None => Ok(()),
    }
}

fn design(design: &Design) -> Checked {
    if !(design.max_other_cpu > 0.0 && design.max_other_cpu <= 1.0) {
        return refuse(
            "design.max-other-cpu is a share of the machine between 0 and 1: 0.1 stands for 10 %, and 1 lets every run count",
        );
    }
    if design.blocks == Some(0) {
        return refuse("design.blocks is 0: six are the fewest that say much");
    }
    if design.max_blocks < FEWEST {
        return refuse(format!(
            "design.max-blocks is below {FEWEST}, with which there would be a single look at the data. For fewer blocks give \
             design.blocks, which fixes their number"
        ));
    }
    if design.sample_every < Duration::from_millis(10) {
        return refuse("design.sample-every is below 10 ms: sampling would disturb what it measures");
    }
    Ok(())
}

fn rule(rule: &Rule) -> Checked {
    match rule.margin.named().into_iter().all(|share| share > 0.0 && share < 1.0) {
        true => Ok(()),
        false => refuse("rule.margin is a share between 0 and 1: 0.03 stands for 3 %"),
    }
}

/// Checks a user-defined variant before its first run would fail.
pub(super) fn check_variant(variant: &Variant) -> Result<(), PlanError> {
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

/// Allocators that can be recognized in a process.
const ALLOCATORS: [&str; 4] = ["glibc", "jemalloc", "mimalloc", "tcmalloc"];

/// Creates the error for a name that no built-in variant has.
pub(super) fn unknown_variant(name: &str) -> PlanError {
    let names = variant::built_in_names();
    let hint = nearest(name, &names).map_or(String::new(), |near| format!("; did you mean {near:?}?"));
    PlanError::UnknownVariant { name: name.to_owned(), hint, known: names.join(", ") }
}
