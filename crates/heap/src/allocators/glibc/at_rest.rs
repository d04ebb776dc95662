//! Stopping a process while one of its arenas is at rest.
//!
//! Chunks are changed under their arena's lock (`arena_get`, `__libc_lock_lock (av->mutex)` in malloc/malloc.c; what is
//! done without it, putting a chunk into a thread cache or a fastbin, leaves all sizes as they are). So an arena whose
//! lock is free while every thread stands still is consistent, to the byte. If the lock is held, the threads go on for a
//! moment and are stopped again. A program with one thread takes no locks (`SINGLE_THREAD_P`): it may stand still in the
//! middle of a change, and then the chunk that it works on does not check.

use std::time::Duration;
use unbloat_process::{Memory, Pid, Result, Stopped};

/// How often a process is stopped to find its arena at rest. Where all threads do nothing but allocate, a dozen times were
/// needed at most.
const TRIES: usize = 100;
/// How long the threads go on between two tries.
const BETWEEN: Duration = Duration::from_micros(300);

/// A process that stands still until [`AtRest::end`], or until this is dropped.
#[derive(Debug)]
pub(super) struct AtRest {
    stopped: Stopped,
    /// How long it was stopped in vain.
    before: Duration,
    lock: Lock,
}

/// What the lock of an arena says while every thread stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    /// Nobody changes the arena.
    Free,
    /// A thread was stopped while it changed the arena.
    Held,
    /// It cannot be read: somebody may change the arena, or not.
    Unknown,
}

impl AtRest {
    /// Stops a process, if possible when nobody changes the arena at this address. A lock that cannot be read is not tried
    /// again: that is no matter of the moment.
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

    /// The arena's lock as it was when the process was stopped: held only if it was so at each try.
    pub(super) fn lock(&self) -> Lock {
        self.lock
    }

    /// Lets the threads go on; returns how long they stood still altogether.
    pub(super) fn end(self) -> Duration {
        self.before + self.stopped.resume()
    }
}

impl Lock {
    /// `malloc_state` begins with its lock, a word of 32 bits that is 0 when nobody holds it.
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
            let rest = AtRest::of(Pid(target.pid()), memory, ARENA).unwrap();
            let lock = rest.lock();
            assert!(rest.end() > Duration::ZERO);
            lock
        };
        let mut memory = SyntheticMemory::default();
        assert_eq!(lock(&memory), Lock::Unknown);
        // The upper half of the word are the arena's flags.
        memory.write_word(ARENA, 0x2 << 32);
        assert_eq!(lock(&memory), Lock::Free);
        memory.write_word(ARENA, 1);
        assert_eq!(lock(&memory), Lock::Held);
    }
}
