//! Starts a fresh server for one run, detects when it is ready, and ends it without leftovers.
//!
//! The server is [`Kept`]: every process it forked, daemonized or moved to another session is known at the
//! end, so no run can disturb the next. Its temporary files lie in a directory that is removed with the run.

mod ready;

pub use ready::key_values;

use crate::driver::Target;
use crate::keep::{self, Kept};
use crate::plan::{Server, Stop};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use unbloat_process::status::command;
use unbloat_process::{Pid, signal};

/// A variable in the initial environment of every process of a run. A process without it has overwritten its
/// environment.
pub const RUN_VARIABLE: &str = "UNBLOAT_RUN";

/// Interval between checks for readiness by port or URL, and for the end of the server.
const POLL: Duration = Duration::from_millis(50);

/// The reason why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The program could not be started.
    #[error("cannot start {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// It ended before it was ready, or while it was needed.
    #[error("it ended with status {status}. Its last output: {output}")]
    Ended {
        /// Its exit status, as a shell shows it.
        status: i32,
        /// The end of its output.
        output: String,
    },
    /// It did not get ready in time.
    #[error(
        "it was not ready within {after:?} (server.ready-within), waiting for {ready}. Its last \
        output: {output}"
    )]
    NotReady {
        /// The awaited condition.
        ready: String,
        /// Time limit.
        after: Duration,
        /// The end of its output.
        output: String,
    },
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
    /// An operation on this machine failed.
    #[error("{what}: {source}")]
    Machine {
        /// The operation.
        what: &'static str,
        /// The kernel's reason.
        source: std::io::Error,
    },
}

/// Everything a run needs to start its server.
#[derive(Debug)]
pub struct Start<'a> {
    /// The plan's server.
    pub server: &'a Server,
    /// The start command: the plan's, or the variant's own.
    pub command: &'a [String],
    /// Words in front of the server's own command.
    pub wrapper: &'a [String],
    /// The base directory of relative paths.
    pub directory: &'a Path,
    /// Path of this program.
    pub unbloat: &'a Path,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    kept: Kept,
    stop: Stop,
    stop_within: Duration,
    /// Working directory of the stop command.
    directory: PathBuf,
    unbloat: PathBuf,
    port: u16,
    url: String,
    root: Pid,
    lines: Receiver<String>,
    log: PathBuf,
    _scratch: tempfile::TempDir,
}

/// The way a server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ended on request and left nothing behind.
    Clean,
    /// Processes had to be killed, or the port stayed in use.
    Forced(String),
}

impl Running {
    /// Starts a server and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not get ready in time; in each case nothing of it is left.
    pub fn start(start: &Start) -> Result<Running, ServerError> {
        let machine = |what| move |source| ServerError::Machine { what, source };
        let scratch = tempfile::Builder::new()
            .prefix("unbloat-run-")
            .tempdir()
            .map_err(machine("cannot create a directory for the run"))?;
        let log = scratch.path().join("server.log");
        let port = free_port().map_err(machine("no free port on 127.0.0.1"))?;
        let mut kept = start.spawn(port, scratch.path(), &log)?;
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = kept.stdout() {
            let log =
                File::options().append(true).open(&log).map_err(machine("cannot write the server's log"))?;
            std::thread::spawn(move || forward(stdout, log, &sender));
        }
        let root = kept.pid();
        let mut running = Running {
            kept,
            stop: start.server.stop.clone(),
            stop_within: start.server.stop_within,
            directory: start.directory.to_owned(),
            unbloat: start.unbloat.to_owned(),
            port,
            url: format!("http://127.0.0.1:{port}"),
            root,
            lines,
            log,
            _scratch: scratch,
        };
        running.wait_ready(start)?;
        Ok(running)
    }

    /// Returns the root process of the server's tree: the one named by the ready line, or else the one
    /// started.
    #[must_use]
    pub fn root(&self) -> Pid {
        self.root
    }

    /// Ends it as the plan says, by default with SIGTERM to the started process, and after a while with
    /// SIGKILL to everything that is left.
    pub fn stop(mut self) -> Ending {
        let deadline = Instant::now() + self.stop_within;
        let asked = match &self.stop {
            Stop::Signal(name) => {
                // Fine if it is gone already.
                let _ = signal::named(name).map(|signal| signal::send(self.kept.pid(), signal));
                format!("SIG{}", name.trim_start_matches("SIG"))
            }
            Stop::Command(words) => self.run_stop(words, deadline),
        };
        while !self.kept.is_gone() {
            if Instant::now() >= deadline {
                let left: Vec<String> = self.kept.tree().into_iter().map(named).collect();
                let (left, within) = (left.join(", "), self.stop_within);
                return Ending::Forced(format!(
                    "{left} still ran {within:?} after {asked} (server.stop-within)"
                ));
            }
            std::thread::sleep(POLL);
        }
        match TcpListener::bind(("127.0.0.1", self.port)) {
            Ok(_) => Ending::Clean,
            Err(error) => Ending::Forced(format!("port {} is still taken: {error}", self.port)),
        }
    }

    /// Runs the plan's stop command and describes the result in words.
    fn run_stop(&self, words: &[String], deadline: Instant) -> String {
        let words: Vec<String> = words.iter().map(|word| self.fill(word)).collect();
        let shown = words.join(" ");
        let mut command = keep::command(&self.unbloat, &words);
        command.current_dir(&self.directory).stdout(Stdio::null()).stderr(Stdio::null());
        let mut kept = match Kept::start(command) {
            Ok(kept) => kept,
            Err(error) => return format!("`{shown}`, which cannot be started: {error}"),
        };
        loop {
            match kept.ended() {
                Some(0) => return format!("`{shown}`"),
                Some(status) => return format!("`{shown}`, which ended with status {status}"),
                None if Instant::now() >= deadline => return format!("`{shown}`, which still runs"),
                None => std::thread::sleep(POLL),
            }
        }
    }

    fn not_ready(&self, ready: String, after: Duration) -> ServerError {
        ServerError::NotReady { ready, after, output: self.last_words() }
    }

    fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }
}

impl Target for Running {
    /// Replaces `{url}`, `{host}` (the URL without its scheme and path), `{port}` and `{pid}` (of the started
    /// process) in a word.
    fn fill(&self, word: &str) -> String {
        let host = self.url.split_once("://").map_or(self.url.as_str(), |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or(host);
        word.replace("{url}", &self.url)
            .replace("{host}", host)
            .replace("{port}", &self.port.to_string())
            .replace("{pid}", &self.kept.pid().to_string())
    }

    /// Waits for the next line of stdout that contains `piece`.
    ///
    /// # Errors
    /// The server ended, or printed no such line in time, or the user wants to stop.
    fn wait_line(
        &mut self,
        piece: &str,
        within: Duration,
        interrupted: &AtomicBool,
    ) -> Result<String, ServerError> {
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            go_on(interrupted)?;
            match self.lines.recv_timeout(POLL) {
                Ok(line) if line.contains(piece) => return Ok(line),
                Ok(_) => {}
                // Everything printed before its end has been read.
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => {
                    self.check()?;
                    std::thread::sleep(POLL);
                }
            }
        }
        Err(self.not_ready(format!("line {piece:?}"), within))
    }

    /// Checks that the server still runs.
    ///
    /// # Errors
    /// It has ended.
    fn check(&mut self) -> Result<(), ServerError> {
        match self.kept.ended() {
            Some(status) => Err(ServerError::Ended { status, output: self.last_words() }),
            None => Ok(()),
        }
    }
}

impl Start<'_> {
    fn spawn(&self, port: u16, scratch: &Path, log: &Path) -> Result<Kept, ServerError> {
        let fill = |word: &String| {
            word.replace("{port}", &port.to_string()).replace("{scratch}", &scratch.display().to_string())
        };
        let mut words: Vec<String> = self.command.iter().map(fill).collect();
        let mut variables: BTreeMap<_, _> =
            self.server.environment.iter().map(|(key, value)| (key.clone(), fill(value))).collect();
        match &self.server.wrapper_variable {
            Some(variable) => {
                variables.insert(variable.clone(), shell_words(self.wrapper)?);
            }
            None => {
                words.splice(0..0, self.wrapper.iter().cloned());
            }
        }
        variables.insert(RUN_VARIABLE.to_owned(), "1".to_owned());
        variables.entry("TMPDIR".to_owned()).or_insert_with(|| scratch.display().to_string());
        let program = words.first().cloned().unwrap_or_default();
        let errors = File::options().create(true).append(true).open(log);
        let errors = errors
            .map_err(|source| ServerError::Machine { what: "cannot write the server's log", source })?;
        let mut command = keep::command_in(scratch, self.unbloat, &words);
        command.envs(&variables).current_dir(self.directory).stdout(Stdio::piped()).stderr(errors);
        // A separate process group, since Ctrl-C is meant for the harness.
        command.process_group(0);
        Kept::start(command).map_err(|source| ServerError::Spawn { program, source })
    }
}

fn go_on(interrupted: &AtomicBool) -> Result<(), ServerError> {
    if interrupted.load(Ordering::Relaxed) { Err(ServerError::Interrupted) } else { Ok(()) }
}

/// Formats a process for people: its PID and command.
fn named(pid: Pid) -> String {
    format!("{pid} ({})", command(pid).unwrap_or_default())
}

/// Copies stdout to the log and passes every line on. Continues without a listener, because a full pipe would
/// stop the server.
fn forward(stdout: impl std::io::Read, mut log: File, lines: &mpsc::Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let _ = writeln!(log, "{line}");
        let _ = lines.send(line);
    }
}

/// Quotes words for a shell.
fn shell_words(words: &[String]) -> Result<String, ServerError> {
    let unquotable = |error| ServerError::Machine {
        what: "cannot quote the wrapper for a shell",
        source: std::io::Error::other(error),
    };
    shlex::try_join(words.iter().map(String::as_str)).map_err(unquotable)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        let words = ["env".to_owned(), "A=it's $b".to_owned()];
        let script = format!("printf '%s\\n' {}", shell_words(&words).unwrap());
        let printed = std::process::Command::new("sh").args(["-c", &script]).output().unwrap().stdout;
        assert_eq!(String::from_utf8(printed).unwrap(), "env\nA=it's $b\n");
    }
}
