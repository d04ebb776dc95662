//! The process of a load, started below a keeper so that nothing of it is left behind.

use crate::keep::{self, Kept};
use std::io::{self, Read};
use std::path::Path;
use std::process::Stdio;
use std::thread::JoinHandle;
use unbloat_process::signal;

/// Starts the processes of loads.
pub trait Launcher {
    /// The process of a load.
    type Process: LoadProcess;

    /// Starts a process.
    ///
    /// # Errors
    /// The kernel's reason why the program cannot be started.
    fn launch(&self, words: &[String]) -> io::Result<Self::Process>;
}

/// The process of a load. Dropping it kills it.
pub trait LoadProcess {
    /// Returns its exit status, as a shell shows it, once it has ended.
    fn ended(&mut self) -> Option<i32>;

    /// Asks it to end (SIGINT).
    fn interrupt(&self);

    /// Returns its output, after ending any process it left behind.
    fn output(self) -> Output;
}

/// The output of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The result, from stdout.
    pub stdout: String,
    /// The messages, from stderr.
    pub stderr: String,
}

/// Starts loads as real processes.
#[derive(Debug, Clone, Copy)]
pub struct KeptLauncher<'a> {
    /// Their working directory.
    pub directory: &'a Path,
    /// Path of this program, which supervises them.
    pub unbloat: &'a Path,
}

impl Launcher for KeptLauncher<'_> {
    type Process = KeptLoad;

    fn launch(&self, words: &[String]) -> io::Result<KeptLoad> {
        let mut command = keep::command(self.unbloat, words);
        command.current_dir(self.directory).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut kept = Kept::start(command)?;
        let (stdout, stderr) = (collect(kept.stdout()), collect(kept.stderr()));
        Ok(KeptLoad { kept, stdout, stderr })
    }
}

/// A real process.
#[derive(Debug)]
pub struct KeptLoad {
    kept: Kept,
    stdout: JoinHandle<String>,
    stderr: JoinHandle<String>,
}

impl LoadProcess for KeptLoad {
    fn ended(&mut self) -> Option<i32> {
        self.kept.ended()
    }

    fn interrupt(&self) {
        // Fine if it is gone already.
        let _ = signal::interrupt(self.kept.pid());
    }

    fn output(self) -> Output {
        // Any process left behind would hold the pipes open.
        drop(self.kept);
        let text = |output: JoinHandle<String>| output.join().unwrap_or_default();
        Output { stdout: text(self.stdout), stderr: text(self.stderr) }
    }
}

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
