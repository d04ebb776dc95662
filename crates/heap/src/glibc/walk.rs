//! Walking a span of chunks from one end to the other, window by window, in bounded memory.
//!
//! A window is copied (resident pages only), checked chunk by chunk, and only then told. A window that does not check
//! is copied again, up to [`READINGS`] times: the target runs on and may have been in the middle of a change. If the same
//! wrong words stand in the same place again, it is damage and no further reading helps. Then the walk looks for the next
//! place from which chunks follow each other, and counts what lies between as unsettled.
//!
//! A chunk at `p` of size `s` accounts for the bytes from `p + 8` (its size field) to `p + s + 8` (its user memory
//! reaches into the next chunk): so the bytes of all chunks tile the span, and a Ruby page inside of a chunk lies within
//! what the chunk accounts for.

use super::chunk::{Break, Place, Window};
use super::layout::{ALIGNMENT, WORD};
use super::marks::{Marks, MarksCursor};
use super::observer::{Chunk, ChunkState, Observer, Span};
use super::trim::{FreeRun, TopRule, Use};
use crate::model::Category;
use std::ops::Range;
use unbloat_process::{Memory, PAGE_SIZE, Residency, Result};

/// Bytes that are copied at once: fits into the second-level cache of current processors together with the reader.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// How often a window is copied before it counts as unsettled.
pub const READINGS: usize = 8;
/// Bytes of residency that are asked for at once for chunks longer than a window.
const STRIDE_BYTES: u64 = 64 << 20;
/// So many chunks have to follow each other before a place counts as the start of one.
const CONVINCING_CHAIN: usize = 16;

/// Where a span ends right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frontier {
    /// First address that is not malloc's.
    pub end: u64,
    /// The top chunk, if it lies in this span.
    pub top: Option<u64>,
}

/// What a walk knows beforehand.
pub struct Knowledge<'a> {
    /// Chunks in thread caches.
    pub cached: &'a Marks,
    /// Chunks in the arena's fastbins.
    pub fast: &'a Marks,
    /// Chunks that are malloc's own.
    pub own: &'a Marks,
    /// Sorted, disjoint ranges that somebody else accounts for.
    pub claims: &'a [Range<u64>],
    /// What becomes of the top.
    pub top_rule: TopRule,
}

/// What a walk found, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTally {
    /// Resident bytes by [`Use`].
    resident: [u64; Use::COUNT],
    /// Bytes of chunks in bins and in fastbins, resident or not.
    pub free_bytes: u64,
    /// Bytes of the top, resident or not.
    pub top_bytes: u64,
    /// Windows that were copied again.
    pub rereadings: u64,
    /// The first place that is damaged, not just changing.
    pub damage: Option<Break>,
}

impl SpanTally {
    /// Resident bytes of a use.
    #[must_use]
    pub fn resident(&self, what: Use) -> u64 {
        self.resident[what as usize]
    }

    /// Adds another span's.
    pub fn add(&mut self, other: &SpanTally) {
        self.resident.iter_mut().zip(other.resident).for_each(|(sum, bytes)| *sum += bytes);
        self.free_bytes += other.free_bytes;
        self.top_bytes += other.top_bytes;
        self.rereadings += other.rereadings;
        self.damage = self.damage.or(other.damage);
    }
}

/// A reader of spans; its buffer is reused.
pub struct Walker<'a> {
    memory: &'a dyn Memory,
    buffer: Vec<u8>,
}

impl<'a> Walker<'a> {
    /// A walker through `memory`, which must be able to read ranges whose residency is known.
    #[must_use]
    pub fn new(memory: &'a dyn Memory) -> Self {
        // Written once here, so that no page fault of ours falls into a reading.
        Walker { memory, buffer: vec![0xa5; WINDOW_BYTES as usize] }
    }

    /// Walks a span. `frontier` is asked before each window and says where the span ends by then.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn walk(
        &mut self,
        span: &Span,
        knowledge: &Knowledge<'_>,
        frontier: &mut dyn FnMut() -> Option<Frontier>,
        observer: &mut dyn Observer,
    ) -> Result<SpanTally> {
        observer.span(span);
        let ends = frontier().unwrap_or(Frontier { end: span.range.end, top: None });
        let mut teller = Teller::new(self.memory, span, knowledge, observer);
        teller.told = span.first_chunk + WORD;
        teller.emit(span.range.start..teller.told, Use::Overhead)?;
        let mut walk = Walk { at: span.first_chunk, ends, lost: false, foreign: false };
        while walk.at < walk.ends.end {
            self.window(&mut walk, frontier, &mut teller)?;
        }
        teller.close_run()?;
        // What lies between the last chunk and the end of the span: the end of an old heap.
        let told = teller.told;
        teller.emit(told..walk.ends.end.max(span.range.end), Use::Overhead)?;
        Ok(teller.tally)
    }

    /// Copies and tells one window, and leaves `walk` at the chunk that the next one starts with.
    fn window(
        &mut self,
        walk: &mut Walk,
        frontier: &mut dyn FnMut() -> Option<Frontier>,
        teller: &mut Teller<'_, '_>,
    ) -> Result<()> {
        let start = walk.at / PAGE_SIZE * PAGE_SIZE;
        let mut broken = None;
        for reading in 0..READINGS {
            walk.ends = frontier().unwrap_or(walk.ends);
            if walk.at >= walk.ends.end {
                return Ok(());
            }
            teller.cut = teller.top_rule.cut(walk.ends.end);
            let len = (walk.ends.end.next_multiple_of(PAGE_SIZE) - start).min(WINDOW_BYTES);
            let residency = self.memory.residency(start, len)?;
            let bytes = &mut self.buffer[..len as usize];
            self.memory.read_resident(&residency, bytes)?;
            let window = Window::new(start, bytes);
            teller.pages = residency;
            if walk.lost {
                return walk.find_chunks(&window, teller);
            }
            let verdict = check(&window, walk.at, walk.ends);
            teller.tally.rereadings += u64::from(reading > 0);
            match verdict {
                None => return walk.tell(&window, teller),
                Some(again) if broken == Some(again) || reading + 1 == READINGS => {
                    if broken == Some(again) {
                        teller.tally.damage.get_or_insert(again);
                    }
                    walk.tell_until(&window, again.address, teller)?;
                    walk.at += ALIGNMENT;
                    walk.lost = true;
                    return walk.find_chunks(&window, teller);
                }
                Some(new) => broken = Some(new),
            }
        }
        Ok(())
    }
}

/// The first place of a window that does not check.
fn check(window: &Window<'_>, from: u64, ends: Frontier) -> Option<Break> {
    let mut at = from;
    loop {
        if ends.top == Some(at) {
            return None;
        }
        match window.place(at, ends.end) {
            Place::Chunk { size, .. } => at += size,
            Place::Fencepost { size } => {
                // After the end of a run of the main arena comes memory of others.
                if window.word(at + size + 8).is_some_and(|head| head & !1 == size) {
                    return None;
                }
                at += size;
            }
            Place::Broken(broken) => return Some(broken),
            Place::Long { .. } | Place::End | Place::Outside => break,
        }
    }
    // The top was passed by: it has moved since it was asked for.
    let passed = ends.top.is_some_and(|top| top < at && top >= from);
    passed.then_some(Break { address: at, words: [0; 2] })
}

/// Whether chunks follow each other from `at` on.
fn convincing(window: &Window<'_>, at: u64, ends: Frontier) -> bool {
    let mut place = at;
    for step in 0..CONVINCING_CHAIN {
        if ends.top == Some(place) {
            return true;
        }
        match window.place(place, ends.end) {
            Place::Chunk { size, .. } => place += size,
            Place::Long { .. } | Place::End | Place::Fencepost { .. } => return step > 1,
            Place::Outside | Place::Broken(_) => return false,
        }
    }
    true
}

/// Where a walk is.
struct Walk {
    at: u64,
    ends: Frontier,
    /// Where the next chunk starts is not known.
    lost: bool,
    /// What lies before the next chunk is not malloc's.
    foreign: bool,
}

impl Walk {
    /// Tells the chunks of a window that was checked.
    fn tell(&mut self, window: &Window<'_>, teller: &mut Teller<'_, '_>) -> Result<()> {
        self.tell_until(window, u64::MAX, teller)
    }

    fn tell_until(&mut self, window: &Window<'_>, until: u64, teller: &mut Teller<'_, '_>) -> Result<()> {
        while self.at < until {
            if self.ends.top == Some(self.at) {
                teller.top(self.at, self.ends.end)?;
                self.at = self.ends.end;
                return Ok(());
            }
            match window.place(self.at, self.ends.end) {
                Place::Chunk { size, free } => {
                    teller.chunk(self.at, size, free)?;
                    self.at += size;
                }
                Place::Fencepost { size } => {
                    teller.fencepost(self.at, size)?;
                    self.at += size;
                    if window.word(self.at + 8).is_some_and(|head| head & !1 == size) {
                        teller.fencepost(self.at, size)?;
                        self.at += size;
                        self.lost = true;
                        self.foreign = true;
                        return Ok(());
                    }
                }
                Place::Long { size } => return self.tell_long(window, size, teller),
                Place::End => {
                    self.at = self.ends.end;
                    return Ok(());
                }
                Place::Outside | Place::Broken(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// A chunk whose successor is not in the window: seen again in the next window, unless no window could hold it.
    fn tell_long(&mut self, window: &Window<'_>, size: u64, teller: &mut Teller<'_, '_>) -> Result<()> {
        if self.at >= window.range().start + PAGE_SIZE {
            return Ok(());
        }
        let next = self.at + size;
        let free = match teller.header(next)? {
            Some((foot, head)) => head & 1 == 0 && foot == size,
            None => false,
        };
        teller.chunk(self.at, size, free)?;
        self.at = next;
        Ok(())
    }

    /// Looks for the next chunk on resident pages; without one, the rest of the window is given up.
    fn find_chunks(&mut self, window: &Window<'_>, teller: &mut Teller<'_, '_>) -> Result<()> {
        let what = if self.foreign { Use::Foreign } else { Use::Unsettled };
        let end = window.range().end.min(self.ends.end);
        let mut at = self.at;
        while at < end {
            if !teller.pages.is_resident(at) {
                at = at / PAGE_SIZE * PAGE_SIZE + PAGE_SIZE;
            } else if self.ends.top == Some(at) || convincing(window, at, self.ends) {
                break;
            } else {
                at += ALIGNMENT;
            }
        }
        let at = at.min(end);
        let found = at < end;
        teller.skip(at + if found { WORD } else { 0 }, what)?;
        self.at = at;
        (self.lost, self.foreign) = (!found, self.foreign && !found);
        Ok(())
    }
}

/// Counts and passes on what the walk has established.
struct Teller<'a, 'o> {
    memory: &'a dyn Memory,
    observer: &'o mut dyn Observer,
    /// Residency of the window.
    pages: Residency,
    tally: SpanTally,
    cached: MarksCursor<'a>,
    fast: MarksCursor<'a>,
    own: MarksCursor<'a>,
    claims: &'a [Range<u64>],
    top_rule: TopRule,
    /// The first byte that is cut off the top.
    cut: u64,
    run: FreeRun,
    /// Everything before this address is accounted for, but for what the open run holds back.
    told: u64,
}

impl<'a, 'o> Teller<'a, 'o> {
    fn new(
        memory: &'a dyn Memory,
        span: &Span,
        knowledge: &Knowledge<'a>,
        observer: &'o mut dyn Observer,
    ) -> Self {
        let first_claim = knowledge.claims.partition_point(|claim| claim.end <= span.range.start);
        Teller {
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

    fn chunk(&mut self, at: u64, size: u64, free: bool) -> Result<()> {
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

    fn top(&mut self, at: u64, end: u64) -> Result<()> {
        self.close_run()?;
        self.announce(at, end - at, ChunkState::Top)?;
        self.tally.top_bytes += end - at;
        self.told = end;
        let cut = self.cut.clamp(at + WORD, end);
        self.emit(at + WORD..cut, Use::Top)?;
        self.emit(cut..end, Use::Trimmable)
    }

    fn fencepost(&mut self, at: u64, size: u64) -> Result<()> {
        self.close_run()?;
        self.told = at + size + WORD;
        self.kept(at + WORD..at + size + WORD, Use::Overhead)
    }

    /// Everything up to `until` is `what`.
    fn skip(&mut self, until: u64, what: Use) -> Result<()> {
        self.close_run()?;
        let from = self.told;
        self.told = self.told.max(until);
        self.emit(from..until, what)
    }

    /// A chunk that is free or becomes so when the fastbins are emptied.
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

    fn close_run(&mut self) -> Result<()> {
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

    /// Accounts for a range, without what others claim of it.
    fn emit(&mut self, range: Range<u64>, what: Use) -> Result<()> {
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

    /// Resident bytes of a range that starts in the window or anywhere else.
    fn resident_bytes(&self, range: Range<u64>) -> Result<u64> {
        let window = self.pages.start()..self.pages.start() + self.pages.len();
        if range.start / PAGE_SIZE == range.end.saturating_sub(1) / PAGE_SIZE && window.contains(&range.start)
        {
            return Ok(if self.pages.is_resident(range.start) { range.end - range.start } else { 0 });
        }
        if window.start <= range.start && range.end <= window.end {
            return Ok(self.pages.resident_within(range));
        }
        let (mut at, mut sum) = (range.start, 0);
        while at < range.end {
            let start = at / PAGE_SIZE * PAGE_SIZE;
            let end = range.end.next_multiple_of(PAGE_SIZE).min(start + STRIDE_BYTES);
            sum += self.memory.residency(start, end - start)?.resident_within(at..range.end);
            at = end;
        }
        Ok(sum)
    }

    /// The two words at an address, if they are resident.
    fn header(&self, address: u64) -> Result<Option<(u64, u64)>> {
        let page = address / PAGE_SIZE * PAGE_SIZE;
        if !self.memory.residency(page, PAGE_SIZE)?.is_resident(page) {
            return Ok(None);
        }
        let word = |at| self.memory.word(at).ok();
        Ok(word(address).zip(word(address + WORD)))
    }
}

impl Use {
    /// The category of the census.
    #[must_use]
    pub fn category(self) -> Category {
        match self {
            Use::Live => Category::MallocLive,
            Use::Cached => Category::MallocCached,
            Use::Trimmable => Category::MallocTrimmable,
            Use::Stranded => Category::MallocStranded,
            Use::Top => Category::MallocTop,
            Use::Overhead => Category::MallocOverhead,
            Use::Unsettled => Category::Unsettled,
            Use::Foreign => Category::OtherAnonymous,
        }
    }

    /// All of them.
    pub const ALL: [Use; Use::COUNT] = [
        Use::Live,
        Use::Cached,
        Use::Trimmable,
        Use::Stranded,
        Use::Top,
        Use::Overhead,
        Use::Unsettled,
        Use::Foreign,
    ];
}
