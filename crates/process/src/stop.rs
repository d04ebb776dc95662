//! Stops all threads of a process for a moment.
//!
//! `PTRACE_SEIZE` and `PTRACE_INTERRUPT` (`ptrace(2)`): no signal is sent, system calls are restarted by the
//! kernel, and if this tool is killed meanwhile the kernel resumes the threads by itself.

use crate::{Error, Pid, Result, threads};
use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time limit for all threads to stop. A thread in an uninterruptible system call (a hanging network file
/// system) does not stop at all, and the others must not wait for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// A process whose threads are stopped until this is dropped. Must be dropped by the thread that created it.
#[derive(Debug)]
pub struct Stopped {
    /// The threads, each with any signal that was about to be delivered to it.
    threads: HashMap<Pid, Option<Signal>>,
    since: Instant,
}

impl Stopped {
    /// Stops all threads of a process.
    ///
    /// # Errors
    /// The process is gone, may not be traced (another tracer is attached, or permission is missing), or one
    /// of its threads does not stop within half a second. Stopped threads are resumed.
    pub fn all(pid: Pid) -> Result<Self> {
        let mut stopped = Stopped { threads: HashMap::new(), since: Instant::now() };
        // Threads that start meanwhile are found in the next round; a stopped thread starts none.
        while stopped.seize_new(pid)? {
            stopped.wait(pid)?;
        }
        if stopped.threads.is_empty() { Err(Error::Gone { pid }) } else { Ok(stopped) }
    }

    /// Resumes the threads and returns how long they were stopped.
    #[must_use]
    pub fn resume(self) -> Duration {
        let since = self.since;
        drop(self);
        since.elapsed()
    }

    fn seize_new(&mut self, pid: Pid) -> Result<bool> {
        let before = self.threads.len();
        for tid in threads::tids(pid)? {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match ptrace::seize(raw(tid), ptrace::Options::empty()) {
                Ok(()) => {
                    self.threads.insert(tid, None);
                    // Fails only if the thread has ended meanwhile, which the wait will detect.
                    let _ = ptrace::interrupt(raw(tid));
                }
                Err(Errno::ESRCH) => {}
                Err(errno) => return Err(Error::from_io(pid, "the threads (to stop them)", errno.into())),
            }
        }
        Ok(self.threads.len() > before)
    }

    /// Waits until every seized thread has stopped or ended.
    fn wait(&mut self, pid: Pid) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut waiting: Vec<Pid> = self.threads.keys().copied().collect();
        loop {
            waiting.retain(|&tid| !self.has_stopped(tid));
            if waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let source = std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    format!("thread {} does not stop; try again, or without --stop", waiting[0]),
                );
                return Err(Error::Io { pid, what: "the threads (to stop them)", source });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    fn has_stopped(&mut self, tid: Pid) -> bool {
        match waitpid(raw(tid), Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
            // Nothing new: either an earlier round saw it stop (this call only works in a stop), or it is
            // running.
            Ok(WaitStatus::StillAlive) => ptrace::getsiginfo(raw(tid)).is_ok(),
            Ok(WaitStatus::Stopped(_, signal)) => {
                self.threads.insert(tid, Some(signal));
                true
            }
            Ok(WaitStatus::PtraceEvent(..)) => true,
            Ok(_) | Err(_) => {
                self.threads.remove(&tid);
                true
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for (&tid, &signal) in &self.threads {
            // Fails only if the thread was killed meanwhile.
            let _ = ptrace::detach(raw(tid), signal);
        }
    }
}

fn raw(tid: Pid) -> nix::unistd::Pid {
    nix::unistd::Pid::from_raw(tid.0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_test_support::{Compiler, Program, Target, c_program};

    fn state(tid: Pid) -> char {
        let stat = std::fs::read_to_string(tid.proc("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    #[test]
    fn all_threads_stand_still_and_go_on() {
        let program = Program::build(Compiler::System, c_program("heap"), &[]);
        let arguments = ["5", "200", "200", "2", "0"];
        let mut target = Target::start_ready(std::process::Command::new(program.path()).args(arguments));
        target.ask("churn");
        let pid = Pid(target.pid());
        for _ in 0..20 {
            let stopped = Stopped::all(pid).unwrap();
            let states: String = threads::tids(pid).unwrap().into_iter().map(state).collect();
            assert_eq!(states, "tttttt");
            assert!(stopped.resume() < Duration::from_secs(1));
        }
        assert!(target.ask("live").contains(' '), "it goes on");
    }
}
