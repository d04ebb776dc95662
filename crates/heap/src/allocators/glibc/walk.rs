//! Walks a span of chunks from end to end, window by window, in bounded memory.
//!
//! A window is copied (resident pages only), checked chunk by chunk, and only then reported. A window that
//! fails its checks is copied again, half as much of it each time and up to [`READINGS`] times, because the
//! target keeps running and may have been in the middle of a change. If the same invalid words appear in the
//! same place twice in a row, an immediate third read does not help (a thread may have been preempted during
//! a change, or the chunk at the start of the window may have become part of another). The walk then looks
//! for the next place from which chunks follow each other, and counts the bytes in between as unsettled. Only
//! time can tell whether such a place is damaged: `damage` looks at it again.
//!
//! A chunk at `p` of size `s` accounts for the bytes from `p + 8` (its size field) to `p + s + 8` (its user
//! memory reaches into the next chunk). So the bytes of all chunks tile the span, and a Ruby page inside a
//! chunk lies within the bytes that the chunk accounts for.

use super::accounting::{Account, Knowledge, SpanTally};
use super::chunk::{Break, Place, Window};
use super::layout::{ALIGNMENT, FLAGS, WORD};
use super::observer::{Observer, Span};
use super::trim::Use;
use unbloat_process::{Memory, Result, page_size};

/// Bytes copied at once: together with the reader they fit into the L2 cache of current processors.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// Maximum number of copies of a window before it counts as unsettled.
pub const READINGS: usize = 8;
/// Maximum number of invalid places recorded per span.
const MAX_BREAKS: usize = 64;
/// Number of consecutive chunks needed before a place counts as the start of one.
const CONVINCING_CHAIN: usize = 16;

/// The current end of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frontier {
    /// First address that is no longer malloc's.
    pub end: u64,
    /// The top chunk, if it lies in this span.
    pub top: Option<u64>,
}

/// A reader of spans with a reusable buffer.
pub struct Walker<'a> {
    memory: &'a dyn Memory,
    buffer: Vec<u8>,
}

impl<'a> Walker<'a> {
    /// Creates a walker over `memory`, which must be able to read ranges whose residency is known.
    #[must_use]
    pub fn new(memory: &'a dyn Memory) -> Self {
        // Written once here, so that our own page faults do not occur during a read.
        Walker { memory, buffer: vec![0xa5; WINDOW_BYTES as usize] }
    }

    /// Walks a span. `frontier` is called before each window and returns the span's current end.
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
        let mut account = Account::new(self.memory, span, knowledge, observer);
        account.told = span.first_chunk + WORD;
        account.emit(span.range.start..account.told, Use::Overhead)?;
        let mut walk = Walk { at: span.first_chunk, ends, lost: false, foreign: false };
        while walk.at < walk.ends.end {
            let before = (walk.at, walk.lost);
            self.pass_over_absent(&mut walk, &mut account)?;
            self.window(&mut walk, frontier, &mut account)?;
            if before == (walk.at, walk.lost) {
                // An address between chunk addresses, where not even a broken chunk can be.
                walk.give_up_place();
            }
        }
        account.close_run()?;
        // The bytes between the last chunk and the end of the span are the end of an old heap.
        let told = account.told;
        account.emit(told..walk.ends.end.max(span.range.end), Use::Overhead)?;
        Ok(account.tally)
    }

    /// Skips to the next resident page, since no chunk can be found before it. An arena can claim any size, but a walk
    /// costs only what is resident.
    fn pass_over_absent(&self, walk: &mut Walk, account: &mut Account<'_, '_>) -> Result<()> {
        let rest = walk.at..walk.ends.end;
        if !walk.lost || rest.is_empty() {
            return Ok(());
        }
        let next = self.memory.populated(&rest).first().map_or(rest.end, |part| part.start);
        walk.pass_over(next, account)
    }

    /// Copies and reports one window, and leaves `walk` at the first chunk of the next.
    fn window(
        &mut self,
        walk: &mut Walk,
        frontier: &mut dyn FnMut() -> Option<Frontier>,
        account: &mut Account<'_, '_>,
    ) -> Result<()> {
        let start = walk.at / page_size() * page_size();
        let mut broken = None;
        for reading in 0..READINGS {
            walk.ends = frontier().unwrap_or(walk.ends);
            if walk.at >= walk.ends.end {
                return Ok(());
            }
            account.cut = account.top_rule.cut(walk.ends.end);
            let len = (walk.ends.end.next_multiple_of(page_size()) - start).min(WINDOW_BYTES >> reading);
            let residency = self.memory.residency(start, len)?;
            let absent = residency.resident_runs().next().is_none();
            if walk.lost && absent {
                account.pages = residency;
                return walk.pass_over(start.saturating_add(len), account);
            }
            let bytes = &mut self.buffer[..len as usize];
            self.memory.read_resident(&residency, bytes)?;
            let window = Window::new(start, bytes);
            account.pages = residency;
            if walk.lost {
                return walk.find_chunks(&window, account);
            }
            let verdict = check(&window, walk.at, walk.ends);
            account.tally.rereadings += u64::from(reading > 0);
            match verdict {
                None => return walk.tell(&window, account),
                Some(again) if broken == Some(again) || reading + 1 == READINGS => {
                    if broken == Some(again) && account.tally.breaks.len() < MAX_BREAKS {
                        account.tally.breaks.push(again);
                    }
                    walk.tell_until(&window, again.address, account)?;
                    walk.at += ALIGNMENT;
                    walk.lost = true;
                    return walk.find_chunks(&window, account);
                }
                Some(new) => broken = Some(new),
            }
        }
        Ok(())
    }
}

/// Returns the first place in a window that fails its checks.
fn check(window: &Window<'_>, from: u64, ends: Frontier) -> Option<Break> {
    let mut at = from;
    loop {
        if is_top(window, at, ends) {
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
            Place::Long { .. } | Place::End | Place::Outside => return None,
        }
    }
}

/// Returns whether the top starts at `at`: either the arena's pointer says so, or the chunk reaches the very
/// end, as only the top does. The pointer may have moved between its read and the window's.
fn is_top(window: &Window<'_>, at: u64, ends: Frontier) -> bool {
    let reaches_end =
        || window.word(at + WORD).and_then(|head| at.checked_add(head & !FLAGS)) == Some(ends.end);
    ends.top.is_some_and(|top| top == at || reaches_end())
}

/// Returns whether chunks follow each other from `at` on.
fn convincing(window: &Window<'_>, at: u64, ends: Frontier) -> bool {
    let mut place = at;
    for step in 0..CONVINCING_CHAIN {
        if is_top(window, place, ends) {
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

/// The position of a walk.
struct Walk {
    at: u64,
    ends: Frontier,
    /// The start of the next chunk is unknown.
    lost: bool,
    /// The bytes before the next chunk are not malloc's.
    foreign: bool,
}

impl Walk {
    /// Skips a place that no window makes sense of, so that every window advances the walk.
    fn give_up_place(&mut self) {
        self.at = (self.at / ALIGNMENT).saturating_add(1).saturating_mul(ALIGNMENT);
        self.lost = true;
    }

    /// Reports the chunks of a checked window.
    fn tell(&mut self, window: &Window<'_>, account: &mut Account<'_, '_>) -> Result<()> {
        self.tell_until(window, u64::MAX, account)
    }

    fn tell_until(&mut self, window: &Window<'_>, until: u64, account: &mut Account<'_, '_>) -> Result<()> {
        while self.at < until {
            if is_top(window, self.at, self.ends) {
                account.top(self.at, self.ends.end)?;
                self.at = self.ends.end;
                return Ok(());
            }
            match window.place(self.at, self.ends.end) {
                Place::Chunk { size, free } => {
                    account.chunk(self.at, size, free)?;
                    self.at += size;
                }
                Place::Fencepost { size } => {
                    account.fencepost(self.at, size)?;
                    self.at += size;
                    // Two headers, or three where 16 bytes of the old top were left over.
                    while window.word(self.at + 8).is_some_and(|head| head & !1 == size) {
                        account.fencepost(self.at, size)?;
                        self.at += size;
                        (self.lost, self.foreign) = (true, true);
                    }
                    if self.lost {
                        return Ok(());
                    }
                }
                Place::Long { size } => return self.tell_long(window, size, account),
                Place::End => {
                    self.at = self.ends.end;
                    return Ok(());
                }
                Place::Outside | Place::Broken(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Handles a chunk whose successor is not in the window: it is seen again in the next window, unless no
    /// window could hold it.
    fn tell_long(&mut self, window: &Window<'_>, size: u64, account: &mut Account<'_, '_>) -> Result<()> {
        if self.at >= window.range().start + page_size() {
            return Ok(());
        }
        let next = self.at + size;
        let free = match account.header(next)? {
            Some((foot, head)) => head & 1 == 0 && foot == size,
            None => false,
        };
        account.chunk(self.at, size, free)?;
        self.at = next;
        Ok(())
    }

    /// Goes on at `next`, if that lies ahead, without a chunk in between.
    fn pass_over(&mut self, next: u64, account: &mut Account<'_, '_>) -> Result<()> {
        let next = next.min(self.ends.end);
        if next > self.at {
            account.skip(next, if self.foreign { Use::Foreign } else { Use::Unsettled })?;
            self.at = next;
        }
        Ok(())
    }

    /// Looks for the next chunk on resident pages; without one, the rest of the window is given up.
    fn find_chunks(&mut self, window: &Window<'_>, account: &mut Account<'_, '_>) -> Result<()> {
        let what = if self.foreign { Use::Foreign } else { Use::Unsettled };
        let end = window.range().end.min(self.ends.end);
        let mut at = self.at;
        while at < end {
            if !account.pages.is_resident(at) {
                at = at / page_size() * page_size() + page_size();
            } else if is_top(window, at, self.ends) || convincing(window, at, self.ends) {
                break;
            } else {
                at += ALIGNMENT;
            }
        }
        let at = at.min(end);
        let found = at < end;
        account.skip(at + if found { WORD } else { 0 }, what)?;
        self.at = at;
        (self.lost, self.foreign) = (!found, self.foreign && !found);
        Ok(())
    }
}
