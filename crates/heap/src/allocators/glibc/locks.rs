//! Proving that a stopped thread holds no lock of glibc's malloc, while all others run.
//!
//! A lock that the stopped thread held would stay held for as long as it is stopped. So an arena whose lock is seen free
//! once during that time is not held by it, whoever takes it before or after; and if that has been seen of every arena,
//! the thread is not inside of malloc. That is all that `malloc_trim` needs: it takes each arena's lock in turn, as any
//! thread does, and nobody who holds one waits for anything but the kernel.
//!
//! A program with one thread takes no locks (`SINGLE_THREAD_P`): there the system call proves it. malloc makes none of
//! those on the known list.

#![cfg(target_arch = "x86_64")]

use crate::allocators::glibc::Glibc;
use crate::allocators::glibc::arena::ArenaError;
use std::time::{Duration, Instant};
use unbloat_process::remote::Safety;
use unbloat_process::{LiveMemory, Memory, ResidentOnly};

/// How long a thread is held to see all locks free.
const PATIENCE: Duration = Duration::from_micros(300);
/// The lock is a word of 32 bits, the first of `struct malloc_state`; 0 is free.
const LOCK_BYTES: usize = 4;

/// The locks of all arenas.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct ArenaLocks {
    glibc: Glibc,
    arenas: Vec<u64>,
    /// `main_arena.next`: new arenas are put there, and none ever goes (`_int_new_arena`, malloc/arena.c).
    newest: u64,
}

impl ArenaLocks {
    /// Lists the arenas.
    ///
    /// # Errors
    /// The ring of arenas cannot be followed to its end.
    pub fn of(glibc: &Glibc, memory: &LiveMemory) -> Result<Self, ArenaError> {
        let mut locks = ArenaLocks { glibc: glibc.clone(), arenas: Vec::new(), newest: 0 };
        locks.list(memory)?;
        Ok(locks)
    }

    fn list(&mut self, memory: &LiveMemory) -> Result<(), ArenaError> {
        let ring = self.glibc.arenas(&ResidentOnly::new(memory))?;
        if let Some(broken) = ring.broken {
            return Err(broken);
        }
        self.arenas = ring.arenas.iter().map(|arena| arena.address).collect();
        self.newest = self.arenas.get(1).copied().unwrap_or(self.glibc.main_arena);
        Ok(())
    }

    /// Tells whether a thread that is stopped now is outside of malloc.
    pub fn verdict(&mut self, memory: &LiveMemory) -> Safety {
        let start = Instant::now();
        let next = self.glibc.main_arena + self.glibc.layout.next();
        if memory.word(next).ok() != Some(self.newest) {
            // For the next attempt; if it fails, that will find the same again.
            let _ = self.list(memory);
            return Safety::Busy("a new arena has just appeared");
        }
        let mut waiting = self.arenas.clone();
        let mut words = vec![0; waiting.len() * LOCK_BYTES];
        loop {
            let Ok(read) = memory.gather(&waiting, LOCK_BYTES, &mut words) else {
                return Safety::Busy("an arena's lock could not be read");
            };
            let mut free = read
                .iter()
                .zip(words.chunks_exact(LOCK_BYTES))
                .map(|(&read, word)| read && word.iter().all(|&b| b == 0));
            waiting.retain(|_| !free.next().unwrap_or(false));
            if waiting.is_empty() {
                return Safety::Safe;
            }
            if start.elapsed() > PATIENCE {
                return Safety::Busy("a lock of malloc's is held all the time");
            }
        }
    }
}
