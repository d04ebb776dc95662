//! `unbloat bench` from a user's perspective: against servers with known faults, and against Rails and
//! Sidekiq.
#![allow(clippy::unwrap_used, clippy::print_stderr, missing_docs)]

use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use unbloat_load_servers::cable::{Every, Mischief, Server};
use unbloat_recording::Kind;
use unbloat_store::{Reader, Writer, begin};
use unbloat_test_support::assert_follows;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).arg("bench").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the text of a sound run. A machine too busy for the generator still makes the run unclean: then
/// that, and nothing else, has to be reported, with status 3.
fn sound(output: &Output) -> String {
    let stdout = text(&output.stdout);
    let (result, reasons) = stdout.split_once("not clean:\n").unwrap_or((&stdout, ""));
    assert!(reasons.lines().all(|reason| reason.starts_with("  the generator ")), "{output:?}");
    assert_eq!(output.status.code(), Some(if reasons.is_empty() { 0 } else { 3 }), "{output:?}");
    result.to_owned()
}

/// Returns the document of a run, validated by the schema.
fn document(output: &Output) -> Value {
    document_as(output, "bench.schema.json")
}

fn document_as(output: &Output, schema: &str) -> Value {
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_follows(&document, schema);
    document
}

/// An application under test, ended with the test. Its own messages are told if the test fails.
struct App {
    child: Child,
    url: String,
    log: tempfile::NamedTempFile,
}

impl App {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let start = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../apps/{name}/start"));
        let log = tempfile::NamedTempFile::new().unwrap();
        let messages = log.reopen().unwrap();
        let mut command = Command::new(start);
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(messages).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "apps/{name} said {line:?}");
        let url = line.split_whitespace().find_map(|word| word.strip_prefix("url=")).unwrap().to_owned();
        Self { child, url, log }
    }
}

impl Drop for App {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.log.path()).unwrap_or_default());
        }
        // SIGTERM lets it end its own processes, too; it ends within seconds or is killed.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        for _ in 0..200 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SMALL: [&str; 7] = [
    "--clients=20",
    "--step=10",
    "--sample=10",
    "--settle=50ms",
    "--timeout=1s",
    "--quiet",
    "--concurrency=1",
];

#[test]
fn a_clean_run_prints_a_line_per_step_and_leaves_with_zero() {
    let server = Server::start(Mischief::default()).unwrap();
    let output = bench(&[&["cable", &server.url()], &SMALL[..]].concat());
    let stdout = sound(&output);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{stdout}");
    assert!(lines[0].starts_with("clients  fan-out p50"), "{stdout}");
    assert!(lines[2].trim_start().starts_with("20 ") && lines[2].ends_with("200/200"), "{stdout}");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_dirty_run_says_why_and_leaves_with_three() {
    let server = Server::start(Mischief { drop: Every(Some(50)), ..Mischief::default() }).unwrap();
    let url = server.url();
    let arguments = [&["cable", &url], &SMALL[..]].concat();
    let output = bench(&arguments);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stdout).contains("not clean:\n  2 of 100 deliveries were lost\n"),
        "{}",
        text(&output.stdout)
    );
    let document = document(&bench(&[&arguments[..], &["--json"]].concat()));
    assert_eq!((&document["clean"], &document["steps"][0]["lost"]), (&Value::from(false), &Value::from(2)));
}

#[test]
fn the_classic_line_is_that_of_websocket_bench() {
    let server = Server::start(Mischief::default()).unwrap();
    let output = bench(&[&["cable", &server.url(), "--classic"], &SMALL[..]].concat());
    let stdout = text(&output.stdout);
    let line = stdout.lines().next().unwrap();
    assert!(
        line.starts_with("clients:    10    95per-rtt:") && line.contains("ms    median-rtt:"),
        "{stdout}"
    );
}

#[test]
fn nobody_there_is_an_error_and_bad_words_are_a_usage_error() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = bench(&["cable", &format!("ws://{free}/cable")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("Check that the server runs"), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    for arguments in [
        &["cable", "ws://localhost/", "--protocol=stomp"][..],
        &["cable", "ws://localhost/", "--rate=5", "--classic"],
        &["http"],
        &["jobs", "redis://localhost/"],
    ] {
        assert_eq!(bench(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_limit_of_open_files_is_named_with_the_number_that_is_needed() {
    let script = "ulimit -n 60; exec \"$0\" bench cable ws://127.0.0.1:1/cable --clients=1000";
    let output = Command::new("sh").args(["-c", script, env!("CARGO_BIN_EXE_unbloat")]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(
        stderr.contains("1000 connections need 10") && stderr.contains("may have at most 60"),
        "{stderr}"
    );
    assert!(stderr.contains("ulimit -Hn 10"), "{stderr}");
}

#[test]
fn a_redis_that_is_none_is_an_error_with_the_reason() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let web = unbloat_load_servers::http::Server::start().unwrap();
    for address in [free, web.address()] {
        let output = bench(&["jobs", &format!("redis://:secret@{address}/0"), "--class=EmptyJob", "--quiet"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(&format!("cannot connect to the Redis at redis://:***@{address}/0")),
            "{stderr}"
        );
        assert!(stderr.contains("Check that it runs") && !stderr.contains("secret"), "{stderr}");
    }
}

#[test]
fn the_result_lies_in_the_recording_file() {
    let server = Server::start(Mischief::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("run.unbloat");
    let output = bench(&[&["cable", &server.url(), "-o", file.to_str().unwrap()], &SMALL[..]].concat());
    sound(&output);
    let reader = Reader::open(&file).unwrap();
    let latencies = reader.latencies().unwrap();
    let kinds: Vec<(&str, u64)> = latencies.iter().map(|row| (row.kind.as_str(), row.count)).collect();
    let step = [("connect", 10), ("ack", 10), ("delivery", 100), ("fan_out", 10)];
    assert_eq!(&kinds[..4], &step, "{kinds:?}");
    assert_eq!(kinds[6], ("delivery", 200));
    let marks: Vec<String> =
        reader.marks().unwrap().into_iter().map(|mark| mark.name.raw().to_owned()).collect();
    assert_eq!(marks, ["bench cable begins", "10 clients ended", "20 clients ended"]);
    let show = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
        command.arg("show").arg(&file).args(options).output().unwrap()
    };
    let last = &document_as(&show(&["--json"]), "show.schema.json")["latencies"][7];
    assert_eq!((last["step"].as_str(), last["kind"].as_str()), (Some("20 clients"), Some("fan_out")));
    assert_eq!(last["summary"]["count"], 10);
    let shown = text(&show(&[]).stdout);
    assert!(shown.contains("20 clients  delivery         200"), "{shown}");
    // The recording has ended, so nothing can be added to it, and nothing is lost.
    let again = bench(&[&["cable", &server.url(), "-o", file.to_str().unwrap()], &SMALL[..]].concat());
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("run.unbloat"), "{again:?}");
    assert_eq!(Reader::open(&file).unwrap().latencies().unwrap().len(), 8);
}

#[test]
fn a_recording_that_somebody_writes_is_added_to() {
    let server = Server::start(Mischief::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("live.unbloat");
    let writer = Writer::create(&file, &begin(Kind::Record)).unwrap();
    let output = bench(&[&["cable", &server.url(), "-o", file.to_str().unwrap()], &SMALL[..]].concat());
    sound(&output);
    writer.finish(1, "the test is over", None).unwrap();
    let reader = Reader::open(&file).unwrap();
    assert_eq!(reader.latencies().unwrap().len(), 8);
    assert_eq!(reader.marks().unwrap().last().unwrap().name, "bench ends");
}

#[test]
fn http_figures_are_printed_by_batch_and_by_route() {
    let server = unbloat_load_servers::http::Server::start().unwrap();
    let url = |path: &str| format!("http://{}{path}", server.address());
    let (good, bad) = (url("/ok/10"), url("/status/500"));
    let output = bench(&["http", &good, "--requests=30", "--batches=2", "--warm-up=0", "--quiet"]);
    let stdout = sound(&output);
    assert_eq!(stdout.lines().count(), 4, "{stdout}");
    assert!(stdout.lines().nth(2).unwrap().starts_with("batch 2"), "{stdout}");
    assert!(stdout.lines().nth(3).unwrap().starts_with("GET http"), "{stdout}");
    let output = bench(&["http", &good, &bad, "--requests=30", "--warm-up=0", "--quiet", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let document = document(&output);
    assert_eq!(document["total"]["requests"], 30);
    assert!(document["total"]["errors"]["status_500"].as_u64().unwrap() > 5, "{document:#}");
}

#[test]
fn rails_action_cable_is_driven() {
    let app = App::start("cable", &["--workers", "1"]);
    let url = format!("{}/cable", app.url.replacen("http", "ws", 1));
    let output = bench(&["cable", &url, "--clients=40", "--step=20", "--sample=20", "--quiet", "--json"]);
    let result = document(&output);
    let steps = result["steps"].as_array().unwrap();
    assert_eq!(
        (steps[0]["received"].as_u64(), steps[1]["received"].as_u64()),
        (Some(400), Some(800)),
        "{result:#}"
    );
    assert_eq!((&steps[1]["lost"], &steps[1]["errors"]), (&Value::from(0), &serde_json::json!({})));
    assert_eq!(steps[1]["ack"]["count"], 20);
    let output = bench(&[
        "cable",
        &url,
        "--clients=5",
        "--step=5",
        "--channel=NoSuchChannel",
        "--connect-timeout=1s",
        "--quiet",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("is the channel's name right"), "{output:?}");
}

#[test]
fn anycable_is_driven_in_its_own_dialect() {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/anycable/build");
    if !Command::new(build).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success() {
        return eprintln!("left out: anycable-go cannot be built here");
    }
    let app = App::start("anycable", &["--workers", "1"]);
    let url = format!("{}/cable", app.url.replacen("http", "ws", 1));
    for protocol in ["actioncable-v1-json", "actioncable-v1-ext-json"] {
        let load = ["--clients=40", "--step=40", "--sample=20", "--quiet", "--json", "--protocol", protocol];
        let output = bench(&[&["cable", &url], &load[..]].concat());
        let step = &document(&output)["steps"][0];
        let counts = ["received", "lost", "duplicated"].map(|name| step[name].as_u64());
        assert_eq!(counts, [Some(800), Some(0), Some(0)], "{protocol}: {step:#}");
        assert_eq!((&step["errors"], &step["ack"]["count"]), (&serde_json::json!({}), &Value::from(20)));
    }
}

#[test]
fn a_rails_shop_is_visited_by_users_who_have_logged_in() {
    let app = App::start("web", &["--workers", "1"]);
    let routes = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/web/routes.toml");
    let routes = routes.to_str().unwrap();
    let load = ["--base", &app.url, "-c4", "--requests=300", "--warm-up=0", "--quiet", "--json"];
    let result = document(&bench(&[&["http", "--routes", routes], &load[..]].concat()));
    assert_eq!(
        (&result["total"]["requests"], &result["total"]["errors"]),
        (&300.into(), &serde_json::json!({}))
    );
    // Only logged-in users see orders; the route file expects 200 for them, not a redirection.
    for name in ["GET /orders", "GET /products.csv", "GET /search?q={{words}}", "upload"] {
        let routes = result["routes"].as_array().unwrap();
        let route = routes.iter().find(|route| route["name"] == name).unwrap_or_else(|| panic!("{result:#}"));
        assert!(route["requests"].as_u64() > Some(0), "{route:#}");
    }
}

#[test]
fn sidekiq_runs_the_jobs_that_are_pushed() {
    let app = App::start("jobs", &["--threads", "4"]);
    let run = |arguments: &[&str]| bench(&[&["jobs", &app.url, "--quiet", "--json"], arguments].concat());
    let result = document(&run(&["--class=FetchJob", "--args=[7]", "--jobs=40"]));
    assert_eq!(
        (&result["pushed"], &result["ended"], &result["failed"]),
        (&Value::from(40), &Value::from(40), &Value::from(0))
    );
    assert_eq!((&result["queue"]["count"], &result["run"]["count"]), (&Value::from(40), &Value::from(40)));
    assert!(
        result["run_mean_ns"].as_u64().unwrap() > 3_000_000,
        "its stub answers after 5 ms at the earliest: {result:#}"
    );
    let open = document(&run(&["--class=EmptyJob", "--jobs=50", "--rate=100"]));
    assert_eq!(open["ended"], 50, "{open:#}");

    let output = run(&["--class=NoSuchJob", "--jobs=3"]);
    assert_eq!(output.status.code(), Some(3));
    let result = document(&output);
    assert_eq!(
        (&result["failed"], &result["errors"]["NameError"]),
        (&Value::from(3), &Value::from(3)),
        "{result:#}"
    );
    assert!(result["problems"][0].as_str().unwrap().contains("NoSuchJob"), "{result:#}");

    let output = run(&["--class=EmptyJob", "--queue=nobodys"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("they serve default"), "{output:?}");
    let other = format!("{}/5", app.url.trim_end_matches("/0").trim_end_matches('/'));
    let output = bench(&["jobs", &other, "--class=EmptyJob"]);
    assert!(text(&output.stderr).contains("no Sidekiq process is registered"), "{output:?}");
}
