//! A load on a server, with stand-ins for both: its end, and the interpretation of its output.
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use unbloat_lab::driver::{Driver, DriverError, Launcher, LoadProcess, Measured, Output, Pace, Target};
use unbloat_lab::plan::{Load, Plan};
use unbloat_lab::server::ServerError;

/// A process that ends after a number of checks with a status and an output; asked to end, it does so at the
/// next check.
#[derive(Clone, Default)]
struct Script {
    looks: usize,
    status: i32,
    output: Output,
    cannot_start: bool,
}

struct MockLauncher {
    script: Script,
    words: RefCell<Vec<String>>,
}

struct MockLoad {
    script: Script,
    looks: usize,
    interrupted: Cell<bool>,
}

impl Launcher for MockLauncher {
    type Process = MockLoad;

    fn launch(&self, words: &[String]) -> io::Result<MockLoad> {
        *self.words.borrow_mut() = words.to_vec();
        match self.script.cannot_start {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(MockLoad { script: self.script.clone(), looks: 0, interrupted: Cell::new(false) }),
        }
    }
}

impl LoadProcess for MockLoad {
    fn ended(&mut self) -> Option<i32> {
        self.looks += 1;
        (self.looks > self.script.looks || self.interrupted.get()).then_some(self.script.status)
    }

    fn interrupt(&self) {
        self.interrupted.set(true);
    }

    fn output(self) -> Output {
        self.script.output
    }
}

/// A server that lives for a number of checks and then prints its line.
struct MockServer {
    lives: usize,
    line: Result<String, ServerError>,
}

impl Target for MockServer {
    fn fill(&self, word: &str) -> String {
        word.replace("{url}", "http://127.0.0.1:4000")
    }

    fn check(&mut self) -> Result<(), ServerError> {
        match self.lives.checked_sub(1) {
            Some(left) => {
                self.lives = left;
                Ok(())
            }
            None => Err(ServerError::Ended { status: 139, output: "Segmentation fault".into() }),
        }
    }

    fn wait_line(&mut self, _: &str, _: Duration, _: &AtomicBool) -> Result<String, ServerError> {
        std::mem::replace(&mut self.line, Err(ServerError::Interrupted))
    }
}

fn healthy() -> MockServer {
    MockServer { lives: usize::MAX, line: Err(ServerError::Interrupted) }
}

fn load(text: &str) -> Load {
    let plan = format!(
        "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"a\"]\nready = {{ line = \"r\" }}\n[load]\n{text}\n"
    );
    Plan::parse(&plan).unwrap().load
}

/// Drives a load; returns the result and the words that started it.
fn drive(load: &Load, script: Script, server: &mut MockServer) -> (Result<Measured, DriverError>, String) {
    let launcher = MockLauncher { script, words: RefCell::default() };
    let driver = Driver {
        load,
        within: Duration::from_millis(200),
        unbloat: Path::new("unbloat"),
        launcher: &launcher,
        interrupted: &AtomicBool::new(false),
    };
    let measured = driver.drive(server, Pace::Open { per_second: 10.0, time: Duration::from_secs(30) });
    let words = launcher.words.borrow().join(" ");
    (measured, words)
}

fn printed(stdout: &str, stderr: &str) -> Output {
    Output { stdout: stdout.into(), stderr: stderr.into() }
}

#[test]
fn a_bench_driver_is_started_at_its_pace_and_its_document_read() {
    let document = r#"{"schema": 1, "bench": "jobs", "clean": true, "problems": [], "interrupted": false,
        "plan": {"class": "A", "queue": "default", "jobs": 300, "pace": {"loop": "open", "rate": 10.0, "arrivals": "constant"}, "seed": 1},
        "pushed": 300, "taken": 300, "ended": 300, "failed": 0, "withdrawn": 0, "processes": 1, "threads": 5, "errors": {},
        "queue": {"count": 300, "min_ns": 1, "p50_ns": 2000000, "p95_ns": 4000000, "p99_ns": 5000000, "mean_above_p90_ns": 4500000, "max_ns": 6000000},
        "run": {"count": 0, "min_ns": null, "p50_ns": null, "p95_ns": null, "p99_ns": null, "mean_above_p90_ns": null, "max_ns": null},
        "resolution": {"count": 0, "min_ns": null, "p50_ns": null, "p95_ns": null, "p99_ns": null, "mean_above_p90_ns": null, "max_ns": null},
        "generator": {"cpu_s": 0.1, "cpu_share": 0.01, "late_p99_ns": 1000, "read_lag_p99_ns": null},
        "duration_s": 30.0, "queue_mean_ns": 2100000, "run_mean_ns": null, "jobs_per_s": 10.0}"#;
    let jobs = load("driver = \"jobs\"\nurl = \"{url}\"\noptions = [\"--class=A\"]\nrate = 10");
    let (measured, words) =
        drive(&jobs, Script { looks: 1, output: printed(document, ""), ..Script::default() }, &mut healthy());
    let measured = measured.unwrap();
    assert_eq!((measured.p95_s, measured.tail_mean_s), (Some(0.004), Some(0.0045)));
    assert_eq!((measured.units, measured.sent_per_s, measured.dirty), (Some(300.0), Some(10.0), None));
    let expected = "unbloat bench jobs http://127.0.0.1:4000 --class=A --rate=10 --jobs=300 --json --quiet";
    assert_eq!(words, expected);
}

#[test]
fn a_command_has_its_figures_in_its_last_json_line_and_is_dirty_with_status_3() {
    let command = load("driver = \"command\"\ncommand = [\"./load\", \"{url}\"]");
    let script = Script {
        status: 3,
        output: printed("noise\n{\"p95_s\": 0.25, \"units\": 80}\nbye\n", "2 timeouts\n"),
        ..Script::default()
    };
    let (measured, words) = drive(&command, script, &mut healthy());
    let measured = measured.unwrap();
    assert_eq!((measured.p95_s, measured.units), (Some(0.25), Some(80.0)));
    assert_eq!(measured.dirty.as_deref(), Some("2 timeouts"));
    assert_eq!(words, "./load http://127.0.0.1:4000");
}

#[test]
fn each_way_to_fail_is_told_from_the_others() {
    let command = load("driver = \"command\"\ncommand = [\"./load\"]");
    let fails = |script: Script, mut server: MockServer| drive(&command, script, &mut server).0.unwrap_err();
    let error =
        fails(Script { status: 1, output: printed("", "no such option\n"), ..Script::default() }, healthy());
    assert_eq!(error.to_string(), "./load ended with status 1: no such option");
    let error = fails(Script { cannot_start: true, ..Script::default() }, healthy());
    assert!(matches!(error, DriverError::Spawn { .. }), "{error}");
    let error = fails(Script { looks: usize::MAX, ..Script::default() }, healthy());
    assert_eq!(error.to_string(), "./load still ran after 200ms (design.load-within)");
    // The server's end is the reason, rather than the load's message.
    let error =
        fails(Script { looks: 5, status: 1, ..Script::default() }, MockServer { lives: 1, ..healthy() });
    assert!(matches!(error, DriverError::Server(ServerError::Ended { status: 139, .. })), "{error}");
}

#[test]
fn a_server_that_works_by_itself_reports_in_a_line() {
    let own = load("driver = \"own\"");
    let line = Ok("done units=160 p95_s=0.004".to_owned());
    let measured = drive(&own, Script::default(), &mut MockServer { line, ..healthy() }).0.unwrap();
    assert_eq!((measured.units, measured.p95_s), (Some(160.0), Some(0.004)));
    let late =
        ServerError::NotReady { ready: "line".into(), after: Duration::from_secs(5), output: "x".into() };
    let error =
        drive(&own, Script::default(), &mut MockServer { line: Err(late), ..healthy() }).0.unwrap_err();
    assert!(matches!(error, DriverError::NotDone { .. }), "{error}");
    let error = drive(&own, Script::default(), &mut healthy()).0.unwrap_err();
    assert!(matches!(error, DriverError::Interrupted), "{error}");
}

#[test]
fn a_warm_up_is_asked_to_end_when_its_time_is_over_and_its_failure_is_one() {
    let command = load("driver = \"command\"\ncommand = [\"./load\"]");
    let warm_up = |script: Script| {
        let launcher = MockLauncher { script, words: RefCell::default() };
        let driver = Driver {
            load: &command,
            within: Duration::from_secs(60),
            unbloat: Path::new("unbloat"),
            launcher: &launcher,
            interrupted: &AtomicBool::new(false),
        };
        driver.warm_up(&mut healthy(), Pace::AsWritten, Duration::from_millis(60))
    };
    warm_up(Script { looks: usize::MAX, status: 130, ..Script::default() }).unwrap();
    warm_up(Script::default()).unwrap();
    let error = warm_up(Script { status: 2, ..Script::default() }).unwrap_err();
    assert!(matches!(error, DriverError::Failed { status: 2, .. }), "{error}");
}
