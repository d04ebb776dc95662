//! jemalloc's heap, behind the interface of all walkers.

use super::bins::{Bin, by_class};
use super::blocks::Blocks;
use super::caches::ThreadCache;
use super::locate::{Jemalloc, Search};
use super::reader::Reader;
use super::sizes::SizeClass;
use super::survey::{Context, Survey, SurveyedArena};
use super::tell::Listener;
use crate::Iec;
use crate::allocators::heap::{Heap, Look, Prediction, Walked};
use crate::allocators::observer::Observer;
use crate::model::{self, AllocatorKind, Arena, ArenaExtents, Category, Note, NoteCode, Settings};
use crate::ranges::remaining;
use std::ops::Range;
use std::time::Duration;
use unbloat_process::{Maps, Result, Stopped, Thread};

/// Maximum number of size classes in the report.
const BINS: usize = 16;

/// Maximum number of stops for a moment between two changes.
const STOPS: usize = 8;
/// Time stopped in all after which there is no further stop.
const STOPPED_ENOUGH: Duration = Duration::from_secs(1);

/// One jemalloc of a process, with the metadata blocks found.
#[derive(Debug, Clone)]
pub struct JemallocHeap {
    jemalloc: Jemalloc,
    blocks: Blocks,
}

impl Search {
    /// Returns each jemalloc as a heap.
    pub fn heaps(self) -> impl Iterator<Item = JemallocHeap> {
        let blocks = self.blocks;
        self.jemallocs.into_iter().map(move |jemalloc| JemallocHeap { jemalloc, blocks: blocks.clone() })
    }
}

impl JemallocHeap {
    /// Surveys it; with `--stop` while the process is stopped, again if it was stopped in the middle of a change. Returns also for how
    /// long it was stopped.
    fn settled(&self, look: &Look<'_>, threads: &[Thread]) -> Result<(Survey, Duration)> {
        let survey = |maps: &Maps, blocks: &Blocks| {
            let context = Context { maps, threads, claims: look.claims };
            Survey::take(&self.jemalloc, blocks, look.memory, context)
        };
        if !look.stop {
            return Ok((survey(look.maps, &self.blocks)?, Duration::ZERO));
        }
        let mut stopped_for = Duration::ZERO;
        let mut stops = 0;
        loop {
            stops += 1;
            let stopped = Stopped::all(look.pid)?;
            // Until now it could go on, map more and take more metadata.
            let maps = Maps::of(look.pid)?;
            let blocks = Blocks::find(&Reader::new(look.memory), &maps)?;
            let taken = survey(&maps, &blocks);
            stopped_for += stopped.resume();
            let taken = taken?;
            if taken.total().unsettled == 0 || stops == STOPS || stopped_for >= STOPPED_ENOUGH {
                return Ok((taken, stopped_for));
            }
        }
    }
}

impl Heap for JemallocHeap {
    fn kind(&self) -> AllocatorKind {
        AllocatorKind::Jemalloc
    }

    fn walk(&self, look: &Look<'_>, observer: &mut dyn Observer) -> Result<Walked> {
        let threads = unbloat_process::threads(look.pid)?;
        let (survey, stopped) = self.settled(look, &threads)?;
        if observer.is_listening() {
            survey.tell(&mut Outside { survey: &survey, claims: look.claims, observer });
        }
        Ok(Walked {
            whole: !survey.extents.is_empty(),
            bytes: survey.bytes(),
            ranges: survey.ranges.clone(),
            arenas: survey.rows(look.maps, &threads),
            bins: by_class(&survey.bins).into_iter().take(BINS).map(bin).collect(),
            settings: Some(Settings::Jemalloc(survey.settings)),
            notes: survey.notes(),
            stopped,
            ..Walked::default()
        })
    }

    fn predict(&self, look: &Look<'_>) -> Result<Prediction> {
        let context = Context { maps: look.maps, threads: &[], claims: look.claims };
        let survey = Survey::take(&self.jemalloc, &self.blocks, look.memory, context)?;
        let total = survey.total();
        let rough = (total.unsettled > 0)
            .then(|| "its heap changed while it was read, so the prediction is only about right".to_owned());
        Ok(Prediction { bytes: total.trimmable, rough, damage: None })
    }
}

impl Survey {
    /// Returns the resident bytes by category.
    fn bytes(&self) -> Vec<(Category, u64)> {
        let total = self.total();
        vec![
            (Category::MallocLive, total.live),
            (Category::MallocCached, total.cached),
            (Category::MallocTrimmable, total.trimmable),
            (Category::MallocStranded, total.stranded.saturating_sub(total.holes)),
            (Category::MallocHoles, total.holes),
            (Category::MallocOverhead, total.overhead),
            (Category::Unsettled, total.unsettled),
        ]
    }

    /// Notes the caches left behind by a fork.
    fn notes(&self) -> Vec<Note> {
        let forgotten = &self.forgotten;
        if forgotten.blocks == 0 {
            return Vec::new();
        }
        let text = format!(
            "{} in {} blocks stay allocated forever: caches of {} threads of the parent held them when \
             this process was forked, and jemalloc forgets such caches in the child. They are counted as \
             cached.",
            Iec(forgotten.bytes),
            forgotten.blocks,
            forgotten.threads
        );
        vec![Note::new(NoteCode::CachesForgotten, text)]
    }

    /// Converts the arenas for the report.
    fn rows(&self, maps: &Maps, threads: &[Thread]) -> Vec<Arena> {
        let row = |(&index, arena): (&u32, &SurveyedArena)| {
            let caches = self.caches.list.iter().filter(|cache| cache.arena == Some(index));
            arena.row(index, caches.filter_map(|cache| owner(cache, maps, threads)).collect())
        };
        self.arenas.iter().map(row).collect()
    }
}

impl SurveyedArena {
    /// Converts one arena for the report.
    fn row(&self, index: u32, threads: Vec<model::ThreadCache>) -> Arena {
        let (tally, counts, facts) = (&self.tally, &self.counts, self.facts.as_ref());
        Arena {
            address: facts.map_or(0, |facts| facts.address),
            main: index == 0,
            heaps: counts.extents,
            size_bytes: counts.active.saturating_add(counts.dirty).saturating_add(counts.muzzy),
            resident_bytes: tally.total(),
            live_bytes: tally.live,
            cached_bytes: tally.cached,
            trimmable_bytes: tally.trimmable,
            stranded_bytes: tally.stranded,
            top_bytes: 0,
            free_bytes: counts.dirty.saturating_add(counts.muzzy).saturating_add(tally.stranded),
            threads,
            unsettled_bytes: tally.unsettled,
            extents: Some(ArenaExtents {
                index,
                extents: counts.extents,
                slabs: counts.slabs,
                dirty_bytes: counts.dirty,
                muzzy_bytes: counts.muzzy,
                retained_bytes: counts.retained,
                holes_bytes: tally.holes,
                threads: facts.map(|facts| facts.threads.into()),
                dirty_decay_ms: facts.and_then(|facts| facts.dirty_decay_ms),
                muzzy_decay_ms: facts.and_then(|facts| facts.muzzy_decay_ms),
            }),
        }
    }
}

/// Returns the thread whose memory contains a cache: of the threads whose libc description lies in the same
/// mapping, the nearest one. Static thread-local memory and that description are neighbors.
fn owner(cache: &ThreadCache, maps: &Maps, threads: &[Thread]) -> Option<model::ThreadCache> {
    let mapping = maps.find(cache.address)?.range();
    let place = |thread: &&Thread| thread.robust_list.filter(|list| mapping.contains(list));
    let distance = |thread: &&Thread| place(thread).map_or(u64::MAX, |list| list.abs_diff(cache.address));
    let thread = threads.iter().filter(|thread| place(thread).is_some()).min_by_key(distance)?;
    Some(model::ThreadCache {
        tid: thread.tid,
        name: thread.name.clone(),
        cached_chunks: cache.blocks,
        cached_bytes: cache.bytes,
    })
}

/// Passes a walk's findings on to an observer, without the ranges that others claim.
struct Outside<'a> {
    survey: &'a Survey,
    claims: &'a [Range<u64>],
    observer: &'a mut dyn Observer,
}

impl Listener for Outside<'_> {
    fn extent(&mut self, range: Range<u64>, arena: u32) {
        let facts = self.survey.arenas.get(&arena).and_then(|arena| arena.facts.as_ref());
        self.observer.memory(range, facts.map_or(0, |facts| facts.address));
    }

    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        self.observer.block(usable, resident_bytes);
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        remaining(&range, self.claims).for_each(|part| self.observer.bytes(part, category));
    }
}

/// Converts a size class for the report.
fn bin((class, bin): (SizeClass, Bin)) -> model::Bin {
    model::Bin {
        block_bytes: class.bytes(),
        slabs: bin.slabs,
        blocks: bin.regions,
        used_blocks: bin.used,
        stranded_bytes: bin.stranded_bytes,
        holes_bytes: bin.hole_bytes,
    }
}
