//! glibc's heap, behind the interface of all walkers.

use super::Glibc;
use super::damage::Damage;
use super::observer::{Chunk, ChunkState, Observer as ChunkObserver, Span};
use super::survey::{Context, Survey, SurveyedArena};
use super::tcache::Caches;
use super::trim::Use;
use crate::allocators::heap::{Heap, Look, Prediction, Recheck, Walked};
use crate::allocators::observer::Observer;
use crate::model::{AllocatorKind, Arena, Category, Settings};
use std::ops::Range;
use unbloat_process::{Maps, Memory, Result, Status, status};

impl Heap for Glibc {
    fn kind(&self) -> AllocatorKind {
        AllocatorKind::Glibc
    }

    fn walk(&self, look: &Look<'_>, observer: &mut dyn Observer) -> Result<Walked> {
        let threads = unbloat_process::threads(look.pid)?;
        let stop = look.stop.then_some(look.pid);
        let context = Context { stop, maps: look.maps, threads: &threads, claims: look.claims };
        let survey = Survey::take(self, look.memory, context, &mut Chunks(observer))?;
        let cores = self.cores(status::online_cores(), Status::of(look.pid)?.allowed_cores);
        let total = survey.total();
        Ok(Walked {
            whole: !survey.arenas.is_empty(),
            bytes: Use::ALL.map(|what| (what.category(), total.resident(what))).to_vec(),
            ranges: survey.ranges(),
            stacks: survey.caches.threads.iter().filter_map(|thread| thread.stack.clone()).collect(),
            arenas: survey.arenas.iter().map(|arena| arena.row(&survey.caches)).collect(),
            bins: Vec::new(),
            settings: survey.parameters.map(|values| Settings::Glibc(values.settings(cores))),
            notes: survey.notes.clone(),
            stopped: survey.stopped,
            recheck: Some(recheck(self.clone(), survey)),
        })
    }

    fn predict(&self, look: &Look<'_>) -> Result<Prediction> {
        // Chunks in thread caches look as if they were in use, and a trim leaves them alone, so there is no
        // need to tell them apart.
        let context = Context { maps: look.maps, threads: &[], claims: look.claims, stop: None };
        let survey = Survey::take(self, look.memory, context, &mut ())?;
        let total = survey.total();
        let moving = !total.breaks.is_empty() || total.resident(Use::Unsettled) > 0;
        let rough = moving
            .then(|| "its heap changed while it was read, so the prediction is only about right".to_owned());
        let damage = survey.damage(self, look.memory, look.maps)?.first().map(|damage| {
            let text = damage.note().text;
            format!("its heap is damaged, and malloc aborts the program if it detects that. {text}")
        });
        Ok(Prediction { bytes: total.resident(Use::Trimmable), rough, damage })
    }
}

fn recheck(glibc: Glibc, survey: Survey) -> Recheck {
    Box::new(move |memory: &dyn Memory, maps: &Maps| {
        Ok(survey.damage(&glibc, memory, maps)?.iter().map(Damage::note).collect())
    })
}

/// Translates a walk's chunks into blocks for an observer.
pub struct Chunks<'o>(pub &'o mut dyn Observer);

impl ChunkObserver for Chunks<'_> {
    fn span(&mut self, span: &Span) {
        self.0.memory(span.range.clone(), span.arena);
    }

    fn chunk(&mut self, chunk: &Chunk) {
        // The header takes one word of a chunk's size, or two of a mapped chunk's; the census counts them as
        // overhead.
        let header = match chunk.state {
            ChunkState::Live => 8,
            ChunkState::Mapped => 16,
            ChunkState::Cached | ChunkState::Free | ChunkState::Top | ChunkState::Overhead => return,
        };
        self.0.block(chunk.user(), chunk.resident_bytes.saturating_sub(header));
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        self.0.bytes(range, category);
    }
}

impl SurveyedArena {
    /// Converts the arena for the report.
    #[must_use]
    pub fn row(&self, caches: &Caches) -> Arena {
        let tally = &self.tally;
        Arena {
            address: self.state.address,
            main: self.state.main,
            heaps: self.spans.len() as u64,
            size_bytes: self.state.system_mem,
            resident_bytes: Use::ALL.iter().map(|&what| tally.resident(what)).sum(),
            live_bytes: tally.resident(Use::Live),
            cached_bytes: tally.resident(Use::Cached),
            trimmable_bytes: tally.resident(Use::Trimmable),
            stranded_bytes: tally.resident(Use::Stranded),
            top_bytes: tally.resident(Use::Top),
            free_bytes: tally.free_bytes.saturating_add(tally.top_bytes),
            threads: caches.of_arena(self.state.address),
            unsettled_bytes: tally.resident(Use::Unsettled),
            extents: None,
        }
    }
}
