//! Putting the load on a running server, and what came of it.

use crate::keep::{self, Kept};
use crate::metric::Metric;
use crate::plan::{Bench, Load};
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
    /// p95 latency in seconds at each step, by the step's number of clients.
    #[serde(skip)]
    pub steps: Vec<(f64, f64)>,
    /// Why it does not count, if it does not.
    #[serde(skip)]
    pub dirty: Option<String>,
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
        /// The end of its stderr.
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
        let bench = |driver: &str, bench: &Bench| words(self.unbloat, driver, bench);
        match self.load {
            Load::Own { done, within } => Ok(from_line(&server.wait_line(done, *within)?)),
            Load::Command { command } => self.run(command, server, last_figures),
            Load::Cable(options) => self.run(&bench("cable", options), server, cable),
            Load::Http(options) => self.run(&bench("http", options), server, http),
            Load::Jobs(options) => self.run(&bench("jobs", options), server, jobs),
        }
    }

    fn run(
        &self,
        command: &[String],
        server: &mut Running,
        figures: fn(&str) -> Option<Measured>,
    ) -> Result<Measured, DriverError> {
        let words: Vec<String> = command.iter().map(|word| server.fill(word)).collect();
        let program = words.first().cloned().unwrap_or_default();
        let mut command = keep::command(self.unbloat, &words);
        command.current_dir(self.directory).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kept =
            Kept::start(command).map_err(|source| DriverError::Spawn { program: program.clone(), source })?;
        let (stdout, stderr) = (collect(kept.stdout()), collect(kept.stderr()));
        let status = self.wait(&mut kept, server, &program)?;
        // What it left behind would hold its stdout open.
        drop(kept);
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        let mut measured = figures(&stdout).unwrap_or_default();
        match status {
            0 => {}
            DIRTY => {
                measured.dirty.get_or_insert_with(|| tail(&stderr));
            }
            _ => return Err(DriverError::Failed { program, status, output: tail(&stderr) }),
        }
        Ok(measured)
    }

    /// Waits for the end of a load; its status.
    fn wait(&self, kept: &mut Kept, server: &mut Running, program: &str) -> Result<i32, DriverError> {
        let deadline = Instant::now() + self.within;
        loop {
            if let Some(status) = kept.ended() {
                return Ok(status);
            }
            // Without a server a load may wait for long; and what it then says is beside the point.
            server.check()?;
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(DriverError::Interrupted);
            }
            if Instant::now() >= deadline {
                return Err(DriverError::Endless { program: program.to_owned(), after: self.within });
            }
            std::thread::sleep(POLL);
        }
    }
}

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

/// The load runs in a process of its own: its CPU is told from the harness's, and its end is its own.
fn words(unbloat: &Path, driver: &str, bench: &Bench) -> Vec<String> {
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
            .filter_map(|s| Some((s["clients"].as_f64()?, s["fan_out"]["p95_ns"].as_f64()? / 1e9)))
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

/// The last words of an output.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
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
    fn figures_of_a_broadcast_are_those_of_the_last_step() {
        let document = r#"{"clean": false, "problems": ["2 lost"], "steps": [
            {"received": 100, "duration_s": 1.0, "fan_out": {"p50_ns": 1}},
            {"received": 300, "duration_s": 2.0, "fan_out": {"p50_ns": 5000000, "p95_ns": 9000000, "p99_ns": 9500000}}]}"#;
        let measured = cable(document).unwrap_or_default();
        assert_eq!((measured.p50_s, measured.p95_s), (Some(0.005), Some(0.009)));
        assert_eq!((measured.throughput, measured.units), (Some(150.0), Some(400.0)));
        assert_eq!(measured.dirty.as_deref(), Some("2 lost"));
    }
}
