//! A headless Chromium, and the messages exchanged with it.
//!
//! It communicates through a pair of pipes (`--remote-debugging-pipe`: JSON texts, each terminated by a NUL,
//! read from descriptor 3 and written to 4). So there is no port that others could find, nothing to wait for,
//! no client library to depend on, and the browser ends with the pipe whatever happens to the test.

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Names of the program, by distribution.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Keep it off the network and the machine's display, and make it start quickly.
const FLAGS: [&str; 14] = [
    "--headless",
    // Root may not use the sandbox; the pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--no-first-run",
    "--mute-audio",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with its own profile.
pub(super) struct Chromium {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    last_id: u64,
    /// Unsolicited messages, in order.
    pub(super) events: Vec<Value>,
    profile: TempDir,
}

impl Chromium {
    pub(super) fn start() -> Self {
        let program = PROGRAMS.into_iter().find(|name| is_installed(name));
        let program =
            program.unwrap_or_else(|| panic!("the tests of pages need Chromium: scripts/deps test"));
        let profile = TempDir::new().unwrap_or_else(|error| panic!("no directory for a profile: {error}"));
        // The shell puts our ends of the pipes where the browser expects them.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", program])
            .args(FLAGS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            unreachable!("both are pipes")
        };
        let answers = BufReader::new(answers);
        Chromium { process, requests: Some(requests), answers, last_id: 0, events: Vec::new(), profile }
    }

    /// Returns the browser's directory, where pages for it can be placed.
    pub(super) fn directory(&self) -> &std::path::Path {
        self.profile.path()
    }

    /// Calls a method and waits for its result. `session` is a tab's, or empty for the browser itself.
    pub(super) fn call(&mut self, session: &str, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut request = json!({ "id": id, "method": method, "params": parameters });
        if !session.is_empty() {
            request["sessionId"] = json!(session);
        }
        let Some(pipe) = &mut self.requests else { unreachable!("it is taken only when all is over") };
        let sent = pipe.write_all(format!("{request}\0").as_bytes()).and_then(|()| pipe.flush());
        sent.unwrap_or_else(|error| panic!("{method}: the browser has gone: {error}"));
        loop {
            let mut message = self.next(method);
            if message["id"] != id {
                self.events.push(message);
                continue;
            }
            assert!(message["error"].is_null(), "{method}: {}", message["error"]);
            return message["result"].take();
        }
    }

    /// Returns the next message, as long as the browser lives.
    pub(super) fn next(&mut self, waiting_for: &str) -> Value {
        let mut text = Vec::new();
        let read = self.answers.read_until(0, &mut text);
        text.pop();
        match read {
            Ok(bytes) if bytes > 0 => serde_json::from_slice(&text).unwrap_or_else(|error| {
                panic!("{waiting_for}: {error} in {:?}", String::from_utf8_lossy(&text))
            }),
            ended => panic!("the browser ended while {waiting_for} was waited for: {ended:?}"),
        }
    }
}

impl Drop for Chromium {
    /// Ends the browser by closing its pipe, then removes the profile.
    fn drop(&mut self) {
        self.requests = None;
        let mut unread = Vec::new();
        let _ = std::io::Read::read_to_end(&mut self.answers, &mut unread);
        let _ = self.process.wait();
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
