//! A process under test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running process with its standard input and output connected to the test. Killed and reaped when dropped.
#[derive(Debug)]
pub struct Target {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Target {
    /// Starts a command.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were piped")
        };
        Target { child, input: Some(input), output: BufReader::new(output) }
    }

    /// Starts a command and waits for its line `ready`.
    ///
    /// # Panics
    /// It cannot be started, or prints something else.
    #[must_use]
    pub fn start_ready(command: &mut Command) -> Self {
        let mut target = Self::start(command);
        let line = target.line();
        assert_eq!(line, "ready", "{command:?}");
        target
    }

    /// Returns its PID.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Sends a line and returns the reply.
    ///
    /// # Panics
    /// The process has ended.
    pub fn ask(&mut self, question: &str) -> String {
        self.tell(question);
        self.line()
    }

    /// Sends a line.
    ///
    /// # Panics
    /// The process has ended.
    pub fn tell(&mut self, line: &str) {
        let Some(input) = self.input.as_mut() else { panic!("the input of {} is closed", self.pid()) };
        if let Err(e) = writeln!(input, "{line}") {
            panic!("cannot tell {} {line:?}: {e}", self.child.id());
        }
    }

    /// Returns the next line of its output.
    ///
    /// # Panics
    /// The process has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(read) if read > 0 => line.trim_end().to_owned(),
            other => panic!("{} ended instead of answering: {other:?}", self.child.id()),
        }
    }

    /// Returns the next line of its output, or its exit status if there is none.
    ///
    /// # Errors
    /// It has ended.
    ///
    /// # Panics
    /// Its status is unavailable.
    pub fn line_or_end(&mut self) -> Result<String, std::process::ExitStatus> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(read) if read > 0 => Ok(line.trim_end().to_owned()),
            _ => {
                Err(self.child.wait().unwrap_or_else(|e| panic!("cannot wait for {}: {e}", self.child.id())))
            }
        }
    }

    /// Kills it before the test ends.
    pub fn kill(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.kill();
    }
}
