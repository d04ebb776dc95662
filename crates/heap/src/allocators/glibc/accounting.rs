//! Tallies a walk's findings and passes them on: each chunk's state, each byte's use.
//!
//! The walk reports chunks in address order, each once. Ranges inside a chunk that are accounted for
//! elsewhere (a Ruby page, up to 3.0) are left out of the bytes.

use super::chunk::Break;
use super::layout::WORD;
use super::marks::{Marks, MarksCursor};
use super::observer::{Chunk, ChunkState, Observer, Span};
use super::trim::{FreeRun, TopRule, Use};
use std::ops::Range;
use unbloat_process::{Memory, Residency, Result, page_size, resident_bytes};

/// The input of a walk.
pub struct Knowledge<'a> {
    /// Chunks in thread caches.
    pub cached: &'a Marks,
    /// Chunks in the arena's fastbins.
    pub fast: &'a Marks,
    /// Chunks that malloc uses itself.
    pub own: &'a Marks,
    /// Sorted, disjoint ranges accounted for elsewhere.
    pub claims: &'a [Range<u64>],
    /// Treatment of the top chunk by a trim.
    pub top_rule: TopRule,
}

/// The result of a walk, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpanTally {
    /// Resident bytes by [`Use`].
    resident: [u64; Use::COUNT],
    /// Bytes of chunks in bins and in fastbins, resident or not.
    pub free_bytes: u64,
    /// Bytes of the top, resident or not.
    pub top_bytes: u64,
    /// Number of windows that had to be copied again.
    pub rereadings: u64,
    /// Places where the same invalid words appeared twice in a row: either damage, or a change caught midway.
    pub breaks: Vec<Break>,
}

impl SpanTally {
    /// Returns the resident bytes of a use.
    #[must_use]
    pub fn resident(&self, what: Use) -> u64 {
        self.resident[what as usize]
    }

    /// Adds another span's tally.
    pub fn add(&mut self, other: &SpanTally) {
        self.resident.iter_mut().zip(other.resident).for_each(|(sum, bytes)| *sum += bytes);
        self.free_bytes += other.free_bytes;
        self.top_bytes += other.top_bytes;
        self.rereadings += other.rereadings;
        self.breaks.extend(&other.breaks);
    }
}

/// Tallies and passes on the walk's findings.
pub(super) struct Account<'a, 'o> {
    memory: &'a dyn Memory,
    observer: &'o mut dyn Observer,
    /// Residency of the window.
    pub(super) pages: Residency,
    pub(super) tally: SpanTally,
    cached: MarksCursor<'a>,
    fast: MarksCursor<'a>,
    own: MarksCursor<'a>,
    claims: &'a [Range<u64>],
    pub(super) top_rule: TopRule,
    /// The first byte that a trim would cut off the top.
    pub(super) cut: u64,
    run: FreeRun,
    /// End of the accounted addresses, apart from those that the open run holds back.
    pub(super) told: u64,
}

impl<'a, 'o> Account<'a, 'o> {
    pub(super) fn new(
        memory: &'a dyn Memory,
        span: &Span,
        knowledge: &Knowledge<'a>,
        observer: &'o mut dyn Observer,
    ) -> Self {
        let first_claim = knowledge.claims.partition_point(|claim| claim.end <= span.range.start);
        Account {
            memory,
            observer,
            pages: Residency::default(),
            tally: SpanTally::default(),
            cached: knowledge.cached.from(span.first_chunk),
            fast: knowledge.fast.from(span.first_chunk),
            own: knowledge.own.from(span.first_chunk),
            claims: &knowledge.claims[first_claim..],
            top_rule: knowledge.top_rule,
            cut: u64::MAX,
            run: FreeRun::default(),
            told: span.range.start,
        }
    }

    pub(super) fn chunk(&mut self, at: u64, size: u64, free: bool) -> Result<()> {
        let bytes = at + WORD..at + size + WORD;
        let (cached, fast, own) = (self.cached.has(at), self.fast.has(at), self.own.has(at));
        let state = match (free, cached || fast, own) {
            (true, ..) => ChunkState::Free,
            (_, true, _) => ChunkState::Cached,
            (.., true) => ChunkState::Overhead,
            _ => ChunkState::Live,
        };
        self.announce(at, size, state)?;
        self.told = bytes.end;
        match state {
            ChunkState::Free => {
                self.tally.free_bytes += size;
                self.freed(at, bytes, Use::Stranded)
            }
            ChunkState::Cached if fast => {
                self.tally.free_bytes += size;
                self.freed(at, bytes, Use::Cached)
            }
            ChunkState::Cached => self.kept(bytes, Use::Cached),
            ChunkState::Overhead => self.kept(bytes, Use::Overhead),
            _ => {
                self.kept(bytes.start..bytes.start + WORD, Use::Overhead)?;
                self.kept(bytes.start + WORD..bytes.end, Use::Live)
            }
        }
    }

    pub(super) fn top(&mut self, at: u64, end: u64) -> Result<()> {
        self.close_run()?;
        self.announce(at, end - at, ChunkState::Top)?;
        self.tally.top_bytes += end - at;
        self.told = end;
        let cut = self.cut.clamp(at + WORD, end);
        self.emit(at + WORD..cut, Use::Top)?;
        self.emit(cut..end, Use::Trimmable)
    }

    pub(super) fn fencepost(&mut self, at: u64, size: u64) -> Result<()> {
        self.close_run()?;
        self.told = at + size + WORD;
        self.kept(at + WORD..at + size + WORD, Use::Overhead)
    }

    /// Records everything up to `until` as `what`.
    pub(super) fn skip(&mut self, until: u64, what: Use) -> Result<()> {
        self.close_run()?;
        let from = self.told;
        self.told = self.told.max(until);
        self.emit(from..until, what)
    }

    /// Adds a chunk that is free, or becomes free when the fastbins are emptied.
    fn freed(&mut self, at: u64, bytes: Range<u64>, kept: Use) -> Result<()> {
        if at >= self.top_rule.merged_from {
            self.close_run()?;
            let cut = self.cut.clamp(bytes.start, bytes.end);
            self.emit(bytes.start..cut, kept)?;
            return self.emit(cut..bytes.end, Use::Trimmable);
        }
        if !self.run.continues_at(at) {
            self.close_run()?;
            self.run.start(at);
        }
        self.with_run(|run, emit| run.add(bytes.clone(), bytes.end - WORD, kept, emit))
    }

    fn kept(&mut self, bytes: Range<u64>, what: Use) -> Result<()> {
        self.close_run()?;
        self.emit(bytes, what)
    }

    pub(super) fn close_run(&mut self) -> Result<()> {
        if self.run.is_active() { self.with_run(|run, emit| run.close(emit)) } else { Ok(()) }
    }

    fn with_run(&mut self, act: impl FnOnce(&mut FreeRun, &mut dyn FnMut(Range<u64>, Use))) -> Result<()> {
        let mut run = std::mem::take(&mut self.run);
        let mut outcome = Ok(());
        act(&mut run, &mut |range, what| {
            if outcome.is_ok() {
                outcome = self.emit(range, what);
            }
        });
        self.run = run;
        outcome
    }

    fn announce(&mut self, address: u64, size: u64, state: ChunkState) -> Result<()> {
        let resident_bytes = self.resident_bytes(address..address + size)?;
        self.observer.chunk(&Chunk { address, size, state, resident_bytes });
        Ok(())
    }

    /// Accounts for a range, minus the parts claimed elsewhere.
    pub(super) fn emit(&mut self, range: Range<u64>, what: Use) -> Result<()> {
        let mut from = range.start;
        while from < range.end {
            while self.claims.first().is_some_and(|claim| claim.end <= from) {
                self.claims = &self.claims[1..];
            }
            let claim = self.claims.first().filter(|claim| claim.start < range.end);
            let to = claim.map_or(range.end, |claim| claim.start.max(from));
            let resume = claim.map_or(range.end, |claim| claim.end);
            if from < to {
                self.tally.resident[what as usize] += self.resident_bytes(from..to)?;
                self.observer.bytes(from..to, what.category());
            }
            from = resume;
        }
        Ok(())
    }

    /// Returns the resident bytes of a range, which may start in the window or anywhere else.
    fn resident_bytes(&self, range: Range<u64>) -> Result<u64> {
        let window = self.pages.start()..self.pages.start() + self.pages.len();
        if range.start / page_size() == range.end.saturating_sub(1) / page_size()
            && window.contains(&range.start)
        {
            return Ok(if self.pages.is_resident(range.start) { range.end - range.start } else { 0 });
        }
        if window.start <= range.start && range.end <= window.end {
            return Ok(self.pages.resident_within(range));
        }
        resident_bytes(self.memory, &range)
    }

    /// Reads the two words at an address, if they are resident.
    pub(super) fn header(&self, address: u64) -> Result<Option<(u64, u64)>> {
        let page = address / page_size() * page_size();
        if !self.memory.residency(page, page_size())?.is_resident(page) {
            return Ok(None);
        }
        let word = |at| self.memory.word(at).ok();
        Ok(word(address).zip(word(address + WORD)))
    }
}
