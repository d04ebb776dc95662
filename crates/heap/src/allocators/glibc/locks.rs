//! Proves that a stopped thread holds no glibc malloc lock while all others run.
//!
//! A lock held by the stopped thread would stay held for as long as it is stopped. An arena whose lock is
//! seen free once during that time is therefore not held by it, whoever takes the lock before or after. Once
//! every arena's lock has been seen free, the thread is known to be outside malloc. `malloc_trim` needs no
//! more than that: it takes each arena's lock in turn, as any thread does, and a thread that holds one waits
//! for nothing but the kernel.
//!
//! A single-threaded program takes no locks (`SINGLE_THREAD_P`). There the system call is the proof, since
//! malloc makes none of those on the known list.

#![cfg(target_arch = "x86_64")]

use crate::allocators::glibc::Glibc;
use crate::allocators::glibc::arena::ArenaError;
use std::time::{Duration, Instant};
use unbloat_process::remote::Safety;
use unbloat_process::{LiveMemory, Memory, ResidentOnly};

/// Maximum time to hold a thread while waiting to see all locks free.
const PATIENCE: Duration = Duration::from_micros(300);
/// Arenas that may appear between two attempts.
const MAX_NEW: usize = 256;
/// Size of the lock: the first word of `struct malloc_state`, 32 bits; 0 means free.
const LOCK_BYTES: usize = 4;

/// The locks of all arenas.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct ArenaLocks {
    glibc: Glibc,
    arenas: Vec<u64>,
    /// `main_arena.next`: new arenas are inserted there and never removed (`_int_new_arena`, malloc/arena.c).
    newest: u64,
}

impl ArenaLocks {
    /// Lists the arenas.
    ///
    /// # Errors
    /// The ring of arenas cannot be followed to its end.
    pub fn of(glibc: &Glibc, memory: &LiveMemory) -> Result<Self, ArenaError> {
        let ring = glibc.arenas(&ResidentOnly::new(memory))?;
        if let Some(broken) = ring.broken {
            return Err(broken);
        }
        let arenas: Vec<u64> = ring.arenas.iter().map(|arena| arena.address).collect();
        let newest = arenas.get(1).copied().unwrap_or(glibc.main_arena);
        Ok(ArenaLocks { glibc: glibc.clone(), arenas, newest })
    }

    /// Adds the arenas before the newest known one, for the next attempt. If they do not lead there, it finds the same again.
    fn learn(&mut self, memory: &LiveMemory, newest: u64) {
        let (mut at, mut new) = (newest, Vec::new());
        while at != self.newest && new.len() < MAX_NEW {
            new.push(at);
            let Some(next) = at.checked_add(self.glibc.layout.next()) else { return };
            let Ok(next) = memory.word(next) else { return };
            at = next;
        }
        if at == self.newest {
            self.arenas.append(&mut new);
            self.newest = newest;
        }
    }

    /// Determines whether a currently stopped thread is outside malloc.
    pub fn verdict(&mut self, memory: &LiveMemory) -> Safety {
        let start = Instant::now();
        let next = self.glibc.main_arena + self.glibc.layout.next();
        match memory.word(next) {
            Ok(newest) if newest == self.newest => {}
            Ok(newest) => {
                self.learn(memory, newest);
                return Safety::Busy("a new arena has just appeared");
            }
            Err(_) => return Safety::Busy("an arena's lock could not be read"),
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
