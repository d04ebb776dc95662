//! The arenas: `arenas[]` in the library's data, and the facts readable from each `arena_t`.

use super::bases::Base;
use super::blocks::Blocks;
use super::layout::ExtentLayout;
use super::reader::{Reader, word_at, words_of};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use unbloat_process::Result;

/// Bytes examined of an `arena_t`, which has about 80 KiB in all versions.
const ARENA_BYTES: u64 = 128 << 10;
/// Bytes of a `decay_t` (`I/decay.h`): mutex, settings, deadline, 200 words of backlog, one more.
const DECAY_BYTES: u64 = 1784;
/// Offset of `time_ms` in it; `interval`, in nanoseconds, follows.
const TIME_MS: u64 = 120;
/// Steps of a decay (`SMOOTHSTEP_NSTEPS`, `I/smoothstep.h`).
const STEPS: i64 = 200;
/// Maximum number of candidate locations for the decay settings.
const MAX_ENDS: usize = 256;
/// Minimum distance of the decay settings from the start: the extents' heaps precede them (`I/pac.h`) and
/// take tens of KiB.
const HEAPS_BYTES: u64 = 4 << 10;
/// Offsets of `arena_t.stats`, which both decay structures point into.
const STATS: Range<u64> = 8..512;

/// One arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaFacts {
    /// Its index.
    pub index: u32,
    /// The address of its `arena_t`.
    pub address: u64,
    /// Threads that allocate from it.
    pub threads: u32,
    /// Time for which freed pages stay dirty, in milliseconds: 0 not at all, −1 forever.
    pub dirty_decay_ms: Option<i64>,
    /// Time for which they then stay muzzy.
    pub muzzy_decay_ms: Option<i64>,
    /// Words in it that point out of the metadata: one leads to its thread caches.
    pub(super) outward: Vec<u64>,
}

/// All arenas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arenas {
    /// In order of index.
    pub list: Vec<ArenaFacts>,
    /// The number of arenas that threads are spread over (`narenas_auto`).
    pub limit: Option<u32>,
}

impl Arenas {
    /// Finds `arenas[]` among the words of the library's data: its word `i` points just past base `i` in that
    /// base's oldest block.
    ///
    /// # Errors
    /// The process is gone.
    pub fn find(
        reader: &Reader<'_>,
        words: &[(u64, u64)],
        bases: &BTreeMap<u32, Base>,
        blocks: &Blocks,
        layout: &ExtentLayout,
    ) -> Result<Self> {
        let Some(Table { address: table, entries }) = table(reader, words, bases)? else {
            return Ok(Arenas::default());
        };
        let mut list = Vec::new();
        let mut decay_ends = Vec::new();
        for (index, address) in entries {
            let Some(block) = bases.get(&index).and_then(Base::oldest) else { continue };
            let bytes = reader.range(&(address..block.range().end.min(address + ARENA_BYTES)))?;
            let words: Vec<u64> = words_of(&bytes).collect();
            decay_ends.extend(self::decay_ends(address, &words, layout));
            list.push(ArenaFacts {
                index,
                address,
                threads: word_at(&bytes, 0).unwrap_or(0) as u32,
                dirty_decay_ms: None,
                muzzy_decay_ms: None,
                outward: words.into_iter().filter(|&word| word != 0 && blocks.at(word).is_none()).collect(),
            });
        }
        let mut arenas = Arenas { limit: limit(reader, table, &list)?, list };
        arenas.read_decay(reader, decay_ends.into_iter().collect())?;
        Ok(arenas)
    }

    /// Returns the arena at an address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<&ArenaFacts> {
        self.list.iter().find(|arena| arena.address == address)
    }

    /// Reads the decay settings of each arena. The second `decay_t` ends at the candidate where most settings
    /// are, or can be, confirmed by their interval.
    fn read_decay(&mut self, reader: &Reader<'_>, ends: BTreeSet<u64>) -> Result<()> {
        let mut best = (0, 0);
        for end in ends.into_iter().take(MAX_ENDS) {
            let mut settings = Vec::new();
            for arena in &self.list {
                let decay =
                    |decays| decay_ms(reader, (arena.address + end).saturating_sub(decays * DECAY_BYTES));
                settings.push((decay(2)?, decay(1)?));
            }
            let all = || settings.iter().flat_map(|&(dirty, muzzy)| [dirty, muzzy]).flatten();
            let score = (all().filter(|&ms| ms > 0).count(), all().count());
            if score > best {
                best = score;
                for (arena, (dirty, muzzy)) in self.list.iter_mut().zip(settings) {
                    (arena.dirty_decay_ms, arena.muzzy_decay_ms) = (dirty, muzzy);
                }
            }
        }
        Ok(())
    }
}

/// `arenas[]`.
struct Table {
    address: u64,
    /// Index and address of each arena.
    entries: Vec<(u32, u64)>,
}

/// Finds `arenas[]`. The more arenas a candidate names, the better. With only one arena, an array that is the
/// only one to name it beats a neighboring variable (`a0`), and an arena must point to its base.
fn table(reader: &Reader<'_>, words: &[(u64, u64)], bases: &BTreeMap<u32, Base>) -> Result<Option<Table>> {
    let behind = |base: &Base, word: u64| {
        let end = base.oldest().map_or(0, |block| block.range().end);
        word.is_multiple_of(64) && (base.address + 1..end).contains(&word)
    };
    let mut tables: BTreeMap<u64, Vec<(u32, u64)>> = BTreeMap::new();
    for base in bases.values() {
        for &(slot, word) in words.iter().filter(|&&(_, word)| behind(base, word)) {
            let start = slot.wrapping_sub(8 * u64::from(base.arena));
            if start.is_multiple_of(64) {
                tables.entry(start).or_default().push((base.arena, word));
            }
        }
    }
    let mut best: Option<((usize, usize, usize), Table)> = None;
    for (start, entries) in tables {
        let Some(&(index, address)) = entries.first() else { continue };
        let named = words.iter().filter(|&&(_, word)| word == address).count();
        let back = bases.get(&index).map_or(Ok(0), |base| count_of(reader, address, base.address))?;
        let score = (entries.len(), named, back);
        if best.as_ref().is_none_or(|(best, _)| score > *best) {
            best = Some((score, Table { address: start, entries }));
        }
    }
    Ok(best.map(|(_, table)| table))
}

/// Counts the occurrences of a word in the arena at an address.
fn count_of(reader: &Reader<'_>, arena: u64, word: u64) -> Result<usize> {
    let words = reader.nonzero_words(&(arena..arena + ARENA_BYTES))?;
    Ok(words.into_iter().filter(|&(_, other)| other == word).count())
}

/// Reads `narenas_auto`. `manual_arena_base` and it are linked right before `arenas[]` (`src/jemalloc.c`): n + 1
/// and n where an arena is reserved for huge objects, else n and n. The existing arenas confirm it, since
/// none lies beyond; so the limit is unknown for a program that created arenas of its own.
fn limit(reader: &Reader<'_>, table: u64, arenas: &[ArenaFacts]) -> Result<Option<u32>> {
    let bytes = reader.range(&(table.saturating_sub(256)..table))?;
    let halves: Vec<u32> = words_of(&bytes).flat_map(|word| [word as u32, (word >> 32) as u32]).collect();
    let fits = |&(base, auto): &(u32, u32)| {
        (1..4095).contains(&auto)
            && (base == auto || base == auto + 1)
            && arenas.iter().all(|arena| arena.index <= auto)
    };
    Ok(halves.iter().copied().zip(halves.iter().copied().skip(1)).find(fits).map(|(_, auto)| auto))
}

/// Returns the offsets in an `arena_t` at which the second `decay_t` may end.
fn decay_ends(arena: u64, words: &[u64], layout: &ExtentLayout) -> Vec<u64> {
    let into_stats = |word: u64| STATS.contains(&word.wrapping_sub(arena));
    let place = |i: usize| -> Option<u64> {
        let at = 8 * i as u64;
        if layout.leaf_has_state {
            // pac_t: dirty, muzzy, stats_mtx (null where counters are atomic), stats (I/pac.h).
            let ends = into_stats(*words.get(i)?) && *words.get(i.checked_sub(1)?)? == 0;
            return ends.then(|| at.saturating_sub(8));
        }
        // 5.2: each decay_t points to its own statistics one word before its end (5.2.1 I/arena_structs_b.h).
        let other = words.get(i + (DECAY_BYTES / 8) as usize)?;
        let both = into_stats(*words.get(i)?) && into_stats(*other);
        both.then_some(at + 16 + DECAY_BYTES)
    };
    (0..words.len()).filter_map(place).filter(|&end| end >= HEAPS_BYTES).collect()
}

/// Reads the setting of the `decay_t` at an address. A positive setting is confirmed by its interval.
fn decay_ms(reader: &Reader<'_>, decay: u64) -> Result<Option<i64>> {
    let Some([ms, interval]) = reader.words(decay + TIME_MS)? else { return Ok(None) };
    let ms = ms as i64;
    let expected = ms.checked_mul(1_000_000).and_then(|ns| u64::try_from(ns / STEPS).ok());
    Ok(Some(ms).filter(|&ms| ms == 0 || ms == -1 || ms > 0 && expected == Some(interval)))
}
