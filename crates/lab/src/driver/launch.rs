//! The process of a load: started below a keeper, so that nothing of it stays.

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

    /// Starts one.
    ///
    /// # Errors
    /// The kernel's reason why the program cannot be started.
    fn launch(&self, words: &[String]) -> io::Result<Self::Process>;
}

/// The process of a load. Dropping it ends it by force.
pub trait LoadProcess {
    /// The status that it has ended with, as a shell shows it.
    fn ended(&mut self) -> Option<i32>;

    /// Asks it to end (SIGINT).
    fn interrupt(&self);

    /// Its output. What it left behind is ended before.
    fn output(self) -> Output;
}

/// The output of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The result.
    pub stdout: String,
    /// Messages.
    pub stderr: String,
}

/// Starts loads as real processes.
#[derive(Debug, Clone, Copy)]
pub struct KeptLauncher<'a> {
    /// Where they run.
    pub directory: &'a Path,
    /// This program's own file, which keeps them.
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
        // Gone already is as good.
        let _ = signal::interrupt(self.kept.pid());
    }

    fn output(self) -> Output {
        // Anything left behind would hold the pipes open.
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
