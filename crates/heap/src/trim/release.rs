//! Which function gives memory back, by allocator.
//!
//! | allocator | call | what it does |
//! |---|---|---|
//! | glibc | `malloc_trim(0)` | whole free pages of all arenas, the top of the main one |
//! | jemalloc | `mallctl("arena.4096.purge")` | unused dirty and muzzy pages of all arenas (`MALLCTL_ARENAS_ALL`, jemalloc 5) |
//! | mimalloc | `mi_collect(true)` | free pages of the borrowed thread's heap and of threads that have ended, not other threads' heaps |
//! | tcmalloc | `MallocExtension_ReleaseFreeMemory()` | free spans of the page heap (gperftools), not what threads cache |
//!
//! glibc's locks can be read, so [`super::locks`] proves that the borrowed thread holds none. The others' cannot: there
//! the thread must not be inside of the allocator at all. Every function that it is inside of has left a return address
//! on its stack, so the allocator's code is forbidden there; and so is `fork`, which takes the allocator's locks before
//! it calls the handlers of others.

use crate::allocator::Found;
use crate::glibc::Glibc;
use crate::model::AllocatorKind;
use std::ops::Range;
use std::path::Path;
#[cfg(target_arch = "x86_64")]
use std::time::Duration;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Image, Mapping, Maps, Pid};

#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::{Argument, Call};

/// Why nothing can be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Statically linked.
    #[error(
        "its allocator ({allocator}) is linked into the program itself, where its release call and its code cannot be \
         told apart from the rest"
    )]
    Static {
        /// Which.
        allocator: &'static str,
    },
    /// The library lacks the function.
    #[error("its allocator ({allocator}) exports no {function}")]
    NotExported {
        /// Which.
        allocator: &'static str,
        /// What was looked for.
        function: &'static str,
    },
    /// Its arenas are purged by another name.
    #[error("its jemalloc is older than version 5, which has no one call that purges all arenas")]
    OldJemalloc,
    /// musl.
    #[error("musl's malloc has no call that returns memory")]
    Musl,
    /// Not known.
    #[error("its allocator is not known: {evidence}")]
    Unknown {
        /// What was found.
        evidence: String,
    },
    /// No glibc to lead a thread through.
    #[error("it has no glibc that is known: {reason}")]
    NoGlibc {
        /// What was found.
        reason: String,
    },
}

/// Room that the stack must have for a release call, in bytes. Measured on painted stacks: under 0.3 KiB for glibc's (2.31 to
/// 2.43), 2.4 KiB for jemalloc's, less for the others, and up to 3.3 KiB more where a symbol is bound at that moment.
const GLIBC_STACK: u64 = 16 << 10;
const OTHER_STACK: u64 = 64 << 10;

/// How long a call is attended where that keeps a deadline exactly: some 5,000 system calls on an idle machine.
#[cfg(target_arch = "x86_64")]
const ATTENDANCE: Duration = Duration::from_millis(100);

/// A call that gives memory back.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub struct Release {
    libc: Image,
    glibc: Option<Glibc>,
    /// The call.
    #[cfg(target_arch = "x86_64")]
    pub call: Call,
}

/// How an allocator other than glibc's is asked.
struct Other {
    name: &'static str,
    functions: &'static [&'static str],
    #[cfg(target_arch = "x86_64")]
    arguments: &'static [Argument],
}

const JEMALLOC: Other = Other {
    name: "jemalloc",
    functions: &["mallctl", "je_mallctl", "_rjem_mallctl"],
    #[cfg(target_arch = "x86_64")]
    arguments: &[
        Argument::Text("arena.4096.purge"),
        Argument::Word(0),
        Argument::Word(0),
        Argument::Word(0),
        Argument::Word(0),
    ],
};

const MIMALLOC: Other = Other {
    name: "mimalloc",
    functions: &["mi_collect"],
    #[cfg(target_arch = "x86_64")]
    arguments: &[Argument::Word(1)],
};

const TCMALLOC: Other = Other {
    name: "tcmalloc",
    functions: &["MallocExtension_ReleaseFreeMemory"],
    #[cfg(target_arch = "x86_64")]
    arguments: &[],
};

impl Release {
    /// Finds the call for the allocator of a process.
    ///
    /// # Errors
    /// There is none, or it cannot be made safely.
    pub fn of(pid: Pid, maps: &Maps, found: &Found) -> Result<Self, Unsupported> {
        let other = match found.allocator.kind {
            AllocatorKind::Glibc => return Self::of_glibc(pid, maps, found),
            AllocatorKind::Jemalloc => JEMALLOC,
            AllocatorKind::Mimalloc => MIMALLOC,
            AllocatorKind::Tcmalloc => TCMALLOC,
            AllocatorKind::Musl => return Err(Unsupported::Musl),
            AllocatorKind::Unknown => {
                return Err(Unsupported::Unknown { evidence: found.allocator.evidence.clone() });
            }
        };
        let libc = libc_of(pid, maps)?;
        let program = first_mappings(maps).next().map(|m| m.inode);
        for mapping in first_mappings(maps) {
            let Ok(image) = Image::of_mapping(pid, mapping) else { continue };
            let Some(function) = image.symbols(other.functions).into_iter().flatten().next() else {
                continue;
            };
            if Some(mapping.inode) == program {
                return Err(Unsupported::Static { allocator: other.name });
            }
            if found.allocator.kind == AllocatorKind::Jemalloc && !purges_all_arenas(&image) {
                return Err(Unsupported::OldJemalloc);
            }
            let mut forbidden: Vec<_> = code_of(maps, mapping).collect();
            forbidden.extend(["fork", "_Fork", "__libc_fork", "vfork"].iter().filter_map(|f| body(&libc, f)));
            return Ok(Self::calling(libc, None, function, &other, forbidden));
        }
        Err(Unsupported::NotExported { allocator: other.name, function: other.functions[0] })
    }

    fn of_glibc(pid: Pid, maps: &Maps, found: &Found) -> Result<Self, Unsupported> {
        const GLIBC: Other = Other {
            name: "glibc",
            functions: &["malloc_trim"],
            #[cfg(target_arch = "x86_64")]
            arguments: &[Argument::Word(0)],
        };
        let reason = || found.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join(" ");
        let glibc = found.glibc.clone().ok_or_else(|| Unsupported::NoGlibc { reason: reason() })?;
        if glibc.linked_statically {
            return Err(Unsupported::Static { allocator: GLIBC.name });
        }
        let libc = libc_of(pid, maps)?;
        let function = libc.symbol(GLIBC.functions[0]);
        let missing = Unsupported::NotExported { allocator: GLIBC.name, function: GLIBC.functions[0] };
        Ok(Self::calling(libc, Some(glibc), function.ok_or(missing)?, &GLIBC, Vec::new()))
    }

    #[cfg(target_arch = "x86_64")]
    fn calling(
        libc: Image,
        glibc: Option<Glibc>,
        function: u64,
        how: &Other,
        forbidden: Vec<Range<u64>>,
    ) -> Self {
        let stack_bytes = if glibc.is_some() { GLIBC_STACK } else { OTHER_STACK };
        let arguments = how.arguments.to_vec();
        let call = Call { function, arguments, stack_bytes, forbidden, attendance: ATTENDANCE };
        Release { libc, glibc, call }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn calling(libc: Image, glibc: Option<Glibc>, _: u64, _: &Other, _: Vec<Range<u64>>) -> Self {
        let _ = (GLIBC_STACK, OTHER_STACK);
        Release { libc, glibc }
    }

    /// The places in libc that a borrowed thread is led through.
    ///
    /// # Errors
    /// Its libc does not look as the known ones do.
    #[cfg(target_arch = "x86_64")]
    pub fn footholds(
        &self,
        memory: &unbloat_process::LiveMemory,
    ) -> Result<unbloat_process::remote::Footholds, unbloat_process::remote::UnknownLibc> {
        unbloat_process::remote::Footholds::in_libc(&self.libc, memory)
    }

    /// The locks that a borrowed thread must not hold, where they can be read.
    ///
    /// # Errors
    /// The arenas cannot be followed.
    #[cfg(target_arch = "x86_64")]
    pub fn locks(
        &self,
        memory: &unbloat_process::LiveMemory,
    ) -> Result<Option<super::locks::ArenaLocks>, crate::glibc::arena::ArenaError> {
        self.glibc.as_ref().map(|glibc| super::locks::ArenaLocks::of(glibc, memory)).transpose()
    }
}

/// The libc of a process: `libc.so.6`, or `libc-2.31.so` up to glibc 2.33.
fn libc_of(pid: Pid, maps: &Maps) -> Result<Image, Unsupported> {
    let is_libc = |m: &&Mapping| {
        let name = m.file().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or("");
        name == "libc.so.6" || name.starts_with("libc-2.") && name.ends_with(".so")
    };
    let mapping = first_mappings(maps).find(is_libc);
    let mapping = mapping.ok_or_else(|| Unsupported::NoGlibc { reason: "none is mapped".to_owned() })?;
    Image::of_mapping(pid, mapping).map_err(|error| Unsupported::NoGlibc { reason: error.to_string() })
}

/// Whether a jemalloc knows `arena.4096.purge`. `MALLCTL_ARENAS_ALL` came with version 5, and so did muzzy pages, the
/// name of whose setting is in the library's data (jemalloc 5.0.0, ChangeLog; `src/ctl.c`).
fn purges_all_arenas(image: &Image) -> bool {
    const NAME: &[u8] = b"muzzy_decay_ms\0";
    // Linkers may put constants into the segment of the code.
    image.elf.segments.iter().filter(|segment| !segment.write).any(|segment| {
        let at = image.bias.wrapping_add(segment.addresses.start);
        let bytes = image.file_bytes(at, segment.file_bytes as usize).unwrap_or_default();
        bytes.windows(NAME.len()).any(|window| window == NAME)
    })
}

/// The executable mappings of a file.
fn code_of<'a>(maps: &'a Maps, first: &'a Mapping) -> impl Iterator<Item = Range<u64>> + 'a {
    maps.iter()
        .filter(|m| m.execute && m.inode == first.inode && m.file() == first.file())
        .map(Mapping::range)
}

/// Where a function's code lies.
fn body(image: &Image, name: &str) -> Option<Range<u64>> {
    let symbol = image.elf.symbol(image.source(), name)?;
    let start = image.bias.wrapping_add(symbol.address);
    Some(start..start + symbol.size.max(1))
}
