//! Which allocator is live, proved from the mapped files and not from the environment.
//!
//! The dynamic linker binds `malloc` to the first library in its search order that defines it. That order is the list
//! of `struct link_map` that `_r_debug` leads to (`link.h`; kept for debuggers): the program, what was preloaded, then
//! what they need, breadth first. So the first file of the list whose dynamic symbols define `malloc` is the allocator,
//! however it came there: `LD_PRELOAD`, `/etc/ld.so.preload`, linked, `patchelf`, or inside of the program itself.

use crate::glibc::{Glibc, LocateError};
use crate::model::{Allocator, AllocatorKind, Note};
use std::path::Path;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Image, Mapping, Maps, Memory, Pid};

/// More libraries than this are not believed.
const MAX_LIBRARIES: usize = 10_000;

/// What gives an allocator away, in the order in which it is asked.
const SIGNS: [(AllocatorKind, &[&str]); 5] = [
    (AllocatorKind::Jemalloc, &["mallctl", "je_mallctl", "_rjem_mallctl"]),
    (AllocatorKind::Mimalloc, &["mi_malloc", "mi_version"]),
    (
        AllocatorKind::Tcmalloc,
        &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_Internal_GetNumericProperty"],
    ),
    (AllocatorKind::Glibc, &["gnu_get_libc_version", "__libc_malloc"]),
    (AllocatorKind::Musl, &["__malloc_donate", "__libc_malloc_impl", "__dls3"]),
];

/// The allocator of a process, and glibc's malloc if it is there (in use or not).
#[derive(Debug)]
pub struct Found {
    /// What is live; its arenas are still to be filled in.
    pub allocator: Allocator,
    /// glibc's malloc.
    pub glibc: Option<Glibc>,
    /// What could not be told.
    pub notes: Vec<Note>,
}

impl Found {
    /// Finds out which allocator serves the program's `malloc`.
    #[must_use]
    pub fn of(pid: Pid, maps: &Maps, memory: &dyn Memory) -> Self {
        let mut notes = Vec::new();
        let glibc = match Glibc::locate(pid, maps) {
            Ok(glibc) => Some(glibc),
            Err(LocateError::NoGlibc) => None,
            Err(error) => {
                notes.push(Note {
                    code: "glibc-unreadable",
                    text: format!(
                        "glibc's malloc cannot be read: {error}. What it holds is counted as other anonymous memory; Ruby's \
                         heap, stacks, libraries and files are told all the same."
                    ),
                });
                None
            }
        };
        let allocator = live(pid, maps, memory, glibc.as_ref()).unwrap_or_else(|reason| {
            notes.push(Note {
                code: "allocator-unknown",
                text: format!("The allocator is not known: {reason}."),
            });
            bare(AllocatorKind::Unknown, None, reason)
        });
        Found { allocator, glibc, notes }
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
    let kind = kind_of(image);
    let how =
        if proved { "first in the dynamic linker's search order to define malloc" } else { "defines malloc" };
    let version = match kind {
        AllocatorKind::Glibc => glibc.and_then(|glibc| glibc.version.clone()),
        _ => version_of(image, &kind),
    };
    bare(kind, version, format!("{} is mapped and {how}", image.path.display()))
}

fn in_static_program(program: &Image, glibc: Option<&Glibc>) -> Result<Allocator, String> {
    let path = program.path.display();
    let signs = kind_of(program);
    if !matches!(signs, AllocatorKind::Unknown | AllocatorKind::Glibc | AllocatorKind::Musl) {
        let version = version_of(program, &signs);
        return Ok(bare(signs, version, format!("linked into {path}, which has kept its symbols")));
    }
    match glibc {
        Some(glibc) => {
            let evidence = format!("{path} is statically linked and has glibc's main arena in its data");
            Ok(bare(AllocatorKind::Glibc, glibc.version.clone(), evidence))
        }
        None if signs == AllocatorKind::Musl || program.find_bytes(b"musl", 0).is_some() => {
            Ok(bare(AllocatorKind::Musl, None, format!("{path} is statically linked with musl")))
        }
        None => Err(format!("{path} is statically linked, has no symbols and no main arena of glibc's")),
    }
}

fn bare(kind: AllocatorKind, version: Option<String>, evidence: String) -> Allocator {
    Allocator { kind, version, evidence, settings: None, arenas: Vec::new() }
}

fn kind_of(image: &Image) -> AllocatorKind {
    if image.name().starts_with("ld-musl") || image.name().starts_with("libc.musl") {
        return AllocatorKind::Musl;
    }
    let names: Vec<&str> = SIGNS.iter().flat_map(|(_, signs)| *signs).copied().collect();
    let found = image.symbols(&names);
    let has =
        |signs: &[&str]| names.iter().zip(&found).any(|(name, at)| at.is_some() && signs.contains(name));
    SIGNS.iter().find(|(_, signs)| has(signs)).map_or(AllocatorKind::Unknown, |(kind, _)| kind.clone())
}

/// Versions as the libraries carry them in their texts, else as the file's name has it.
fn version_of(image: &Image, kind: &AllocatorKind) -> Option<String> {
    let text = |before: &str| {
        let bytes = image.find_bytes(before.as_bytes(), 24)?;
        let text = String::from_utf8_lossy(bytes.get(before.len()..)?).into_owned();
        let version: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        Some(version).filter(|v| v.starts_with(|c: char| c.is_ascii_digit()))
    };
    match kind {
        AllocatorKind::Tcmalloc => text("gperftools "),
        AllocatorKind::Jemalloc => jemalloc_version(image),
        _ => None,
    }
    .or_else(|| name_version(&image.path))
}

/// `JEMALLOC_VERSION`: `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
fn jemalloc_version(image: &Image) -> Option<String> {
    (2..=9).flat_map(|major| (0..=9).map(move |minor| format!("{major}.{minor}."))).find_map(|start| {
        let bytes = image.find_bytes(start.as_bytes(), 48)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (version, rest) = text.split_once('-')?;
        let commit = rest.split_once("-g")?.1;
        let hexadecimal = commit.chars().take(12).all(|c| c.is_ascii_hexdigit());
        (version.len() < 10 && hexadecimal).then(|| version.to_owned())
    })
}

/// `libmimalloc.so.2.0` → `2.0`.
fn name_version(path: &Path) -> Option<String> {
    let (_, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    version.contains('.').then(|| version.to_owned())
}

/// The first mapping of each file in the dynamic linker's search order; empty if its list cannot be followed.
fn search_order<'a>(pid: Pid, maps: &'a Maps, memory: &dyn Memory) -> Vec<&'a Mapping> {
    let mut order = Vec::new();
    let Some(first) = link_maps(pid, maps, memory) else { return order };
    let mut at = first;
    while at != 0 && order.len() < MAX_LIBRARIES {
        // l_addr, l_name, l_ld, l_next: the dynamic table (l_ld) lies in one of the file's own mappings.
        let (Ok(dynamic), Ok(next)) = (memory.word(at.wrapping_add(16)), memory.word(at.wrapping_add(24)))
        else {
            break;
        };
        let file = maps.find(dynamic).filter(|m| m.file().is_some());
        let first_of_file =
            |m: &Mapping| first_mappings(maps).find(|f| f.inode == m.inode && f.file() == m.file());
        order.extend(file.and_then(first_of_file));
        at = next;
    }
    order
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
