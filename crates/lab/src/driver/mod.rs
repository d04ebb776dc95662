//! Puts a load on a running server and collects its figures.
//!
//! The server is a [`Target`] and the process of the load comes from a [`Launcher`], so that everything here
//! is tested without either.
//!
//! | module | concept |
//! |---|---|
//! | [`command`] | the words that start a load |
//! | [`pace`] | the pace of a bench driver |
//! | [`launch`] | the process of a load |
//! | [`figures`] | the figures in its output |

mod command;
mod figures;
mod launch;
mod pace;

pub use command::command_line;
pub use figures::{LoadStep, Measured};
pub use launch::{KeptLauncher, Launcher, LoadProcess, Output};
pub use pace::Pace;

use crate::plan::Load;
use crate::server::ServerError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The server from the perspective of a load.
pub trait Target {
    /// Replaces the placeholders of the server's address in a word: `{url}`, `{host}`, `{port}`.
    fn fill(&self, word: &str) -> String;

    /// Checks that the server still runs.
    ///
    /// # Errors
    /// It has ended.
    fn check(&mut self) -> Result<(), ServerError>;

    /// Waits for the next line of its stdout that contains `piece`.
    ///
    /// # Errors
    /// The server ended, or printed no such line in time, or the user wants to stop.
    fn wait_line(
        &mut self,
        piece: &str,
        within: Duration,
        interrupted: &AtomicBool,
    ) -> Result<String, ServerError>;
}

/// The reason why a load did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The server failed.
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
        /// The start and end of its stderr.
        output: String,
    },
    /// The server that generates its own work did not report its end.
    #[error(
        "the server has not printed a line with {done:?} within {after:?} (load.within). Its last output: \
        {output}"
    )]
    NotDone {
        /// The text that the line contains.
        done: String,
        /// Time limit.
        after: Duration,
        /// The end of its output.
        output: String,
    },
    /// It did not end.
    #[error("{program} still ran after {after:?} (design.load-within)")]
    Endless {
        /// The program.
        program: String,
        /// Time limit.
        after: Duration,
    },
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
}

/// Exit status of a load that ran but was not clean, as with `unbloat bench`.
const DIRTY: i32 = 3;

/// Puts loads on servers; holds what all loads of an experiment share.
#[derive(Debug, Clone, Copy)]
pub struct Driver<'a, L> {
    /// The load.
    pub load: &'a Load,
    /// Time limit of a load.
    pub within: Duration,
    /// Path of this program.
    pub unbloat: &'a Path,
    /// Starts the load's process.
    pub launcher: &'a L,
    /// Set when the user wants to stop.
    pub interrupted: &'a AtomicBool,
}

impl<L: Launcher> Driver<'_, L> {
    /// Runs the load to its end.
    ///
    /// # Errors
    /// It could not be started, failed, or the server ended. A load that ran but was not clean is not an error: see
    /// [`Measured::dirty`].
    pub fn drive(&self, server: &mut impl Target, pace: Pace) -> Result<Measured, DriverError> {
        let figures = match self.load {
            Load::Own { done, within } => return self.own(server, done, *within),
            Load::Command { .. } => Measured::of_command,
            Load::Cable(_) | Load::Http(_) | Load::Jobs(_) => Measured::of_bench,
        };
        let mut load = self.start(server, pace)?;
        let Some(status) = self.wait(&mut load, server, self.within)? else {
            return Err(DriverError::Endless { program: load.program, after: self.within });
        };
        let output = load.end(status)?;
        let mut measured = figures(&output.stdout).unwrap_or_default();
        if status == DIRTY {
            measured.dirty.get_or_insert_with(|| ends(&output.stderr));
        }
        Ok(measured)
    }

    /// Warms the server up: runs the load for this long, or to its end if that comes first, and discards its
    /// figures. The load is asked to end (SIGINT), and after a while killed.
    ///
    /// # Errors
    /// It could not be started, failed by itself, or the server ended.
    pub fn warm_up(&self, server: &mut impl Target, pace: Pace, time: Duration) -> Result<(), DriverError> {
        if matches!(self.load, Load::Own { .. }) {
            return Ok(());
        }
        let mut load = self.start(server, pace)?;
        match self.wait(&mut load, server, time)? {
            Some(status) => load.end(status).map(drop),
            None => {
                load.process.interrupt();
                self.wait(&mut load, server, WARM_UP_ENDS_WITHIN).map(drop)
            }
        }
    }

    fn own(&self, server: &mut impl Target, done: &str, within: Duration) -> Result<Measured, DriverError> {
        match server.wait_line(done, within, self.interrupted) {
            Ok(line) => Ok(Measured::of_line(&line)),
            Err(ServerError::NotReady { after, output, .. }) => {
                Err(DriverError::NotDone { done: done.to_owned(), after, output })
            }
            Err(ServerError::Interrupted) => Err(DriverError::Interrupted),
            Err(error) => Err(error.into()),
        }
    }

    fn start(&self, server: &impl Target, pace: Pace) -> Result<Started<L::Process>, DriverError> {
        let words = command_line(self.load, self.unbloat, pace).unwrap_or_default();
        let words: Vec<String> = words.iter().map(|word| server.fill(word)).collect();
        let program = words.first().cloned().unwrap_or_default();
        match self.launcher.launch(&words) {
            Ok(process) => Ok(Started { program, process }),
            Err(source) => Err(DriverError::Spawn { program, source }),
        }
    }

    /// Waits for the end of a load and returns its status, or none if it runs for longer.
    fn wait(
        &self,
        load: &mut Started<L::Process>,
        server: &mut impl Target,
        within: Duration,
    ) -> Result<Option<i32>, DriverError> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = load.process.ended() {
                return Ok(Some(status));
            }
            // Without a server a load may wait for long, and its messages would mislead.
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

/// A started load.
struct Started<P> {
    program: String,
    process: P,
}

impl<P: LoadProcess> Started<P> {
    /// Returns the output, if the load has not failed.
    fn end(self, status: i32) -> Result<Output, DriverError> {
        let output = self.process.output();
        match status {
            0 | DIRTY => Ok(output),
            _ => Err(DriverError::Failed { program: self.program, status, output: ends(&output.stderr) }),
        }
    }
}

/// Time limit for a load that warms up to end on request and finish its work in progress.
const WARM_UP_ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Interval between checks for the end of a load.
const POLL: Duration = Duration::from_millis(50);

/// Returns the first and the last lines of an output, since some programs report errors first, others last.
fn ends(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.as_slice() {
        [first, between @ .., a, b, c] if !between.is_empty() => [*first, "…", a, b, c].join(" | "),
        lines => lines.join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::ends;

    #[test]
    fn the_first_line_of_an_error_is_kept() {
        assert_eq!(
            ends("error: unexpected argument\n\n  tip: x\n\nUsage: y\n\nsee --help\nbye\n"),
            "error: unexpected argument | … | Usage: y | see --help | bye"
        );
        assert_eq!(ends("a\nb\nc\nd\n"), "a | b | c | d");
    }
}
