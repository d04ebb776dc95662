//! Stops a process at a moment when one of its arenas is at rest.
//!
//! Chunks change only under their arena's lock (`arena_get`, `__libc_lock_lock (av->mutex)` in
//! malloc/malloc.c). The exception, putting a chunk into a thread cache or a fastbin, leaves all sizes
//! unchanged. An arena whose lock is free while every thread is stopped is therefore consistent to the byte.
//! If the lock is held, the threads resume for a moment and are stopped again. A single-threaded program
//! takes no locks (`SINGLE_THREAD_P`): it may be stopped in the middle of a change, and then the chunk being
//! changed fails its checks.

use std::time::Duration;
use unbloat_process::{Memory, Pid, Result, Stopped};

/// Maximum number of stops to find the arena at rest. When all threads do nothing but allocate, a dozen were
/// enough.
const TRIES: usize = 100;
/// Pause between two attempts, during which the threads run.
const BETWEEN: Duration = Duration::from_micros(300);

/// A process that stays stopped until [`AtRest::end`] is called or this is dropped.
#[derive(Debug)]
pub(super) struct AtRest {
    stopped: Stopped,
    /// Time for which it was stopped in vain.
    before: Duration,
    lock: Lock,
}

/// State of an arena's lock while every thread is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Nobody is changing the arena.
    Free,
    /// A thread was stopped while changing the arena.
    Held,
    /// The lock cannot be read, so the arena may or may not be changing.
    Unknown,
}

impl AtRest {
    /// Stops a process, if possible while nobody is changing the arena at this address. An unreadable lock is
    /// not retried, since waiting would not make it readable.
    ///
    /// # Errors
    /// As [`Stopped::all`].
    pub(super) fn of(pid: Pid, memory: &dyn Memory, arena: u64) -> Result<Self> {
        let mut before = Duration::ZERO;
        for _ in 1..TRIES {
            let stopped = Stopped::all(pid)?;
            let lock = Lock::of(memory, arena);
            if lock != Lock::Held {
                return Ok(AtRest { stopped, before, lock });
            }
            before += stopped.resume();
            std::thread::sleep(BETWEEN);
        }
        let stopped = Stopped::all(pid)?;
        Ok(AtRest { stopped, before, lock: Lock::of(memory, arena) })
    }

    /// State of the arena's lock when the process was stopped: [`Lock::Held`] only if it was held at every
    /// attempt.
    pub(super) fn lock(&self) -> Lock {
        self.lock
    }

    /// Resumes the threads and returns the total time they were stopped.
    pub(super) fn end(self) -> Duration {
        self.before + self.stopped.resume()
    }
}

impl Lock {
    /// Reads the lock: `malloc_state` starts with it, a 32-bit word that is 0 while nobody holds it.
    fn of(memory: &dyn Memory, arena: u64) -> Self {
        match memory.word(arena) {
            Ok(word) if word as u32 == 0 => Lock::Free,
            Ok(_) => Lock::Held,
            Err(_) => Lock::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::Command;
    use unbloat_process::SyntheticMemory;
    use unbloat_test_support::Target;

    const ARENA: u64 = 0x1000;

    #[test]
    fn only_a_lock_that_was_read_counts_as_free() {
        let target = Target::start(Command::new("sleep").arg("60"));
        let lock = |memory: &SyntheticMemory| {
            let at_rest = AtRest::of(Pid(target.pid()), memory, ARENA).unwrap();
            let lock = at_rest.lock();
            assert!(at_rest.end() > Duration::ZERO);
            lock
        };
        let mut memory = SyntheticMemory::default();
        assert_eq!(lock(&memory), Lock::Unknown);
        // The upper half of the word holds the arena's flags.
        memory.write_word(ARENA, 0x2 << 32);
        assert_eq!(lock(&memory), Lock::Free);
        memory.write_word(ARENA, 1);
        assert_eq!(lock(&memory), Lock::Held);
    }
}
