//! One inspection of one process: from its number to a [`ProcessReport`].
//!
//! The order: what the kernel says of it, its mappings, its allocator, the Ruby heap (which claims its pages), the
//! arenas (which account for the rest of their own memory), then every other mapping by its kind. Each resident byte
//! is counted by exactly one of them.

mod mappings;
mod program;
mod refused;
mod ruby;

use crate::allocators::glibc::Parameters;
use crate::allocators::heap::Recheck;
use crate::allocators::{LiveAllocator, Look, Observer};
use crate::cartography::Cartographer;
use crate::iec::Iec;
use crate::model::{AllocatorKind, Category, Census, Note, NoteCode, ProcessReport, Runtime};
use crate::proportional::by_backing;
use crate::ranges::joined;
use crate::ruby::Reading;
use std::ops::Range;
use std::time::{Duration, Instant};
use unbloat_process::{
    Error, Kind, LiveMemory, Maps, Memory as _, Pid, Pinned, ResidentOnly, Result, Rollup, Status, Stopped,
    Stopping, status, status_page,
};

/// How to inspect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Stop the target while its Ruby heap, and then while each heap of malloc's, is read: each is consistent in itself.
    pub stop: bool,
    /// Fill in the heap map.
    pub map: bool,
    /// Fill in the proportional census.
    pub proportional: bool,
}

/// Inspects one process. In the default mode nothing is stopped, nothing is executed in it, and no absent page of it
/// becomes resident.
///
/// What can be told without reading its memory is told even of a kernel thread, a zombie, a 32-bit program or a process
/// that we may not read; notes say what is missing and why.
///
/// The look runs in a confined child within limits (see [`unbloat_process::sandbox`]).
///
/// # Errors
/// The process is gone, or the look did not come to an end within its limits. Missing permission is no error: the report
/// then holds only what `/proc` shows everyone.
pub fn inspect(pid: Pid, options: &Options) -> Result<ProcessReport> {
    unbloat_process::look(pid, options.stopping(), |pinned| inspect_pinned(pinned, options))
}

impl Options {
    pub(crate) fn stopping(&self) -> Stopping {
        if self.stop { Stopping::Allowed } else { Stopping::Never }
    }
}

/// Inspects one process from within a look at it.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn inspect_pinned(pinned: &Pinned, options: &Options) -> Result<ProcessReport> {
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
        map: None,
        verdict: Vec::new(),
        notes: Vec::new(),
        stopped: Duration::ZERO,
        elapsed: Duration::ZERO,
    };
    match status.kind {
        Kind::Program => {
            let mut inspection = Inspection { pid, pinned, options, report: &mut report, parameters: None };
            match inspection.run() {
                Err(refusal @ Error::NotPermitted { .. }) => inspection.refused(&refusal, &status)?,
                done => done?,
            }
            // Half a census, or one of memory that is no more, would be wrong.
            let after = Status::of(pid)?;
            if after.kind != Kind::Program || after.rss_bytes.is_none() {
                return Err(Error::Gone { pid });
            }
        }
        Kind::KernelThread => report
            .note(NoteCode::KernelThread, "This is a thread of the kernel: it has no memory of its own."),
        Kind::Zombie => report.note(
            NoteCode::Zombie,
            "This process has ended and waits for its parent to take note: its memory is already returned.",
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

/// Everybody who listens while the arenas are walked.
struct Observers<'a> {
    map: Option<Cartographer<'a>>,
    ruby: Option<Reading>,
}

impl Observer for Observers<'_> {
    fn is_listening(&self) -> bool {
        self.map.is_some() || self.ruby.is_some()
    }

    fn memory(&mut self, range: Range<u64>, arena: u64) {
        self.map.iter_mut().for_each(|map| map.memory(range.clone(), arena));
    }

    fn block(&mut self, usable: Range<u64>, resident_bytes: u64) {
        self.ruby.iter_mut().for_each(|ruby| ruby.block(usable.clone(), resident_bytes));
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
    /// Where glibc's settings are, once its malloc has been found.
    parameters: Option<Parameters>,
}

impl Inspection<'_> {
    fn run(&mut self) -> Result<()> {
        let pid = self.pid;
        let maps = Maps::of(pid)?;
        self.runtime();
        let memory = LiveMemory::of_pinned(self.pinned)?;
        let mut observers =
            Observers { map: self.options.map.then(|| Cartographer::new(&memory)), ruby: None };
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
                let resident = memory.residency(range.start, range.end - range.start)?.resident_bytes();
                self.report.census.add(category, resident);
                taken.add(std::slice::from_ref(&range));
                claims.push(range);
            }
            // All of it may lie in blocks of malloc's.
            claims.extend(ruby.bodies);
            claims = joined(claims);
            observers.ruby = Some(ruby.reading);
        }
        let look = Look { pid, memory: &memory, maps: &maps, claims: &claims, stop: self.options.stop };
        let (stacks, rechecks) = self.heaps(&mut live, &look, &mut taken, &mut observers)?;
        self.report.allocator = Some(live.allocator);
        self.rest(&memory, &maps, (taken, stacks), &mut observers)?;
        if let Some(reading) = observers.ruby {
            let (heap, mut notes) = reading.finish();
            self.report.ruby = Some(heap);
            self.report.notes.append(&mut notes);
        }
        self.report.map = observers.map.map(Cartographer::finish);
        self.count()?;
        // Last, because it may take time, and what the kernel counts has to be of the same moment as the census.
        for recheck in rechecks {
            self.report.notes.append(&mut recheck(&memory, &maps)?);
        }
        Ok(())
    }

    /// Walks the heaps that the process has. Yields the stacks that the walks came across and the checks that are left.
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
            // Memory of one may lie among another's, as with `brk`.
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
                "What jemalloc holds cannot be told apart: no heap of a version that is known (5.2, 5.3) was found.",
            );
        }
        Ok((stacks, rechecks))
    }

    /// What the process's own runtime says, if it has one.
    fn runtime(&mut self) {
        match status_page::read(self.pid) {
            Ok(page) => self.report.runtime = page.as_ref().map(Runtime::from),
            Err(error) => self.report.note(
                NoteCode::RuntimeUnreadable,
                format!("This process runs under `unbloat run`; what that has done cannot be told: {error}."),
            ),
        }
    }

    /// Reads something while the target stands still, if that was asked for.
    fn standing_still<T>(&mut self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let stopped = self.options.stop.then(|| Stopped::all(self.pid)).transpose()?;
        let result = read();
        self.report.stopped += stopped.map_or(Duration::ZERO, Stopped::resume);
        result
    }

    /// The census of a process of which only the mappings can be told.
    fn mappings_only(&mut self, memory: &LiveMemory, maps: &Maps) -> Result<()> {
        let nobody = (mappings::Taken::default(), Vec::new());
        self.rest(memory, maps, nobody, &mut Observers { map: None, ruby: None })?;
        self.count()
    }

    /// Every mapping that nobody has accounted for yet, by its kind.
    fn rest(
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
        let rest = mappings::Rest { memory, maps, images: &images, stacks, allocator, walked, mapped_chunks };
        let accounted = rest.account(taken, observer)?;
        for (category, bytes) in accounted.bytes {
            self.report.census.add(category, bytes);
        }
        self.note_missing_chunks(memory, accounted.mapped_chunks);
        if !memory.tells_zero_pages() {
            self.report.note(
                NoteCode::ZeroPages,
                "This kernel (before 6.7) does not tell pages that were only read, never written, from resident ones: \
                 the census may be larger than RSS.",
            );
        }
        Ok(())
    }

    /// Chunks with mappings of their own that malloc had before and has still, but that were not found.
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

    /// What the kernel counts, read last: right after the memory was looked at.
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

/// The category of mapped chunks, named here for the mappings.
const MAPPED: Category = Category::MmappedChunks;
