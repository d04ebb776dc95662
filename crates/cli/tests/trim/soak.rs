//! Repeated trims, with Unbloat killed in half of them: a few in `make test`, 1,000 in `make soak`.

use super::unbloat;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unbloat_test_support::{Compiler, Program, Target, c_program};

/// Returns the number of trims in a soak: a few in `make test`, 1,000 in `make soak`.
fn trims() -> u32 {
    std::env::var("UNBLOAT_SOAK").map_or(30, |n| n.parse().unwrap())
}

/// The outcomes of a soak's trims.
#[derive(Debug, Default)]
struct Tally {
    killed: u32,
    trimmed: u32,
    nothing_to_trim: u32,
    refused: u32,
}

/// Trims repeatedly. Every second time, Unbloat is killed after a random part of the duration of the last
/// complete trim.
fn soak(pid: i32) -> Tally {
    let mut whole = Duration::from_millis(100);
    let mut tally = Tally::default();
    let mut random = 0x9e37_79b9_u64;
    for round in 0..trims() {
        let start = Instant::now();
        let mut child = unbloat(pid, &[]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let to_be_killed = round % 2 == 1;
        if to_be_killed {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::thread::sleep(whole.mul_f64((random % 1000) as f64 / 1000.0));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if output.status.signal() == Some(9) {
            tally.killed += 1;
            continue;
        }
        if !to_be_killed {
            whole = start.elapsed();
        }
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        match document["processes"][0]["outcome"].as_str() {
            Some("trimmed") => tally.trimmed += 1,
            Some("nothing_to_trim") => tally.nothing_to_trim += 1,
            Some("refused") => tally.refused += 1,
            other => panic!("{other:?}: {document}"),
        }
    }
    tally
}

#[test]
fn a_program_that_is_in_malloc_all_the_time() {
    let program = Program::build(Compiler::System, c_program("saturated"), &[]);
    let mut target = Target::start_ready(program.command().arg("4"));
    let tally = soak(target.pid());
    assert!(tally.killed > 0 && tally.trimmed > 0, "{tally:?}");
    target.ask("");
    // Every thread still makes progress.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let line = target.ask("");
        eprintln!("{tally:?} {line}");
        if !line.contains("fewest=0 ") {
            break;
        }
        assert!(Instant::now() < deadline, "a thread hangs: {line}");
    }
}

const RACKUP: &str = r#"
run lambda { |env|
  n = env["QUERY_STRING"].to_i
  junk = Array.new(200) { |i| "x" * (1000 + (i * n) % 9000) }
  [200, { "content-type" => "text/plain" }, [junk.sum(&:size).to_s]]
}
"#;

#[test]
fn a_loaded_puma() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("config.ru");
    std::fs::write(&config, RACKUP).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new("puma");
    command.args(["--quiet", "--threads", "5:5", "--environment", "production", "--bind"]);
    command.arg(format!("tcp://127.0.0.1:{port}")).arg(&config).stderr(Stdio::null());
    let puma = Target::start(&mut command);
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "puma does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (stop, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (stop, answered) = (&stop, &answered);
            scope.spawn(move || {
                let mut connection = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
                for request in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let n = (client * 31 + request) % 97;
                    let expected: u64 = (0..200).map(|i| 1000 + (i * n) % 9000).sum();
                    assert_eq!(get(&mut connection, n), expected.to_string());
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(1));
        let tally = soak(puma.pid());
        let before = answered.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        stop.store(true, Ordering::Relaxed);
        let after = answered.load(Ordering::Relaxed);
        eprintln!("{tally:?}, {after} requests answered");
        assert!(after > before, "puma has stopped answering");
        assert!(tally.killed > 0 && tally.trimmed > 0, "{tally:?}");
    });
}

/// Sends one request over a persistent connection and returns the body of the response.
fn get(connection: &mut BufReader<TcpStream>, n: u64) -> String {
    write!(connection.get_mut(), "GET /?{n} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(connection.read_line(&mut line).unwrap() > 0, "puma closed the connection");
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => assert!(line.contains("200"), "{line}"),
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}
