//! One pass over everything that a jemalloc manages: arenas, caches, all extents, each resident byte's use.

use super::account::{Contents, Holder, Knowledge, Tally};
use super::arenas::{ArenaFacts, Arenas};
use super::bases::{self, Base};
use super::bins::{self, Bins};
use super::blocks::{Block, Blocks};
use super::caches::{CacheFacts, Caches, ThreadCache};
use super::counts::{Counts, Forgotten};
use super::extent::Purpose;
use super::locate::Jemalloc;
use super::reader::Reader;
use super::rtree::leaves;
use super::tell::Listener;
use super::walk::{Placed, Walk, resident_within};
use super::{forgotten, tsd};
use crate::model::JemallocSettings;
use crate::ranges::joined;
use std::collections::BTreeMap;
use std::ops::Range;
use unbloat_process::{Backing, Mapping, Maps, Memory, Result, Thread};

/// The input of a survey.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The process's mappings.
    pub maps: &'a Maps,
    /// Its threads.
    pub threads: &'a [Thread],
    /// Sorted, disjoint ranges accounted for elsewhere: Ruby's heap pages.
    pub claims: &'a [Range<u64>],
}

/// The findings for one arena.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SurveyedArena {
    /// Facts read from its `arena_t`, if that was found.
    pub facts: Option<ArenaFacts>,
    /// Its resident bytes, including its metadata.
    pub tally: Tally,
    /// Its bytes as jemalloc counts them.
    pub counts: Counts,
}

/// The findings for one jemalloc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The arenas, by index.
    pub arenas: BTreeMap<u32, SurveyedArena>,
    /// The settings in force.
    pub settings: JemallocSettings,
    /// Slabs by arena and size class.
    pub bins: Bins,
    /// The caches of the threads.
    pub caches: Caches,
    /// The blocks left behind by a fork.
    pub forgotten: Forgotten,
    /// The caches of threads left behind by a fork.
    pub(super) forgotten_caches: Caches,
    /// All extents, in address order.
    pub extents: Vec<Placed>,
    /// Resident bytes of metadata.
    pub metadata_bytes: u64,
    /// All memory it has, sorted and disjoint, including unsettled ranges.
    pub ranges: Vec<Range<u64>>,
    /// Number of extents that were read more than once.
    pub rereadings: u64,
    /// Bytes after each large object.
    pad: u64,
    /// Resident bytes of unsettled ranges.
    unsettled_bytes: u64,
    /// Addresses inside jemalloc's own blocks, sorted.
    own: Vec<u64>,
}

impl Survey {
    /// Surveys a jemalloc.
    ///
    /// # Errors
    /// The process is gone.
    pub fn take(
        jemalloc: &Jemalloc,
        blocks: &Blocks,
        memory: &dyn Memory,
        context: Context<'_>,
    ) -> Result<Self> {
        let reader = Reader::new(memory);
        let words = words(&reader, jemalloc)?;
        let bases = bases::find(&reader, blocks, &words, jemalloc.extents)?;
        let arenas = Arenas::find(&reader, &words, &bases, blocks, jemalloc.extents)?;
        let facts = CacheFacts {
            reader: &reader,
            maps: context.maps,
            blocks,
            arenas: &arenas,
            layout: jemalloc.extents,
        };
        // Before the slabs, so that blocks a thread returns in between are seen to be free.
        let caches = caches(&facts, &words)?;
        let findings = Findings::walk(jemalloc, &reader, blocks, context)?;
        let metadata = metadata(&bases, blocks);
        let ranges = findings.ranges(&metadata);
        let taken = joined(ranges.iter().chain(context.claims).cloned().collect());
        let forgotten_caches = forgotten::read(&facts, &caches, &taken)?;
        let mut survey = Survey {
            arenas: BTreeMap::new(),
            settings: JemallocSettings::of(&arenas, &caches, context.threads),
            bins: Bins::new(),
            own: own(&caches, &forgotten_caches),
            caches,
            forgotten: Forgotten::default(),
            forgotten_caches,
            metadata_bytes: resident_bytes(memory, metadata.iter().map(Block::range))?,
            unsettled_bytes: resident_bytes(memory, findings.unsettled.into_iter())?,
            ranges,
            rereadings: findings.rereadings,
            pad: jemalloc.pad,
            extents: findings.extents,
        };
        let claimed = claimed(memory, context.claims, &survey.extents)?;
        survey.count(arenas, &bases, &claimed);
        Ok(survey)
    }

    /// Returns the resident bytes of everything.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total =
            Tally { overhead: self.metadata_bytes, unsettled: self.unsettled_bytes, ..Tally::default() };
        self.arenas.values().for_each(|arena| total += arena.tally);
        total
    }

    /// Returns the bytes of all arenas as jemalloc counts them.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut total = Counts::default();
        self.arenas.values().for_each(|arena| total += arena.counts);
        total
    }

    /// Reports all findings to the listener, in address order. Unsettled ranges are left out.
    pub fn tell(&self, listener: &mut dyn Listener) {
        let knowledge = self.knowledge();
        for placed in &self.extents {
            knowledge.tell(placed, &knowledge.contents(placed), listener);
        }
    }

    /// Returns the block held by the program whose usable memory contains an address.
    #[must_use]
    pub fn block_at(&self, address: u64) -> Option<Range<u64>> {
        let after = self.extents.partition_point(|placed| placed.extent.base <= address);
        let placed =
            self.extents.get(after.checked_sub(1)?).filter(|p| address < p.extent.end() && !p.cut)?;
        let extent = &placed.extent;
        match (self.knowledge().contents(placed), &extent.purpose) {
            (Contents::Regions(marks), Purpose::Slab(slab)) => {
                let region = (address - extent.base) / slab.region_bytes;
                let taken = [&marks.free, &marks.cached, &marks.own].iter().any(|m| m.contains(region));
                let start = extent.base + region * slab.region_bytes;
                (region < slab.regions && !taken).then_some(start..start + slab.region_bytes)
            }
            (Contents::Object(Holder::Program), _) => {
                let start = extent.base + extent.offset;
                let usable = start..start + extent.usable_bytes(self.pad);
                usable.contains(&address).then_some(usable)
            }
            _ => None,
        }
    }

    fn knowledge(&self) -> Knowledge<'_> {
        Knowledge { cached: &self.caches, forgotten: &self.forgotten_caches, own: &self.own, pad: self.pad }
    }

    /// Adds up the findings. `claimed`: resident bytes of extents, by their base, that others account for.
    fn count(&mut self, arenas: Arenas, bases: &BTreeMap<u32, Base>, claimed: &BTreeMap<u64, u64>) {
        let mut rows: BTreeMap<u32, SurveyedArena> = BTreeMap::new();
        let mut bins = Bins::new();
        let mut lost = Forgotten { threads: self.forgotten_caches.list.len() as u64, ..Forgotten::default() };
        for facts in arenas.list {
            let row = rows.entry(facts.index).or_default();
            row.facts = Some(facts);
        }
        for (index, base) in bases {
            let counts = &mut rows.entry(*index).or_default().counts;
            counts.base = base.counters.map_or(0, |counters| counters.allocated);
            counts.base_resident = base.counters.map_or(0, |counters| counters.resident);
        }
        let knowledge = self.knowledge();
        for placed in &self.extents {
            let contents = knowledge.contents(placed);
            let row = rows.entry(placed.extent.arena).or_default();
            let tally = knowledge.tally(placed, &contents);
            row.tally += tally.without(claimed.get(&placed.extent.base).copied().unwrap_or(0));
            row.counts.add(placed, &contents, self.pad);
            lost.add(placed, &contents, self.pad);
            bins::add(&mut bins, &knowledge, placed, &contents);
        }
        (self.arenas, self.bins, self.forgotten) = (rows, bins, lost);
    }
}

/// The findings of a walk.
struct Findings {
    extents: Vec<Placed>,
    unsettled: Vec<Range<u64>>,
    rereadings: u64,
}

impl Findings {
    fn walk(jemalloc: &Jemalloc, reader: &Reader<'_>, blocks: &Blocks, context: Context<'_>) -> Result<Self> {
        let areas = areas(context.maps);
        let leaves = leaves(reader, blocks, jemalloc.rtree, jemalloc.root)?;
        let mut walk = Walk {
            jemalloc,
            reader,
            blocks,
            areas: &areas,
            extents: Vec::new(),
            unsettled: Vec::new(),
            rereadings: 0,
        };
        walk.all(&leaves)?;
        walk.gaps(&leaves, context.claims)?;
        let unsettled = walk.unsettled_ranges(context.claims);
        Ok(Findings { extents: walk.extents, unsettled, rereadings: walk.rereadings })
    }

    /// Returns all memory of the heap, sorted and disjoint.
    fn ranges(&self, metadata: &[Block]) -> Vec<Range<u64>> {
        let extents = self.extents.iter().map(|placed| placed.extent.range());
        joined(
            extents.chain(metadata.iter().map(Block::range)).chain(self.unsettled.iter().cloned()).collect(),
        )
    }
}

/// Returns the words of the library's data.
fn words(reader: &Reader<'_>, jemalloc: &Jemalloc) -> Result<Vec<(u64, u64)>> {
    let mut words = Vec::new();
    for data in &jemalloc.image.writable {
        words.extend(reader.nonzero_words(data)?);
    }
    Ok(words)
}

/// Reads the caches of all threads, by whichever way finds any.
fn caches(facts: &CacheFacts<'_>, words: &[(u64, u64)]) -> Result<Caches> {
    let caches = Caches::read(facts)?;
    if caches.list.is_empty() && facts.layout.leaf_has_state {
        return tsd::read(facts, words);
    }
    Ok(caches)
}

fn resident_bytes(memory: &dyn Memory, ranges: impl Iterator<Item = Range<u64>>) -> Result<u64> {
    ranges.map(|range| resident_within(memory, std::slice::from_ref(&range), &range)).sum()
}

/// Returns the resident bytes inside extents that others account for, by the extents' bases.
fn claimed(memory: &dyn Memory, claims: &[Range<u64>], extents: &[Placed]) -> Result<BTreeMap<u64, u64>> {
    let mut claimed = BTreeMap::new();
    for claim in claims {
        let first = extents.partition_point(|placed| placed.extent.end() <= claim.start);
        for placed in extents[first..].iter().take_while(|placed| placed.extent.base < claim.end) {
            let part = claim.start.max(placed.extent.base)..claim.end.min(placed.extent.end());
            let resident = unbloat_process::resident_bytes(memory, &part)?;
            *claimed.entry(placed.extent.base).or_default() += resident;
        }
    }
    Ok(claimed)
}

/// Returns the memory where a heap can be: private anonymous memory, with adjacent mappings joined. Retained
/// memory may be protected.
fn areas(maps: &Maps) -> Vec<Range<u64>> {
    let anonymous = |m: &&Mapping| !m.shared && (m.is_private_anonymous() || m.backing == Backing::Anonymous);
    joined(maps.iter().filter(anonymous).map(Mapping::range).collect())
}

/// Returns the metadata blocks of these bases, or all blocks if no base was found.
fn metadata(bases: &BTreeMap<u32, Base>, blocks: &Blocks) -> Vec<Block> {
    let mut metadata: Vec<Block> = bases.values().flat_map(|base| base.chain.clone()).collect();
    if metadata.is_empty() {
        metadata.extend(blocks.iter());
    }
    metadata.sort_unstable_by_key(|block| block.start);
    metadata.dedup();
    metadata
}

/// Returns addresses inside the memory of the caches' stacks.
fn own(caches: &Caches, forgotten: &Caches) -> Vec<u64> {
    let stack = |cache: &ThreadCache| cache.stack;
    let mut own: Vec<u64> =
        caches.list.iter().chain(&forgotten.list).map(stack).filter(|&at| at != 0).collect();
    own.sort_unstable();
    own.dedup();
    own
}
