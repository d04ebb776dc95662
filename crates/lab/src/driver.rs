//! Putting the load on a running server, and what came of it.

use crate::keep::{self, Kept};
use crate::metric::Metric;
use crate::plan::{BenchCommand, Load};
use crate::server::{Running, ServerError, key_values};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unbloat_process::signal;

/// What a load measured.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Measured {
    /// Median latency in seconds.
    pub p50_s: Option<f64>,
    /// 95th percentile in seconds.
    pub p95_s: Option<f64>,
    /// 99th percentile in seconds.
    pub p99_s: Option<f64>,
    /// Units of work per second.
    pub throughput: Option<f64>,
    /// Units of work done: deliveries, requests, jobs.
    pub units: Option<f64>,
    /// Its steps, if it has any.
    #[serde(skip)]
    pub steps: Vec<LoadStep>,
    /// Why it does not count, if it does not.
    #[serde(skip)]
    pub dirty: Option<String>,
}

/// One step of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LoadStep {
    /// Clients that were connected in it.
    pub clients: f64,
    /// When it began to connect them, in seconds since the load began.
    pub start_s: f64,
    /// Its p95 latency in seconds.
    pub p95_s: f64,
}

impl Measured {
    /// The metrics that the load itself yields.
    #[must_use]
    pub fn metrics(&self) -> BTreeMap<Metric, f64> {
        let all = [
            (Metric::P50, self.p50_s),
            (Metric::P95, self.p95_s),
            (Metric::P99, self.p99_s),
            (Metric::Throughput, self.throughput),
        ];
        all.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
    }
}

/// Why a load did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The command could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The command failed.
    #[error("{program} ended with status {status}: {output}")]
    Failed {
        /// The program.
        program: String,
        /// Its status, as a shell shows it.
        status: i32,
        /// The beginning and the end of its stderr.
        output: String,
    },
    /// The server that does its own work did not report the end of it.
    #[error(
        "the server has not printed a line with {done:?} within {after:?} (load.within). Its last words: {output}"
    )]
    NotDone {
        /// What the line contains.
        done: String,
        /// How long it was given.
        after: Duration,
        /// The end of its output.
        output: String,
    },
    /// It did not end.
    #[error("{program} still ran after {after:?} (design.load-within)")]
    Endless {
        /// The program.
        program: String,
        /// How long it was given.
        after: Duration,
    },
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Exit status of a load that ran but was not clean, as `unbloat bench` has it.
const DIRTY: i32 = 3;

/// Who puts the load on: what all loads of an experiment have in common.
#[derive(Debug, Clone, Copy)]
pub struct Driver<'a> {
    /// What to put on the server.
    pub load: &'a Load,
    /// How long that may take.
    pub within: Duration,
    /// Where commands of the user's run.
    pub directory: &'a Path,
    /// This program's own file.
    pub unbloat: &'a Path,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl Driver<'_> {
    /// Runs the load to its end.
    ///
    /// # Errors
    /// It could not be started, failed, or the server ended. A load that ran but was not clean is not an error: see
    /// [`Measured::dirty`].
    pub fn drive(&self, server: &mut Running) -> Result<Measured, DriverError> {
        let figures = match self.load {
            Load::Own { done, within } => return self.own(server, done, *within),
            Load::Command { .. } => last_figures,
            Load::Cable(_) => cable,
            Load::Http(_) => http,
            Load::Jobs(_) => jobs,
        };
        self.run(&command_line(self.load, self.unbloat).unwrap_or_default(), server, figures)
    }

    /// Warms the server up: the load runs for so long, or to its end if that comes first, and its figures are dropped. It is
    /// then asked to end (SIGINT), and after a while ended by force.
    ///
    /// # Errors
    /// It could not be started, failed by itself, or the server ended.
    pub fn warm_up(&self, server: &mut Running, time: Duration) -> Result<(), DriverError> {
        let Some(words) = command_line(self.load, self.unbloat) else { return Ok(()) };
        let mut load = self.start(&words, server)?;
        match self.wait(&mut load.kept, server, time)? {
            Some(status) => load.end(status).map(drop),
            None => {
                // Gone already is as good.
                let _ = signal::interrupt(load.kept.pid());
                self.wait(&mut load.kept, server, WARM_UP_ENDS_WITHIN).map(drop)
            }
        }
    }

    fn own(&self, server: &mut Running, done: &str, within: Duration) -> Result<Measured, DriverError> {
        match server.wait_line(done, within, self.interrupted) {
            Ok(line) => Ok(from_line(&line)),
            Err(ServerError::NotReady { after, output, .. }) => {
                Err(DriverError::NotDone { done: done.to_owned(), after, output })
            }
            Err(ServerError::Interrupted) => Err(DriverError::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    fn run(
        &self,
        command: &[String],
        server: &mut Running,
        figures: fn(&str) -> Option<Measured>,
    ) -> Result<Measured, DriverError> {
        let mut load = self.start(command, server)?;
        let Some(status) = self.wait(&mut load.kept, server, self.within)? else {
            return Err(DriverError::Endless { program: load.program, after: self.within });
        };
        let ended = load.end(status)?;
        let mut measured = figures(&ended.stdout).unwrap_or_default();
        if status == DIRTY {
            measured.dirty.get_or_insert_with(|| ends(&ended.stderr));
        }
        Ok(measured)
    }

    fn start(&self, command: &[String], server: &Running) -> Result<Loading, DriverError> {
        let words: Vec<String> = command.iter().map(|word| server.fill(word)).collect();
        let program = words.first().cloned().unwrap_or_default();
        let mut command = keep::command(self.unbloat, &words);
        command.current_dir(self.directory).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kept =
            Kept::start(command).map_err(|source| DriverError::Spawn { program: program.clone(), source })?;
        let (stdout, stderr) = (collect(kept.stdout()), collect(kept.stderr()));
        Ok(Loading { program, kept, stdout, stderr })
    }

    /// Waits for the end of a load; its status, or none if it goes on for longer.
    fn wait(
        &self,
        kept: &mut Kept,
        server: &mut Running,
        within: Duration,
    ) -> Result<Option<i32>, DriverError> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = kept.ended() {
                return Ok(Some(status));
            }
            // Without a server a load may wait for long; and what it then says is beside the point.
            server.check()?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(DriverError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(POLL);
        }
    }
}

/// A load that runs, in a process of its own.
struct Loading {
    program: String,
    kept: Kept,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

/// What a load has printed.
struct Ended {
    stdout: String,
    stderr: String,
}

impl Loading {
    /// What it printed, if it has not failed.
    fn end(self, status: i32) -> Result<Ended, DriverError> {
        // What it left behind would hold its stdout open.
        drop(self.kept);
        let text = |output: JoinHandle<String>| output.join().unwrap_or_default();
        let ended = Ended { stdout: text(self.stdout), stderr: text(self.stderr) };
        match status {
            0 | DIRTY => Ok(ended),
            _ => Err(DriverError::Failed { program: self.program, status, output: ends(&ended.stderr) }),
        }
    }
}

/// How long a load that warms up may take to end when it is asked to: what it has begun is to be finished.
const WARM_UP_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How often the end of a load is looked for.
const POLL: Duration = Duration::from_millis(50);

/// Reads a pipe to its end.
fn collect(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The command that puts a load on, with `{url}` and the like still in it; `None` if the server does its own work. It runs in a
/// process of its own: its CPU is told from the harness's, and its end is its own.
#[must_use]
pub fn command_line(load: &Load, unbloat: &Path) -> Option<Vec<String>> {
    Some(match load {
        Load::Own { .. } => return None,
        Load::Command { command } => command.clone(),
        Load::Cable(options) => words(unbloat, "cable", options),
        Load::Http(options) => words(unbloat, "http", options),
        Load::Jobs(options) => words(unbloat, "jobs", options),
    })
}

fn words(unbloat: &Path, driver: &str, bench: &BenchCommand) -> Vec<String> {
    let mut words = vec![unbloat.display().to_string(), "bench".into(), driver.into()];
    // A file of routes brings paths; the URL is what they are relative to.
    if bench.options.iter().any(|option| option.starts_with("--routes")) {
        words.push("--base".into());
    }
    words.push(bench.url.clone());
    words.extend(bench.options.iter().cloned());
    words.extend(["--json", "--quiet"].map(str::to_owned));
    words
}

/// The figures in a line's `key=value` words.
fn from_line(line: &str) -> Measured {
    let words = key_values(line);
    let figure = |key: &str| words.get(key).and_then(|value| value.parse().ok());
    Measured {
        p50_s: figure("p50_s"),
        p95_s: figure("p95_s"),
        p99_s: figure("p99_s"),
        throughput: figure("throughput"),
        units: figure("units"),
        ..Measured::default()
    }
}

/// The last line of an output that is a JSON object with figures.
fn last_figures(output: &str) -> Option<Measured> {
    output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// The figures of `bench cable --json`: latency and throughput with all clients connected, work of the whole run.
fn cable(output: &str) -> Option<Measured> {
    let document: Value = serde_json::from_str(output).ok()?;
    let steps = document["steps"].as_array()?;
    let last = steps.last()?;
    let received = |step: &Value| step["received"].as_f64().unwrap_or(0.0);
    Some(Measured {
        throughput: last["duration_s"].as_f64().filter(|s| *s > 0.0).map(|s| received(last) / s),
        units: Some(steps.iter().map(received).sum()),
        steps: steps
            .iter()
            .filter_map(|s| {
                Some(LoadStep {
                    clients: s["clients"].as_f64()?,
                    start_s: s["start_s"].as_f64()?,
                    p95_s: s["fan_out"]["p95_ns"].as_f64()? / 1e9,
                })
            })
            .collect(),
        ..latencies(&document, &last["fan_out"])
    })
}

/// The figures of `bench http --json`: all routes together.
fn http(output: &str) -> Option<Measured> {
    let document: Value = serde_json::from_str(output).ok()?;
    let total = &document["total"];
    let units = total["requests"].as_f64();
    let seconds: f64 =
        document["batches"].as_array()?.iter().filter_map(|batch| batch["duration_s"].as_f64()).sum();
    Some(Measured {
        throughput: units.filter(|_| seconds > 0.0).map(|units| units / seconds),
        units,
        ..latencies(&document, &total["response"])
    })
}

/// The figures of `bench jobs --json`; the latency is that of the queue.
fn jobs(output: &str) -> Option<Measured> {
    let document: Value = serde_json::from_str(output).ok()?;
    Some(Measured {
        throughput: document["jobs_per_s"].as_f64(),
        units: document["ended"].as_f64(),
        ..latencies(&document, &document["queue"])
    })
}

/// The percentiles of one distribution, and what the driver says of the run as a whole.
fn latencies(document: &Value, distribution: &Value) -> Measured {
    let seconds = |key: &str| distribution[key].as_f64().map(|ns| ns / 1e9);
    let problems = document["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
    let problems: Vec<&str> = problems.iter().filter_map(Value::as_str).collect();
    Measured {
        p50_s: seconds("p50_ns"),
        p95_s: seconds("p95_ns"),
        p99_s: seconds("p99_ns"),
        dirty: (!problems.is_empty()).then(|| problems.join("; ")),
        ..Measured::default()
    }
}

/// The first line of an output and the last ones: some programs say first what is wrong, others last.
fn ends(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [first, between @ .., a, b, c] if !between.is_empty() => [*first, "…", a, b, c].join(" | "),
        lines => lines.join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_from_a_line() {
        let measured = from_line("done units=160 throughput=500.5 p95_s=0.004 p99_s=what");
        assert_eq!((measured.units, measured.throughput), (Some(160.0), Some(500.5)));
        assert_eq!(measured.metrics().into_keys().collect::<Vec<_>>(), [Metric::P95, Metric::Throughput]);
    }

    #[test]
    fn the_first_line_of_an_error_is_kept() {
        assert_eq!(
            ends("error: unexpected argument\n\n  tip: x\n\nUsage: y\n\nsee --help\nbye\n"),
            "error: unexpected argument | … | Usage: y | see --help | bye"
        );
        assert_eq!(ends("a\nb\nc\nd\n"), "a | b | c | d");
    }

    #[test]
    fn figures_of_a_broadcast_are_those_of_the_last_step() {
        let document = r#"{"clean": false, "problems": ["2 lost"], "steps": [
            {"received": 100, "duration_s": 1.0, "fan_out": {"p50_ns": 1}},
            {"clients": 20, "start_s": 1.5, "received": 300, "duration_s": 2.0, "fan_out": {"p50_ns": 5000000, "p95_ns": 9000000, "p99_ns": 9500000}}]}"#;
        let measured = cable(document).unwrap_or_default();
        assert_eq!((measured.p50_s, measured.p95_s), (Some(0.005), Some(0.009)));
        assert_eq!((measured.throughput, measured.units), (Some(150.0), Some(400.0)));
        assert_eq!(measured.dirty.as_deref(), Some("2 lost"));
        assert_eq!(measured.steps, [LoadStep { clients: 20.0, start_s: 1.5, p95_s: 0.009 }]);
    }
}
