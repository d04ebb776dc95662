//! One look at everything that a jemalloc manages: arenas, caches, all extents, each resident byte's use.

use super::account::{Contents, Holder, Knowledge, Tally};
use super::arenas::{ArenaFacts, Arenas};
use super::bases::{self, Base};
use super::bins::{self, Bins};
use super::blocks::{Block, Blocks};
use super::caches::{Caches, Ground, ThreadCache};
use super::counts::{Counts, Forgotten};
use super::extent::Purpose;
use super::locate::Jemalloc;
use super::reader::{Reader, pages_of};
use super::rtree::leaves;
use super::tell::Listener;
use super::walk::{Placed, Walk, resident_within};
use super::{forgotten, tsd};
use crate::model::JemallocSettings;
use crate::ranges::joined;
use std::collections::BTreeMap;
use std::ops::Range;
use unbloat_process::{Backing, Mapping, Maps, Memory, Result, Thread};

/// What a look is told beforehand.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The process's mappings.
    pub maps: &'a Maps,
    /// Its threads.
    pub threads: &'a [Thread],
    /// Sorted, disjoint ranges that somebody else accounts for: Ruby's heap pages.
    pub claims: &'a [Range<u64>],
}

/// One arena as it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SurveyedArena {
    /// What its `arena_t` says, if that was found.
    pub facts: Option<ArenaFacts>,
    /// Its resident bytes, those of its metadata included.
    pub tally: Tally,
    /// Its bytes by what jemalloc counts.
    pub counts: Counts,
}

/// What a jemalloc was found to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// By index.
    pub arenas: BTreeMap<u32, SurveyedArena>,
    /// The settings in force.
    pub settings: JemallocSettings,
    /// Slabs by arena and size class.
    pub bins: Bins,
    /// The caches of the threads.
    pub caches: Caches,
    /// What a fork left behind.
    pub forgotten: Forgotten,
    /// The caches of threads that a fork left behind.
    pub(super) forgotten_caches: Caches,
    /// All extents, in order of address.
    pub extents: Vec<Placed>,
    /// Resident bytes of metadata.
    pub metadata_bytes: u64,
    /// All memory that it has, sorted and disjoint; what is unsettled included.
    pub ranges: Vec<Range<u64>>,
    /// Extents that were read more than once.
    pub rereadings: u64,
    /// Bytes behind each large object.
    pad: u64,
    /// Resident bytes of ranges that could not be settled.
    unsettled_bytes: u64,
    /// Addresses inside of jemalloc's own blocks, sorted.
    own: Vec<u64>,
}

impl Survey {
    /// Looks at a jemalloc.
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
        let bases = bases::find(&reader, blocks, &words)?;
        let arenas = Arenas::find(&reader, &words, &bases, blocks, jemalloc.extents)?;
        let ground =
            Ground { reader: &reader, maps: context.maps, blocks, arenas: &arenas, layout: jemalloc.extents };
        // Before the slabs: what a thread gives back meanwhile is then seen to be free.
        let caches = caches(&ground, &words)?;
        let found = Found::walk(jemalloc, &reader, blocks, context)?;
        let metadata = metadata(&bases, blocks);
        let ranges = found.ranges(&metadata);
        let taken = joined(ranges.iter().chain(context.claims).cloned().collect());
        let forgotten_caches = forgotten::read(&ground, &caches, &taken)?;
        let mut survey = Survey {
            arenas: BTreeMap::new(),
            settings: JemallocSettings::of(&arenas, &caches, context.threads),
            bins: Bins::new(),
            own: own(&caches, &forgotten_caches),
            caches,
            forgotten: Forgotten::default(),
            forgotten_caches,
            metadata_bytes: resident_bytes(memory, metadata.iter().map(Block::range))?,
            unsettled_bytes: resident_bytes(memory, found.unsettled.into_iter())?,
            ranges,
            rereadings: found.rereadings,
            pad: jemalloc.pad,
            extents: found.extents,
        };
        let claimed = claimed(memory, context.claims, &survey.extents)?;
        survey.count(arenas, &bases, &claimed);
        Ok(survey)
    }

    /// Resident bytes of everything.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total =
            Tally { overhead: self.metadata_bytes, unsettled: self.unsettled_bytes, ..Tally::default() };
        self.arenas.values().for_each(|arena| total += arena.tally);
        total
    }

    /// The bytes of all arenas as jemalloc counts them.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut total = Counts::default();
        self.arenas.values().for_each(|arena| total += arena.counts);
        total
    }

    /// Tells everything that was found, in order of address. What is unsettled is not among it.
    pub fn tell(&self, listener: &mut dyn Listener) {
        let knowledge = self.knowledge();
        for placed in &self.extents {
            knowledge.tell(placed, &knowledge.contents(placed), listener);
        }
    }

    /// The block that the program holds whose usable memory an address lies in.
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

    /// Adds up what was found. `claimed`: resident bytes of extents, by their base, that others account for.
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

/// What a walk has found.
struct Found {
    extents: Vec<Placed>,
    unsettled: Vec<Range<u64>>,
    rereadings: u64,
}

impl Found {
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
        Ok(Found { extents: walk.extents, unsettled, rereadings: walk.rereadings })
    }

    /// All memory of the heap, sorted and disjoint.
    fn ranges(&self, metadata: &[Block]) -> Vec<Range<u64>> {
        let extents = self.extents.iter().map(|placed| placed.extent.range());
        joined(
            extents.chain(metadata.iter().map(Block::range)).chain(self.unsettled.iter().cloned()).collect(),
        )
    }
}

/// The words of the library's data.
fn words(reader: &Reader<'_>, jemalloc: &Jemalloc) -> Result<Vec<(u64, u64)>> {
    let mut words = Vec::new();
    for data in &jemalloc.image.writable {
        words.extend(reader.nonzero_words(data)?);
    }
    Ok(words)
}

/// The caches of all threads, by whichever way leads to any.
fn caches(ground: &Ground<'_>, words: &[(u64, u64)]) -> Result<Caches> {
    let caches = Caches::read(ground)?;
    if caches.list.is_empty() && ground.layout.leaf_has_state {
        return tsd::read(ground, words);
    }
    Ok(caches)
}

fn resident_bytes(memory: &dyn Memory, ranges: impl Iterator<Item = Range<u64>>) -> Result<u64> {
    ranges.map(|range| resident_within(memory, std::slice::from_ref(&range), &range)).sum()
}

/// Resident bytes inside of extents that others account for, by the extents' bases.
fn claimed(memory: &dyn Memory, claims: &[Range<u64>], extents: &[Placed]) -> Result<BTreeMap<u64, u64>> {
    let mut claimed = BTreeMap::new();
    for claim in claims {
        let first = extents.partition_point(|placed| placed.extent.end() <= claim.start);
        for placed in extents[first..].iter().take_while(|placed| placed.extent.base < claim.end) {
            let part = claim.start.max(placed.extent.base)..claim.end.min(placed.extent.end());
            let Some(pages) = pages_of(&part) else { continue };
            let resident = memory.residency(pages.start, pages.end - pages.start)?.resident_within(part);
            *claimed.entry(placed.extent.base).or_default() += resident;
        }
    }
    Ok(claimed)
}

/// Where a heap can be: private anonymous memory, adjacent mappings joined. What is retained may be protected.
fn areas(maps: &Maps) -> Vec<Range<u64>> {
    let anonymous = |m: &&Mapping| !m.shared && (m.is_private_anonymous() || m.backing == Backing::Anonymous);
    joined(maps.iter().filter(anonymous).map(Mapping::range).collect())
}

/// The blocks of metadata of these bases; all there are if no base was found.
fn metadata(bases: &BTreeMap<u32, Base>, blocks: &Blocks) -> Vec<Block> {
    let mut metadata: Vec<Block> = bases.values().flat_map(|base| base.chain.clone()).collect();
    if metadata.is_empty() {
        metadata.extend(blocks.iter());
    }
    metadata.sort_unstable_by_key(|block| block.start);
    metadata.dedup();
    metadata
}

/// Addresses inside of the memory that the caches' stacks take.
fn own(caches: &Caches, forgotten: &Caches) -> Vec<u64> {
    let stack = |cache: &ThreadCache| cache.stack;
    let mut own: Vec<u64> =
        caches.list.iter().chain(&forgotten.list).map(stack).filter(|&at| at != 0).collect();
    own.sort_unstable();
    own.dedup();
    own
}
