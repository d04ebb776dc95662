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
    locked: bool,
}

impl AtRest {
    /// Stops a process, if possible when nobody changes the arena at this address.
    ///
    /// # Errors
    /// As [`Stopped::all`].
    pub(super) fn of(pid: Pid, memory: &dyn Memory, arena: u64) -> Result<Self> {
        let mut before = Duration::ZERO;
        for _ in 1..TRIES {
            let stopped = Stopped::all(pid)?;
            if !is_locked(memory, arena) {
                return Ok(AtRest { stopped, before, locked: false });
            }
            before += stopped.resume();
            std::thread::sleep(BETWEEN);
        }
        let stopped = Stopped::all(pid)?;
        Ok(AtRest { stopped, before, locked: is_locked(memory, arena) })
    }

    /// Whether a thread was stopped while it changed the arena, in spite of all tries.
    pub(super) fn locked(&self) -> bool {
        self.locked
    }

    /// Lets the threads go on; returns how long they stood still altogether.
    pub(super) fn end(self) -> Duration {
        self.before + self.stopped.resume()
    }
}

/// `malloc_state` begins with its lock, a word of 32 bits that is 0 when nobody holds it.
fn is_locked(memory: &dyn Memory, arena: u64) -> bool {
    memory.word(arena).is_ok_and(|word| word as u32 != 0)
}
