//! The settings in force, as read from memory, and whether *this* process has background threads to act on
//! them.

use super::arenas::Arenas;
use super::caches::Caches;
use super::sizes::SizeClass;
use crate::model::JemallocSettings;
use unbloat_process::Thread;

/// The name of jemalloc's background threads (`background_thread_entry`, `src/background_thread.c`).
const BACKGROUND_THREAD: &str = "jemalloc_bg_thd";

impl JemallocSettings {
    /// Derives the settings from the arenas, caches and threads.
    #[must_use]
    pub fn of(arenas: &Arenas, caches: &Caches, threads: &[Thread]) -> Self {
        let largest = caches.list.iter().filter_map(|cache| cache.largest).max();
        let background = threads
            .iter()
            .filter(|thread| thread.name.as_ref().is_some_and(|name| name == BACKGROUND_THREAD));
        JemallocSettings {
            arena_limit: arenas.limit.map(u64::from),
            dirty_decay_ms: most(arenas.list.iter().filter_map(|arena| arena.dirty_decay_ms)),
            muzzy_decay_ms: most(arenas.list.iter().filter_map(|arena| arena.muzzy_decay_ms)),
            tcache_max_bytes: largest.map(SizeClass::bytes),
            background_threads: background.count() as u64,
        }
    }
}

/// Returns the most frequent value.
fn most(values: impl Iterator<Item = i64> + Clone) -> Option<i64> {
    values.clone().max_by_key(|value| values.clone().filter(|other| other == value).count())
}
