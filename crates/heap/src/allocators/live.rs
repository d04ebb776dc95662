//! Finds the allocator that serves `malloc`, from the mapped files rather than the environment.
//!
//! The dynamic linker binds `malloc` to the first library in its search order that defines it. That order is
//! the list of `struct link_map` that `_r_debug` points to (`link.h`; kept for debuggers): the program, the
//! preloaded libraries, then their dependencies, breadth first. The first file in the list whose dynamic
//! symbols define `malloc` is therefore the allocator, however it got there: `LD_PRELOAD`,
//! `/etc/ld.so.preload`, linking, `patchelf`, or static linking into the program.

use super::Descriptor;
use super::glibc::{Glibc, LocateError};
use super::heap::Heap;
use super::jemalloc::Search;
use super::recognize::{allocator_of, by_message, by_symbols};
use crate::model::{Allocator, AllocatorKind, JemallocRequest, Note, NoteCode};
use std::collections::HashSet;
use std::path::Path;
use unbloat_process::elf::first_mappings;
use unbloat_process::environment::environment;
use unbloat_process::{Error, Image, Mapping, Maps, Memory, Pid};
use unbloat_untrusted::Untrusted;

/// Upper bound on the number of libraries; a longer list counts as corrupt.
const MAX_LIBRARIES: usize = 10_000;

/// The allocator of a process, and glibc's malloc if present (in use or not).
#[derive(Debug)]
pub struct LiveAllocator {
    /// The live allocator, with its arenas still to be filled in.
    pub allocator: Allocator,
    /// glibc's malloc.
    pub glibc: Option<Glibc>,
    /// Notes on everything missing from the result.
    pub notes: Vec<Note>,
}

impl LiveAllocator {
    /// Determines which allocator serves the program's `malloc`.
    #[must_use]
    pub fn of(pid: Pid, maps: &Maps, memory: &dyn Memory) -> Self {
        let mut notes = Vec::new();
        let glibc = match Glibc::locate(pid, maps) {
            Ok(glibc) => Some(glibc),
            Err(LocateError::NoGlibc) => None,
            Err(error) => {
                notes.push(Note::new(
                    NoteCode::GlibcUnreadable,
                    format!(
                        "glibc's malloc cannot be read: {error}. Its memory is counted as other anonymous \
                         memory; Ruby's heap, stacks, libraries and files are still reported."
                    ),
                ));
                None
            }
        };
        let allocator = live(pid, maps, memory, glibc.as_ref()).unwrap_or_else(|reason| {
            notes.push(Note::new(NoteCode::AllocatorUnknown, format!("The allocator is unknown: {reason}.")));
            bare(AllocatorKind::Unknown, None, reason)
        });
        let allocator = Allocator { asked: requested_jemalloc(pid), ..allocator };
        LiveAllocator { allocator, glibc, notes }
    }

    /// Returns the walkable heaps of a process: the live allocator's, and those that a library uses under
    /// names of its own.
    ///
    /// # Errors
    /// The process is gone.
    pub fn heaps(&self, pid: Pid, maps: &Maps, memory: &dyn Memory) -> Result<Vec<Box<dyn Heap>>, Error> {
        let mut heaps: Vec<Box<dyn Heap>> = Vec::new();
        let jemallocs = Search::of(pid, maps, memory)?.heaps();
        heaps.extend(jemallocs.map(|jemalloc| Box::new(jemalloc) as Box<dyn Heap>));
        heaps.extend(self.glibc.clone().map(|glibc| Box::new(glibc) as Box<dyn Heap>));
        Ok(heaps)
    }
}

/// Reads from the environment whether a process was started to use jemalloc. A server that wrote its title
/// over the environment yields nothing.
fn requested_jemalloc(pid: Pid) -> JemallocRequest {
    let variables = environment(pid).unwrap_or_default();
    let says = |name: &str, text: &str| variables.get(name).is_some_and(|value| value.contains(text));
    JemallocRequest {
        preload: says("LD_PRELOAD", "jemalloc"),
        background_thread: says("MALLOC_CONF", "background_thread:true"),
    }
}

fn live(pid: Pid, maps: &Maps, memory: &dyn Memory, glibc: Option<&Glibc>) -> Result<Allocator, String> {
    let program = first_mappings(maps).next().ok_or("the process has no program mapped")?;
    let program = Image::of_mapping(pid, program).map_err(|error| error.to_string())?;
    if program.elf.is_static() {
        return in_static_program(&program, glibc);
    }
    let order = search_order(pid, maps, memory);
    let proved = !order.is_empty();
    let files = if proved { order } else { first_mappings(maps).collect() };
    let mut unreadable = None;
    for mapping in files {
        match Image::of_mapping(pid, mapping) {
            Ok(image) if image.symbol("malloc").is_some() => return Ok(of_image(&image, proved, glibc)),
            Ok(_) => {}
            Err(error) => unreadable = Some(error.to_string()),
        }
    }
    Err(unreadable.unwrap_or_else(|| "no mapped file defines malloc".to_owned()))
}

fn of_image(image: &Image, proved: bool, glibc: Option<&Glibc>) -> Allocator {
    let how =
        if proved { "first in the dynamic linker's search order to define malloc" } else { "defines malloc" };
    let evidence = format!("{} is mapped and {how}", Untrusted::from(image.path.as_path()));
    match allocator_of(image) {
        Some(descriptor) => described(descriptor, image, glibc, evidence),
        None => bare(AllocatorKind::Unknown, None, evidence),
    }
}

fn in_static_program(program: &Image, glibc: Option<&Glibc>) -> Result<Allocator, String> {
    let path = Untrusted::from(program.path.as_path());
    let symbols = by_symbols(program);
    if let Some(descriptor) = symbols.filter(|descriptor| !descriptor.in_libc) {
        let evidence = format!("linked into {path}, which has kept its symbols");
        return Ok(described(descriptor, program, glibc, evidence));
    }
    let libc_is_sure = symbols.is_some() && glibc.is_some();
    if let Some(descriptor) = by_message(program).filter(|_| !libc_is_sure) {
        let evidence = format!("linked into {path}, which has its messages");
        return Ok(described(descriptor, program, glibc, evidence));
    }
    if let Some(glibc) = glibc {
        let evidence = format!("{path} is statically linked and has glibc's main arena in its data");
        return Ok(bare(AllocatorKind::Glibc, glibc.version.clone(), evidence));
    }
    let musl = symbols.is_some_and(|descriptor| descriptor.kind == AllocatorKind::Musl);
    if musl || program.find_bytes(b"musl", 0).is_some() {
        return Ok(bare(AllocatorKind::Musl, None, format!("{path} is statically linked with musl")));
    }
    Err(format!("{path} is statically linked, has no symbols and no main arena of glibc's"))
}

fn described(descriptor: &Descriptor, image: &Image, glibc: Option<&Glibc>, evidence: String) -> Allocator {
    let version = match descriptor.kind {
        AllocatorKind::Glibc => glibc.and_then(|glibc| glibc.version.clone()),
        _ => (descriptor.version)(image),
    };
    bare(descriptor.kind, version, evidence)
}

fn bare(kind: AllocatorKind, version: Option<String>, evidence: String) -> Allocator {
    Allocator {
        kind,
        version,
        evidence,
        settings: None,
        arenas: Vec::new(),
        bins: Vec::new(),
        asked: JemallocRequest::default(),
    }
}

/// Returns the first mapping of each file in the dynamic linker's search order, or nothing if its list cannot
/// be followed.
fn search_order<'a>(pid: Pid, maps: &'a Maps, memory: &dyn Memory) -> Vec<&'a Mapping> {
    link_maps(pid, maps, memory).map_or_else(Vec::new, |first| files_of(first, maps, memory))
}

/// Returns the first mapping of each file that a list of `struct link_map` names. The list comes from the
/// target's memory and may be corrupt, so iteration stops at the first repeated entry, and after
/// [`MAX_LIBRARIES`] in any case.
fn files_of<'a>(first: u64, maps: &'a Maps, memory: &dyn Memory) -> Vec<&'a Mapping> {
    let (mut files, mut seen) = (Vec::new(), HashSet::new());
    let mut at = first;
    while at != 0 && seen.len() < MAX_LIBRARIES && seen.insert(at) {
        // l_addr, l_name, l_ld, l_next: the dynamic table (l_ld) lies in one of the file's own mappings.
        let (Ok(dynamic), Ok(next)) = (memory.word(at.wrapping_add(16)), memory.word(at.wrapping_add(24)))
        else {
            break;
        };
        let file = maps.find(dynamic).filter(|m| m.file().is_some());
        let first_of_file =
            |m: &Mapping| first_mappings(maps).find(|f| f.inode == m.inode && f.file() == m.file());
        files.extend(file.and_then(first_of_file));
        at = next;
    }
    files
}

/// `_r_debug.r_map`.
fn link_maps(pid: Pid, maps: &Maps, memory: &dyn Memory) -> Option<u64> {
    let is_linker = |m: &&Mapping| {
        let name = m.file().and_then(Path::file_name).and_then(|n| n.to_str()).unwrap_or("");
        name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64")
    };
    let linker = Image::of_mapping(pid, first_mappings(maps).find(is_linker)?).ok()?;
    memory.word(linker.symbol("_r_debug")?.checked_add(8)?).ok().filter(|&first| first != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::cell::Cell;
    use unbloat_process::{Residency, SyntheticMemory};

    /// Memory that fails the test when it is read more often than any valid list requires.
    struct Counted(SyntheticMemory, Cell<usize>);

    impl Memory for Counted {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Error> {
            self.1.set(self.1.get() + 1);
            assert!(self.1.get() <= 2 * MAX_LIBRARIES, "the walk of the list does not end");
            self.0.read(address, buffer)
        }

        fn residency(&self, start: u64, len: u64) -> Result<Residency, Error> {
            self.0.residency(start, len)
        }
    }

    /// Two entries that point to each other, either one of which names a file or neither.
    fn circle(dynamic: u64) -> Counted {
        let mut memory = SyntheticMemory::default();
        for (entry, next) in [(0x1000, 0x2000), (0x2000, 0x1000)] {
            memory.write(entry, &[0; 40]);
            memory.write_word(entry + 16, dynamic);
            memory.write_word(entry + 24, next);
        }
        Counted(memory, Cell::new(0))
    }

    #[test]
    fn a_circular_list_of_libraries_ends() {
        let maps = Maps::parse(Pid(1), "400000-401000 r-xp 0 8:1 7 /lib/libc.so.6\n").unwrap();
        assert!(files_of(0x1000, &maps, &circle(0xdead_0000)).is_empty());
        assert_eq!(files_of(0x1000, &maps, &circle(0x40_0010)).len(), 2);
    }
}
