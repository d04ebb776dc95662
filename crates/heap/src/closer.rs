//! A closer look at the Ruby of one process: a copy of its heap, readable names, and the chunks of malloc.

use crate::inspect::{self, InspectedRuby};
use crate::model::{Category, Note, NoteCode, ProcessReport, RubyLook};
use crate::ruby::chunks::Chunks;
use crate::ruby::names::classes::Classes;
use crate::ruby::names::data_types::DataTypes;
use crate::ruby::names::symbols::Symbols;
use crate::ruby::names::text::Texts;
use crate::ruby::space::Space;
use crate::ruby::versions::VersionFacts;
use crate::ruby::{HeapPage, RubyVersion, objspace};
use serde::{Serialize, de::DeserializeOwned};
use std::ops::Range;
use std::time::{Duration, Instant};
use unbloat_process::{LiveMemory, Maps, Memory, Pid, Pinned, ResidentOnly, Result, Stopped, Stopping};

/// The Ruby of a process, ready for questions.
pub(crate) struct Scene<'a> {
    /// The process.
    pub(crate) pid: Pid,
    /// The version of its Ruby.
    pub(crate) version: RubyVersion,
    /// The facts about that version.
    pub(crate) facts: &'static VersionFacts,
    /// Its mappings.
    pub(crate) maps: &'a Maps,
    /// The writable data of the file with CRuby.
    pub(crate) data: &'a [Range<u64>],
    /// The pages of its heap.
    pub(crate) pages: &'a [HeapPage],
    /// The address of the first size pool, in `rb_objspace_t`.
    pub(crate) first_pool: Option<u64>,
    /// The names of IDs.
    pub(crate) symbols: Option<&'a Symbols>,
    /// Its memory, resident pages only.
    pub(crate) memory: &'a dyn Memory,
    /// The chunks of its malloc; `None` if that heap was not walked.
    pub(crate) chunks: Option<&'a Chunks>,
    /// Its classes; through them the slots and the texts.
    pub(crate) classes: &'a Classes<'a>,
    /// The types of wrapped data.
    pub(crate) types: &'a DataTypes<'a>,
}

impl<'a> Scene<'a> {
    /// The copied slots.
    pub(crate) fn space(&self) -> &'a Space {
        self.classes.texts.space
    }

    /// The texts.
    pub(crate) fn texts(&self) -> &'a Texts<'a> {
        self.classes.texts
    }
}

/// Runs `work` on the Ruby of a process, in a confined child within limits (see
/// [`unbloat_process::sandbox`]). With `stop`, the process is stopped meanwhile.
///
/// # Errors
/// As [`inspect::inspect`], and those of `work`.
pub(crate) fn look<T: Serialize + DeserializeOwned>(
    pid: Pid,
    stop: bool,
    work: impl FnOnce(&Scene<'_>, &mut Vec<Note>) -> Result<T>,
) -> Result<RubyLook<T>> {
    let stopping = if stop { Stopping::Allowed } else { Stopping::Never };
    unbloat_process::look_with_copy(pid, stopping, |pinned| {
        let begun = Instant::now();
        let stopped = stop.then(|| Stopped::all(pid)).transpose()?;
        let looked = look_pinned(pinned, work);
        let stopped = stopped.map_or(Duration::ZERO, Stopped::resume);
        Ok(RubyLook { stopped, elapsed: begun.elapsed(), ..looked? })
    })
}

/// As [`look`] without a stop, beside another process whose memory can be read as well.
///
/// # Errors
/// As [`look`].
pub(crate) fn look_beside<T: Serialize + DeserializeOwned>(
    pid: Pid,
    beside: &Pinned,
    work: impl FnOnce(&Scene<'_>, &mut Vec<Note>) -> Result<T>,
) -> Result<RubyLook<T>> {
    unbloat_process::look_beside(pid, beside, |pinned| {
        let begun = Instant::now();
        let looked = look_pinned(pinned, work)?;
        Ok(RubyLook { elapsed: begun.elapsed(), ..looked })
    })
}

fn look_pinned<T>(
    pinned: &Pinned,
    work: impl FnOnce(&Scene<'_>, &mut Vec<Note>) -> Result<T>,
) -> Result<RubyLook<T>> {
    let (mut report, inspected) = inspect::inspect_with_ruby(pinned, &inspect::Options::default())?;
    let mut notes = std::mem::take(&mut report.notes);
    let found = match &inspected {
        Some(inspected) => {
            let memory = LiveMemory::of_pinned(pinned)?;
            let target = Target { pid: report.pid, memory: &memory };
            within(target, inspected, &mut notes, work)?
        }
        None => {
            notes.push(Note::new(NoteCode::NoRuby, "No Ruby was found in this process."));
            None
        }
    };
    Ok(RubyLook {
        pid: report.pid,
        parent: report.parent,
        rss_bytes: report.rss_bytes,
        malloc_live_bytes: malloc_live(&report),
        command: report.command,
        version: inspected.and_then(|inspected| Some(inspected.ruby.version?.to_string())),
        found,
        notes,
        stopped: Duration::ZERO,
        elapsed: Duration::ZERO,
    })
}

/// Bytes of malloc memory that the program holds.
fn malloc_live(report: &ProcessReport) -> Option<u64> {
    let bytes = |category| report.census.bytes(category);
    report.census.is_walked().then(|| bytes(Category::MallocLive) + bytes(Category::MmappedChunks))
}

/// The process that owns the memory.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) pid: Pid,
    pub(crate) memory: &'a dyn Memory,
}

/// Runs `work` on the Ruby in some memory. Returns `None` for an unknown one.
///
/// # Errors
/// The process is gone or may not be looked at, and those of `work`.
pub(crate) fn within<T>(
    target: Target<'_>,
    inspected: &InspectedRuby,
    notes: &mut Vec<Note>,
    work: impl FnOnce(&Scene<'_>, &mut Vec<Note>) -> Result<T>,
) -> Result<Option<T>> {
    // The notes of its inspection list what is missing.
    let Some(version) = inspected.ruby.version else { return Ok(None) };
    let (Some(pages), Some(facts)) = (&inspected.ruby.pages, version.facts()) else { return Ok(None) };
    let careful = ResidentOnly::new(target.memory);
    let space = Space::read(&careful, pages)?;
    let texts = Texts::new(target.pid, &inspected.maps, &careful, &space, &facts.names);
    let symbols = Symbols::find(&texts, &inspected.ruby.data)?;
    let classes = Classes::read(&texts, symbols.as_ref())?;
    if !classes.are_known() {
        let text = format!(
            "The names of classes cannot be read: they are not where Ruby {version} is known to keep them."
        );
        notes.push(Note::new(NoteCode::RubyNamesUnknown, text));
    }
    let scene = Scene {
        pid: target.pid,
        version,
        facts,
        data: &inspected.ruby.data,
        pages: &pages.pages,
        first_pool: objspace::first_pool(pages, &facts.objspace),
        symbols: symbols.as_ref(),
        maps: &inspected.maps,
        memory: &careful,
        chunks: inspected.chunks.as_ref(),
        classes: &classes,
        types: &DataTypes::new(&texts),
    };
    work(&scene, notes).map(Some)
}
