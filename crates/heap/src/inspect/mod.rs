//! One inspection of one process: from its PID to a [`ProcessReport`].
//!
//! The order: the kernel's figures, the mappings, the allocator, the Ruby heap (which claims its pages), the
//! arenas (which account for the rest of their own memory), then every other mapping by its kind. Each
//! resident byte is counted by exactly one of these steps.

pub mod made_up;
mod mappings;
mod options;
mod program;
mod refused;
mod ruby;
pub(crate) mod whose;

pub use options::{Options, Whose};

use crate::allocators::glibc::Parameters;
use crate::allocators::heap::Recheck;
use crate::allocators::{LiveAllocator, Look, Observer};
use crate::cartography::Cartographer;
use crate::iec::Iec;
use crate::model::{AllocatorKind, Category, Census, Note, NoteCode, ProcessReport, Runtime};
use crate::proportional::by_backing;
use crate::ranges::joined;
use crate::ruby::chunks::Chunks;
use crate::ruby::{Reading, Ruby};
use std::ops::Range;
use std::time::{Duration, Instant};
use unbloat_process::{
    Error, Kind, LiveMemory, Maps, Pid, Pinned, ResidentOnly, Result, Rollup, Status, Stopped,
    resident_bytes, status, status_page,
};

/// Inspects one process. By default nothing is stopped, nothing is executed in it, and none of its absent
/// pages becomes resident.
///
/// Facts available without reading its memory are reported even for a kernel thread, a zombie, a 32-bit
/// program or a process that we may not read; notes say what is missing and why.
///
/// The inspection runs in a confined child within limits (see [`unbloat_process::sandbox`]).
///
/// # Errors
/// The process is gone, or the inspection did not finish within its limits. Missing permission is not an
/// error: the report then holds only what `/proc` shows everyone.
pub fn inspect(pid: Pid, options: &Options) -> Result<ProcessReport> {
    whose::within_limits(pid, options, inspect_pinned, |report, note| report.notes.push(note))
}

/// Inspects one process, from inside the confined child.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn inspect_pinned(pinned: &Pinned, options: &Options) -> Result<ProcessReport> {
    if options.whose == Whose::No {
        return inspect_keeping(pinned, options, &mut None);
    }
    let (mut report, inspected) = inspect_with_ruby(pinned, options)?;
    if let Some(inspected) = &inspected {
        whose::add(&mut report, inspected, pinned, options)?;
    }
    Ok(report)
}

/// A Ruby as an inspection leaves it: where a closer look starts.
#[derive(Debug)]
pub(crate) struct InspectedRuby {
    /// The mappings of the process.
    pub(crate) maps: Maps,
    /// Its Ruby.
    pub(crate) ruby: Ruby,
    /// The chunks that its malloc has given out; `None` where its heap was not walked.
    pub(crate) chunks: Option<Chunks>,
}

/// Inspects one process and, if it is a Ruby, keeps its Ruby for a closer look.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn inspect_with_ruby(
    pinned: &Pinned,
    options: &Options,
) -> Result<(ProcessReport, Option<InspectedRuby>)> {
    let mut inspected = Some(None);
    let report = inspect_keeping(pinned, options, &mut inspected)?;
    Ok((report, inspected.flatten()))
}

/// Inspects one process; keeps its Ruby if `inspected` is `Some`.
fn inspect_keeping(
    pinned: &Pinned,
    options: &Options,
    inspected: &mut Option<Option<InspectedRuby>>,
) -> Result<ProcessReport> {
    let begun = Instant::now();
    let pid = pinned.pid();
    let status = Status::of(pid)?;
    let mut report = ProcessReport {
        pid,
        parent: (status.parent.0 != 0).then_some(status.parent),
        command: status::command(pid)?,
        rss_bytes: status.rss_bytes.unwrap_or(0),
        pss_bytes: None,
        uss_bytes: None,
        swap_bytes: status.swap_bytes,
        threads: status.threads,
        census: Census::default(),
        proportional: None,
        sharing: None,
        allocator: None,
        ruby: None,
        runtime: None,
        ownership: None,
        map: None,
        verdict: Vec::new(),
        notes: Vec::new(),
        stopped: Duration::ZERO,
        elapsed: Duration::ZERO,
    };
    match status.kind {
        Kind::Program => {
            let mut inspection =
                Inspection { pid, pinned, options, report: &mut report, parameters: None, inspected };
            match inspection.run() {
                Err(refusal @ Error::NotPermitted { .. }) => inspection.refused(&refusal, &status)?,
                done => done?,
            }
            // A partial census, or one of memory that no longer exists, would be wrong.
            let after = Status::of(pid)?;
            if after.kind != Kind::Program || after.rss_bytes.is_none() {
                return Err(Error::Gone { pid });
            }
        }
        Kind::KernelThread => {
            report.note(NoteCode::KernelThread, "This is a kernel thread, which has no memory of its own.")
        }
        Kind::Zombie => report.note(
            NoteCode::Zombie,
            "This process has ended and waits for its parent to reap it; its memory has already been \
            returned.",
        ),
    }
    report.verdict = crate::verdict::of(&report);
    report.elapsed = begun.elapsed();
    Ok(report)
}

impl ProcessReport {
    pub(crate) fn note(&mut self, code: NoteCode, text: impl Into<String>) {
        self.notes.push(Note::new(code, text));
    }
}

/// All observers of the walk of the arenas.
struct Observers<'a> {
    map: Option<Cartographer<'a>>,
    ruby: Option<Reading>,
    chunks: Option<Chunks>,
}

impl Observer for Observers<'_> {
    fn is_listening(&self) -> bool {
        self.map.is_some() || self.ruby.is_some() || self.chunks.is_some()
    }

    fn memory(&mut self, range: Range<u64>, arena: u64) {
        self.map.iter_mut().for_each(|map| map.memory(range.clone(), arena));
    }

    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        self.ruby.iter_mut().for_each(|ruby| ruby.block(usable.clone(), resident_bytes));
        self.chunks.iter_mut().for_each(|chunks| chunks.block(usable.clone(), resident_bytes));
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        self.map.iter_mut().for_each(|map| map.bytes(range.clone(), category));
    }
}

struct Inspection<'a> {
    pid: Pid,
    pinned: &'a Pinned,
    options: &'a Options,
    report: &'a mut ProcessReport,
    /// Location of glibc's settings, once its malloc has been found.
    parameters: Option<Parameters>,
    /// The start of a closer look, if there is to be one.
    inspected: &'a mut Option<Option<InspectedRuby>>,
}

impl Inspection<'_> {
    fn run(&mut self) -> Result<()> {
        let pid = self.pid;
        let maps = Maps::of(pid)?;
        self.runtime();
        let memory = LiveMemory::of_pinned(self.pinned)?;
        let map = self.options.map.then(|| Cartographer::new(&memory));
        let mut observers = Observers { map, ruby: None, chunks: None };
        let mut found = None;
        let mut taken = mappings::Taken::default();
        if let Some(what) = program::unreadable(self.pid, &maps) {
            self.report.notes.push(what);
            return self.mappings_only(&memory, &maps);
        }
        let careful = ResidentOnly::new(&memory);
        let mut live = LiveAllocator::of(self.pid, &maps, &careful);
        self.parameters = live.glibc.as_ref().and_then(|glibc| glibc.parameters);
        self.report.notes.append(&mut live.notes);
        let mut claims = Vec::new();
        let ruby_heap = self.standing_still(|| ruby::read(&careful, &maps, pid, &mut observers.map))?;
        if let Some(ruby) = ruby_heap {
            taken.add(&ruby.bodies);
            self.report.census.add_all(ruby.reading.census().iter());
            for (range, category) in ruby.other {
                let resident = resident_bytes(&memory, &range)?;
                self.report.census.add(category, resident);
                taken.add(std::slice::from_ref(&range));
                claims.push(range);
            }
            // All of it may lie in malloc blocks.
            claims.extend(ruby.bodies);
            claims = joined(claims);
            observers.ruby = Some(ruby.reading);
            found = Some(ruby.ruby);
            observers.chunks = self.inspected.as_ref().map(|_| Chunks::default());
        }
        let look = Look { pid, memory: &memory, maps: &maps, claims: &claims, stop: self.options.stop };
        let (stacks, rechecks) = self.heaps(&mut live, &look, &mut taken, &mut observers)?;
        self.report.allocator = Some(live.allocator);
        self.account_unclaimed(&memory, &maps, (taken, stacks), &mut observers)?;
        if let Some(reading) = observers.ruby {
            let (heap, mut notes) = reading.finish();
            self.report.ruby = Some(heap);
            self.report.notes.append(&mut notes);
        }
        self.report.map = observers.map.map(Cartographer::finish);
        self.count()?;
        if let (Some(inspected), Some(ruby)) = (self.inspected.as_mut(), found) {
            let mut chunks = observers.chunks.filter(|_| self.report.census.is_walked());
            chunks.iter_mut().for_each(Chunks::sort);
            *inspected = Some(InspectedRuby { maps: maps.clone(), ruby, chunks });
        }
        // Last, because it may take time, and the kernel's figures must be from the same moment as the
        // census.
        for recheck in rechecks {
            self.report.notes.append(&mut recheck(&memory, &maps)?);
        }
        Ok(())
    }

    /// Walks the heaps of the process. Returns the stacks found on the way and the remaining checks.
    fn heaps(
        &mut self,
        live: &mut LiveAllocator,
        look: &Look<'_>,
        taken: &mut mappings::Taken,
        observers: &mut Observers<'_>,
    ) -> Result<(Vec<Range<u64>>, Vec<Recheck>)> {
        let (mut stacks, mut rechecks) = (Vec::new(), Vec::new());
        let mut walked = false;
        let mut claims = look.claims.to_vec();
        for heap in live.heaps(look.pid, look.maps, look.memory)? {
            let mut found = heap.walk(&Look { claims: &claims, ..*look }, observers)?;
            taken.add(&found.ranges);
            // One allocator's memory may lie among another's, as with `brk`.
            claims.extend_from_slice(&found.ranges);
            claims = joined(claims);
            self.report.census.add_all(found.bytes);
            self.report.stopped += found.stopped;
            self.report.notes.append(&mut found.notes);
            stacks.append(&mut found.stacks);
            rechecks.extend(found.recheck);
            if heap.kind() == live.allocator.kind {
                walked |= found.whole;
                live.allocator.settings = live.allocator.settings.or(found.settings);
                live.allocator.arenas.append(&mut found.arenas);
                live.allocator.bins.append(&mut found.bins);
            }
        }
        if walked {
            self.report.census.set_walked();
        } else if live.allocator.kind == AllocatorKind::Jemalloc {
            self.report.note(
                NoteCode::JemallocUnreadable,
                "jemalloc's memory cannot be broken down: no heap of a known version (5.2, 5.3) was found.",
            );
        }
        Ok((stacks, rechecks))
    }

    /// Reads the runtime's status page, if the process has one.
    fn runtime(&mut self) {
        match status_page::read(self.pid) {
            Ok(page) => self.report.runtime = page.as_ref().map(Runtime::from),
            Err(error) => self.report.note(
                NoteCode::RuntimeUnreadable,
                format!("This process runs under `unbloat run`, but its status cannot be read: {error}."),
            ),
        }
    }

    /// Reads something, with the target stopped if requested.
    fn standing_still<T>(&mut self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let stopped = self.options.stop.then(|| Stopped::all(self.pid)).transpose()?;
        let result = read();
        self.report.stopped += stopped.map_or(Duration::ZERO, Stopped::resume);
        result
    }

    /// Builds the census of a process of which only the mappings are readable.
    fn mappings_only(&mut self, memory: &LiveMemory, maps: &Maps) -> Result<()> {
        let nobody = (mappings::Taken::default(), Vec::new());
        self.account_unclaimed(memory, maps, nobody, &mut Observers { map: None, ruby: None, chunks: None })?;
        self.count()
    }

    /// Accounts for every mapping that is still unclaimed, by its kind.
    fn account_unclaimed(
        &mut self,
        memory: &LiveMemory,
        maps: &Maps,
        (taken, stacks): (mappings::Taken, Vec<Range<u64>>),
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let images = mappings::Images::of(self.pid, maps);
        let allocator = self.report.allocator.as_ref();
        let counted = allocator.and_then(|allocator| allocator.glibc_settings()?.mmapped_chunks);
        let allocator = allocator.map(|allocator| allocator.kind);
        let walked = self.report.census.is_walked();
        let mapped_chunks = counted.map_or(0, |(count, _)| count);
        let unclaimed =
            mappings::Unclaimed { memory, maps, images: &images, stacks, allocator, walked, mapped_chunks };
        let accounted = unclaimed.account(taken, observer)?;
        for (category, bytes) in accounted.bytes {
            self.report.census.add(category, bytes);
        }
        self.note_missing_chunks(memory, accounted.mapped_chunks);
        if !memory.tells_zero_pages() {
            self.report.note(
                NoteCode::ZeroPages,
                "This kernel (before 6.7) does not distinguish pages that were only read, never written, \
                 from resident ones, so the census may exceed RSS.",
            );
        }
        Ok(())
    }

    /// Notes mapped chunks that malloc had before and after the walk but that were not found.
    fn note_missing_chunks(&mut self, memory: &LiveMemory, found: u64) {
        let before = self.report.allocator.as_ref().and_then(|a| a.glibc_settings()?.mmapped_chunks);
        let now = self.parameters.and_then(|p| p.read(&ResidentOnly::new(memory)).ok());
        let Some(((before, _), now)) = before.zip(now) else { return };
        let expected = before.min(now.n_mmaps);
        if found < expected {
            self.report.note(
                NoteCode::MappedChunksIncomplete,
                format!(
                    "malloc counts {expected} chunks with mappings of their own, {} together; {found} of them were found. The \
                     others, whose first page is swapped out or overwritten, are counted as other anonymous memory.",
                    Iec(now.mmapped_mem)
                ),
            );
        }
    }

    /// Reads the kernel's figures, last of all: right after the memory was read.
    fn count(&mut self) -> Result<()> {
        match Rollup::of(self.pid) {
            Ok(rollup) => {
                self.report.rss_bytes = rollup.rss_bytes;
                self.report.pss_bytes = Some(rollup.pss_bytes);
                self.report.uss_bytes = Some(rollup.uss_bytes);
                self.report.swap_bytes = Some(rollup.swap_bytes);
                let parts = rollup.pss_parts.filter(|_| self.options.proportional);
                self.report.proportional =
                    parts.and_then(|parts| by_backing::share_out(&self.report.census, parts));
            }
            Err(error) => self.report.note(NoteCode::NoPss, format!("PSS and USS are missing: {error}.")),
        }
        Ok(())
    }
}

/// The category of mapped chunks.
const MAPPED: Category = Category::MmappedChunks;
