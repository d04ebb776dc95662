//! A real Puma: a master, its workers, and their shared memory.

use crate::{bytes, document, stderr, stdout, unbloat};
use std::time::{Duration, Instant};
use unbloat_test_support::{Target, TargetDirectory, target_command};

/// A Puma with two workers that preloads its application.
pub(crate) struct Puma {
    pub(crate) master: Target,
    pub(crate) workers: Vec<i32>,
    _directory: TargetDirectory,
}

impl Puma {
    fn start() -> Self {
        Self::of("DATA_ROWS = Array.new(50_000) { |i| \"row #{i}\" }", &[])
    }

    /// One with this application, in this environment.
    pub(crate) fn of(application: &str, environment: &[(&str, &str)]) -> Self {
        let directory = TargetDirectory::new();
        let rackup =
            directory.file("config.ru", &format!("{application}\nrun ->(_) {{ [200, {{}}, ['ok']] }}\n"));
        let socket = directory.inside().join("puma.sock");
        let config = directory.file(
            "puma.rb",
            &format!("workers 2\nthreads 2, 2\npreload_app!\nbind 'unix://{}'\n", socket.display()),
        );
        let mut command = target_command("puma");
        let mut master =
            Target::start(command.envs(environment.iter().copied()).arg("--config").arg(config).arg(rackup));
        let mut workers = vec![];
        while workers.len() < 2 {
            // - Worker 0 (PID: 1234) booted in 0.01s, phase: 0; lower-case up to Puma 4
            let line = master.line().to_lowercase();
            let number = line.split_once("worker").and_then(|(_, rest)| rest.split_once("(pid: "));
            workers.extend(number.and_then(|(_, rest)| rest.split_once(')')?.0.parse::<i32>().ok()));
        }
        Puma { master, workers, _directory: directory }
    }

    /// Waits until what it shares no longer changes: workers go on after they have said that they are booted.
    fn settle(&self) {
        let of = |pid: i32| {
            let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
            rollup.lines().find(|line| line.starts_with("Pss:")).map(str::to_owned)
        };
        let now = || -> Vec<_> { self.workers.iter().copied().chain([self.master.pid()]).map(of).collect() };
        let patience = Instant::now() + Duration::from_secs(30);
        let mut before = now();
        loop {
            std::thread::sleep(Duration::from_millis(300));
            let after = now();
            if before == after || Instant::now() > patience {
                return;
            }
            before = after;
        }
    }
}

impl Drop for Puma {
    fn drop(&mut self) {
        self.master.kill();
        // Workers end when their master has gone, so nothing else has to end them, but the next test must not
        // meet them.
        let patience = Instant::now() + Duration::from_secs(10);
        let running = |worker: &i32| {
            std::fs::read(format!("/proc/{worker}/cmdline")).is_ok_and(|line| line.starts_with(b"puma"))
        };
        while self.workers.iter().any(running) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        for &worker in self.workers.iter().filter(|worker| running(worker)) {
            let worker = nix::unistd::Pid::from_raw(worker);
            let _ = nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

#[test]
fn a_puma_brings_its_workers_and_is_summed_by_pss() {
    let puma = Puma::start();
    puma.settle();
    let pid = puma.master.pid().to_string();
    let output = unbloat(&[&pid, "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let document = document(stdout(&output));
    let processes = document["processes"].as_array().unwrap();
    let pids: Vec<_> = processes.iter().map(|process| process["pid"].as_i64().unwrap() as i32).collect();
    assert_eq!(pids[0], puma.master.pid());
    assert!(puma.workers.iter().all(|worker| pids.contains(worker)), "{pids:?} {:?}", puma.workers);

    let total = &document["total"];
    let pss: i64 = processes.iter().map(|process| bytes(&process["pss_bytes"])).sum();
    assert_eq!(bytes(&total["pss_bytes"]), pss);
    let census: i64 = total["census"].as_array().unwrap().iter().map(|part| bytes(&part["bytes"])).sum();
    assert!((census - pss).abs() * 50 < pss, "census {census}, PSS {pss}");
    assert!(pss < bytes(&total["rss_sum_bytes"]));
    for worker in &processes[1..] {
        assert_eq!(worker["sharing"]["parent"], puma.master.pid());
        let both = bytes(&worker["sharing"]["shared_bytes"]) + bytes(&worker["sharing"]["unshared_bytes"]);
        assert!(both > 1 << 20, "{worker}");
    }
    let codes: Vec<_> = total["verdict"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"tree") && codes.contains(&"tree-sharing"), "{codes:?}");

    let alone = unbloat(&[&pid, "--no-children", "--json"]);
    assert_eq!(crate::document(stdout(&alone))["processes"].as_array().unwrap().len(), 1);
    let text = unbloat(&[&pid]);
    assert!(stdout(&text).contains("together, by PSS"), "{}", stdout(&text));
}
