//! `unbloat export` on a real Puma: scraped by this test, checked by promtool, and scraped by Debian's Prometheus.

use crate::BINARY;
use crate::puma::Puma;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use unbloat_test_support::Target;

const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is killed when it is dropped.
struct Guard(std::process::Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running exporter.
struct Exporter {
    process: Guard,
    address: SocketAddr,
}

impl Exporter {
    /// Starts one that watches the processes below this one, with everything as often as it can.
    fn start(master: &Target, more: &[&str]) -> Self {
        let name = regex::escape(&socket_of(master));
        let mut process = Command::new(BINARY)
            .args(["export", "--listen", "127.0.0.1:0", "--name", &name, "--budget", "100%"])
            .args(["--interval", "200ms", "--pss", "200ms", "--look", "500ms"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Exporter { process: Guard(process), address }
    }

    fn scrape(&self) -> String {
        get(self.address, "/metrics")
    }

    /// Scrapes until the text satisfies a condition.
    fn until(&self, satisfied: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.scrape();
            if satisfied(&text) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {text}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The path of the socket in the title of a Puma, which no other process has.
fn socket_of(master: &Target) -> String {
    let path = format!("/proc/{}/cmdline", master.pid());
    let begun = Instant::now();
    loop {
        let title = std::fs::read_to_string(&path).unwrap();
        let socket = title.split_once("unix://").and_then(|(_, rest)| rest.split_once(')'));
        if let Some((socket, _)) = socket {
            return socket.to_owned();
        }
        assert!(begun.elapsed() < PATIENCE, "{title}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the body of a page.
fn get(address: SocketAddr, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
}

/// The samples of a metric whose labels contain a text.
fn samples(text: &str, metric: &str, labels: &str) -> Vec<f64> {
    let of_metric =
        text.lines().filter(|line| line.starts_with(&format!("{metric}{{")) && line.contains(labels));
    of_metric.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// Everything about both workers is known.
fn is_whole(text: &str) -> bool {
    let workers = r#"role="worker""#;
    samples(text, "unbloat_unshared_bytes", workers).len() == 2
        && samples(text, "unbloat_proportional_bytes", workers).len() == 2
}

#[test]
fn a_puma_is_exported_by_role_and_worker() {
    let puma = Puma::of("DATA = Array.new(50_000) { |i| \"row #{i}\" }", &[]);
    let exporter = Exporter::start(&puma.master, &[]);
    let text = exporter.until(is_whole);
    for worker in ["0", "1"] {
        let labels = format!(r#"program="puma",worker="{worker}",role="worker""#);
        let one = |metric: &str| match samples(&text, metric, &labels)[..] {
            [value] => value,
            _ => panic!("{metric} {labels} in {text}"),
        };
        assert!(one("unbloat_proportional_bytes") >= one("unbloat_unique_bytes"));
        let bloat: f64 = samples(&text, "unbloat_bloat_bytes", &labels).iter().sum();
        let memory: f64 = samples(&text, "unbloat_memory_bytes", &labels).iter().sum();
        assert!((memory - bloat - one("unbloat_floor_bytes")).abs() < 1024.0 * 1024.0, "{text}");
        let info =
            text.lines().find(|line| line.starts_with("unbloat_info{") && line.contains(&labels)).unwrap();
        assert!(info.contains("ruby=\"") && info.contains("allocator=\"") && info.ends_with(" 1"), "{info}");
        assert!(samples(&text, "unbloat_problem", &labels).is_empty(), "{text}");
    }
    assert_eq!(samples(&text, "unbloat_resident_bytes", r#"role="master""#).len(), 1);
    assert!(!text.contains("pid="), "{text}");
    let checked = promtool(&["check", "metrics"], &text);
    assert!(checked.0 && checked.1.is_empty(), "{}", checked.1);
}

/// Runs promtool with this input. Returns whether it was content, and its output.
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new("promtool");
    let child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap_or_else(|error| panic!("promtool: {error}. scripts/deps test"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn a_worker_that_ends_takes_its_series_along() {
    let puma = Puma::of("", &[]);
    let mut exporter = Exporter::start(&puma.master, &[]);
    exporter.until(is_whole);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(puma.workers[0]), nix::sys::signal::Signal::SIGKILL)
        .unwrap();
    // Puma starts a successor, which inherits the number: no third series ever appears.
    let text = exporter.until(|text| {
        let starts = samples(text, "unbloat_process_start_time_seconds", r#"role="worker""#);
        starts.len() == 2 && starts[0] != starts[1] && is_whole(text)
    });
    for number in
        samples(&text, "unbloat_resident_bytes", r#"role="worker""#).iter().enumerate().map(|(i, _)| i)
    {
        let labels = format!(r#"worker="{number}",role="worker""#);
        assert_eq!(samples(&text, "unbloat_resident_bytes", &labels).len(), 1, "{text}");
    }
    // A request to end is a normal end.
    let pid = nix::unistd::Pid::from_raw(exporter.process.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(exporter.process.0.wait().unwrap().success());
}

#[test]
fn debians_prometheus_scrapes_it_and_its_rules_yield() {
    let puma = Puma::of("", &[]);
    let exporter = Exporter::start(&puma.master, &[]);
    exporter.until(is_whole);
    let directory = tempfile::tempdir().unwrap();
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus/unbloat.rules.yml");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{rules}']\nscrape_configs:\n\
         - job_name: unbloat\n  static_configs:\n  - targets: ['{}']\n",
        exporter.address
    );
    let file = directory.path().join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
        .arg(format!("--web.listen-address={free}"))
        .stderr(Stdio::null())
        .spawn();
    let _prometheus =
        Guard(prometheus.unwrap_or_else(|error| panic!("prometheus: {error}. scripts/deps test")));
    let query = |name: &str| -> Vec<Value> {
        let answer: Value =
            serde_json::from_str(&get(free, &format!("/api/v1/query?query={name}"))).unwrap_or_default();
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    };
    let begun = Instant::now();
    for (name, series) in
        [("unbloat_unshared_bytes", 2), ("unbloat:bloat:share", 3), ("unbloat:proportional_bytes:sum", 1)]
    {
        while query(name).len() != series {
            assert!(begun.elapsed() < PATIENCE, "{name}: {:?}", query(name));
            std::thread::sleep(Duration::from_millis(200));
        }
    }
    let share: f64 = query("unbloat:bloat:share")[0]["value"][1].as_str().unwrap().parse().unwrap();
    assert!((0.0..1.0).contains(&share), "{share}");
}

#[test]
fn the_rules_pass_their_tests() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/prometheus");
    let (content, text) = promtool(&["check", "rules", &format!("{directory}/unbloat.rules.yml")], "");
    assert!(content, "{text}");
    let (content, text) = promtool(&["test", "rules", &format!("{directory}/unbloat.test.yml")], "");
    assert!(content, "{text}");
}
