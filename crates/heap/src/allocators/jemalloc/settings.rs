//! The settings in force, as memory shows them, and whether anybody acts on them in *this* process.

use super::arenas::Arenas;
use super::caches::Caches;
use super::sizes::SizeClass;
use unbloat_process::Thread;

/// The name of jemalloc's background threads (`background_thread_entry`, `src/background_thread.c`).
const BACKGROUND_THREAD: &str = "jemalloc_bg_thd";

/// Settings of a jemalloc. Absent: not found in this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// Arenas over which threads are spread (`narenas`).
    pub arena_limit: Option<u32>,
    /// How long freed pages stay dirty, in milliseconds: 0 not at all, −1 for ever; that of most arenas.
    pub dirty_decay_ms: Option<i64>,
    /// How long they stay muzzy after that.
    pub muzzy_decay_ms: Option<i64>,
    /// The largest block that thread caches hold (`tcache_max`).
    pub tcache_max_bytes: Option<u64>,
    /// Threads of this process that return freed memory of idle arenas. A fork leaves them behind.
    pub background_threads: u32,
}

impl Settings {
    /// The settings that the arenas, caches and threads show.
    #[must_use]
    pub fn of(arenas: &Arenas, caches: &Caches, threads: &[Thread]) -> Self {
        let largest = caches.list.iter().filter_map(|cache| cache.largest).max();
        let background = threads.iter().filter(|thread| thread.name.as_deref() == Some(BACKGROUND_THREAD));
        Settings {
            arena_limit: arenas.limit,
            dirty_decay_ms: most(arenas.list.iter().filter_map(|arena| arena.dirty_decay_ms)),
            muzzy_decay_ms: most(arenas.list.iter().filter_map(|arena| arena.muzzy_decay_ms)),
            tcache_max_bytes: largest.map(SizeClass::bytes),
            background_threads: background.count() as u32,
        }
    }
}

/// The value that occurs most often.
fn most(values: impl Iterator<Item = i64> + Clone) -> Option<i64> {
    values.clone().max_by_key(|value| values.clone().filter(|other| other == value).count())
}
