//! The threads as libc knows them: arena, cache and stack of each. Nothing is stopped.
//!
//! The kernel reports the address of a thread's robust futex list (`get_robust_list(2)`), which lies inside
//! libc's `struct pthread` (nptl/descr.h). The thread-local variables lie next to that structure: below it on
//! x86-64, above it on aarch64. Their addresses vary by version and by what else is linked, but within a
//! process they have the same distance from the list's head in every thread. So each location is found by the
//! contents it must have in (nearly) all threads:
//!
//! - `thread_arena` (malloc/arena.c) holds the address of an arena;
//! - `tcache` (malloc/malloc.c), near it, points to a chunk of the size of a plausible
//!   `tcache_perthread_struct`;
//! - `stackblock` and `stackblock_size` (`struct pthread`) span the list's head itself.

use super::layout::{ALIGNMENT, FLAGS, WORD};
use super::tcache::CacheLayout;
use std::collections::HashMap;
use std::ops::Range;
use unbloat_process::{Memory, Pid, Result, Thread, page_size};

/// Bytes searched below and above the list's head. Larger thread-local variables of other libraries get in
/// between only if those libraries are loaded before libc.
const BELOW: u64 = 24 << 10;
const ABOVE: u64 = 8 << 10;
/// Number of threads from which the distances are learned.
const SAMPLES: usize = 12;
/// Maximum distance between libc's thread-local variables: its `PT_TLS` has less than 160 bytes in all
/// versions.
const NEAR: i64 = 256;
/// Threads read per call.
const BATCH: usize = 512;

/// libc's view of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadState {
    /// Its thread ID.
    pub tid: Pid,
    /// Its name.
    pub name: Option<unbloat_untrusted::Untrusted>,
    /// The arena it allocates from.
    pub arena: Option<u64>,
    /// Address of its cache's structure.
    pub cache: Option<u64>,
    /// Its stack as allocated by libc; none for the main thread.
    pub stack: Option<Range<u64>>,
}

/// Distances from the list's head.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places {
    arena: Option<i64>,
    cache: Option<i64>,
    stack: Option<i64>,
}

/// The memory around one thread's list head.
struct Sample {
    head: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Sample {
    fn read(memory: &dyn Memory, head: u64) -> Result<Self> {
        let start = head.saturating_sub(BELOW) / page_size() * page_size();
        let len = BELOW + ABOVE + page_size();
        let residency = memory.residency(start, len)?;
        let mut bytes = vec![0; len as usize];
        memory.read_resident(&residency, &mut bytes)?;
        Ok(Sample { head, start, bytes })
    }

    /// Words with their distances from the head.
    fn words(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        self.bytes.chunks_exact(8).enumerate().map(|(i, bytes)| {
            let address = self.start + 8 * i as u64;
            let word = bytes.try_into().map_or(0, u64::from_le_bytes);
            (address.wrapping_sub(self.head) as i64, word)
        })
    }
}

/// Reads libc's view of the threads. `arenas`: addresses of all arenas. `cache`: tests whether the structure
/// of a thread cache may lie at an address.
///
/// # Errors
/// The process is gone or may not be read.
pub fn read(
    memory: &dyn Memory,
    threads: &[Thread],
    arenas: &[u64],
    cache: &dyn Fn(u64) -> bool,
) -> Result<Vec<ThreadState>> {
    let heads: Vec<u64> = threads.iter().filter_map(|thread| thread.robust_list).collect();
    let step = heads.len().div_ceil(SAMPLES).max(1);
    let samples = heads.iter().step_by(step).map(|&head| Sample::read(memory, head));
    let places = Places::learn(&samples.collect::<Result<Vec<_>>>()?, arenas, cache);
    let mut states = Vec::with_capacity(threads.len());
    for batch in threads.chunks(BATCH) {
        let heads: Vec<u64> = batch.iter().map(|thread| thread.robust_list.unwrap_or(0)).collect();
        let arena = words_at(memory, &heads, places.arena)?;
        let caches = words_at(memory, &heads, places.cache)?;
        let block = words_at(memory, &heads, places.stack)?;
        let size = words_at(memory, &heads, places.stack.map(|place| place + WORD as i64))?;
        for (i, thread) in batch.iter().enumerate() {
            states.push(ThreadState {
                tid: thread.tid,
                name: thread.name.clone(),
                arena: arena[i].filter(|address| arenas.contains(address)),
                cache: caches[i].filter(|&address| cache(address)),
                stack: block[i].zip(size[i]).and_then(|(block, size)| stack_around(heads[i], block, size)),
            });
        }
    }
    Ok(states)
}

impl Places {
    fn learn(samples: &[Sample], arenas: &[u64], cache: &dyn Fn(u64) -> bool) -> Self {
        let arena = common(samples, |_, _, word| arenas.contains(&word));
        let cache = common(samples, |_, distance, word| {
            arena.is_some_and(|arena| (distance - arena).abs() < NEAR) && cache(word)
        });
        let stack = samples.iter().map(Sample::stack_places).fold(HashMap::new(), |mut votes, places| {
            places.into_iter().for_each(|place| *votes.entry(place).or_insert(0) += 1);
            votes
        });
        Places { arena, cache, stack: most(stack) }
    }
}

impl Sample {
    /// Returns the distances at which two words span this sample's own head.
    fn stack_places(&self) -> Vec<i64> {
        let words: Vec<_> = self.words().collect();
        let spans = |pair: &&[(i64, u64)]| matches!(pair, [(_, block), (_, size)] if stack_around(self.head, *block, *size).is_some());
        words.windows(2).filter(spans).filter_map(|pair| pair.first().map(|(place, _)| *place)).collect()
    }
}

/// Returns the distance at which most samples have a matching word; the nearest of several.
fn common(samples: &[Sample], fits: impl Fn(&Sample, i64, u64) -> bool) -> Option<i64> {
    let mut votes = HashMap::new();
    for sample in samples {
        for (distance, _) in
            sample.words().filter(|&(distance, word)| word != 0 && fits(sample, distance, word))
        {
            *votes.entry(distance).or_insert(0) += 1;
        }
    }
    most(votes)
}

fn most(votes: HashMap<i64, usize>) -> Option<i64> {
    votes.into_iter().max_by_key(|&(distance, count)| (count, -distance.abs())).map(|(distance, _)| distance)
}

fn stack_around(head: u64, block: u64, size: u64) -> Option<Range<u64>> {
    let aligned = block.is_multiple_of(page_size()) && size.is_multiple_of(page_size()) && block != 0;
    let end = block.checked_add(size)?;
    (aligned && (block..end).contains(&head)).then_some(block..end)
}

/// Reads the word at the same distance from each head.
fn words_at(memory: &dyn Memory, heads: &[u64], place: Option<i64>) -> Result<Vec<Option<u64>>> {
    let Some(place) = place else { return Ok(vec![None; heads.len()]) };
    let addresses: Vec<u64> = heads.iter().map(|head| head.wrapping_add_signed(place)).collect();
    let mut bytes = vec![0; heads.len() * 8];
    let readable = memory.gather(&addresses, 8, &mut bytes)?;
    let word =
        |(bytes, readable): (&[u8], bool)| readable.then(|| bytes.try_into().map_or(0, u64::from_le_bytes));
    Ok(bytes.chunks_exact(8).zip(readable).map(word).collect())
}

/// Returns the form of the cache structure that an address may hold, judging by the size of its chunk.
pub(super) fn may_be_cache(memory: &dyn Memory, address: u64) -> Option<CacheLayout> {
    let plausible = address.is_multiple_of(ALIGNMENT) && address > page_size();
    let head = plausible.then(|| memory.word(address - WORD).ok()).flatten()?;
    CacheLayout::of_chunk_size(head & !FLAGS)
}
