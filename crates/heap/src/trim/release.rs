//! The prepared call that returns freed memory in a process.
//!
//! glibc's locks can be read, so [`crate::allocators::glibc::locks`] proves that the borrowed thread holds
//! none. Those of other allocators cannot, so there the thread must be outside the allocator altogether.
//! Every function on its call stack has left a return address there, so addresses in the allocator's code are
//! forbidden on the stack; and so is `fork`, which takes the allocator's locks before it calls the handlers
//! of others.

use crate::allocators::glibc::Glibc;
use crate::allocators::{LiveAllocator, Release as ReleaseMethod, ReleaseCall};
use crate::model::AllocatorKind;
use std::ops::Range;
use std::path::Path;
#[cfg(target_arch = "x86_64")]
use std::time::Duration;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Image, Mapping, Maps, Pid};

#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Call;

/// The reason why nothing can be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Statically linked.
    #[error(
        "its allocator ({allocator}) is linked into the program itself, where its release call and its \
         code cannot be distinguished from the rest"
    )]
    Static {
        /// The allocator.
        allocator: &'static str,
    },
    /// The library lacks the function.
    #[error("its allocator ({allocator}) exports no {function}")]
    NotExported {
        /// The allocator.
        allocator: &'static str,
        /// The missing function.
        function: &'static str,
    },
    /// The allocator, or this version of it, has no such call.
    #[error("{why}")]
    Never {
        /// The reason.
        why: &'static str,
    },
    /// The allocator is unknown.
    #[error("its allocator is unknown: {evidence}")]
    Unknown {
        /// The evidence found.
        evidence: String,
    },
    /// No known glibc to lead a thread through.
    #[error("it has no known glibc: {reason}")]
    NoGlibc {
        /// The reason.
        reason: String,
    },
}

/// Maximum time for which a call is supervised where that keeps a deadline exactly: some 5,000 system calls
/// on an idle machine.
#[cfg(target_arch = "x86_64")]
const ATTENDANCE: Duration = Duration::from_millis(100);

/// A call that returns freed memory.
#[derive(Debug)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub struct Release {
    libc: Image,
    glibc: Option<Glibc>,
    /// The call.
    #[cfg(target_arch = "x86_64")]
    pub call: Call,
}

impl Release {
    /// Finds the call for a process's allocator.
    ///
    /// # Errors
    /// There is none, or it cannot be made safely.
    pub fn of(pid: Pid, maps: &Maps, found: &LiveAllocator) -> Result<Self, Unsupported> {
        let allocator = found.allocator.kind;
        let Some(descriptor) = allocator.descriptor() else {
            return Err(Unsupported::Unknown { evidence: found.allocator.evidence.clone() });
        };
        let how = match &descriptor.release {
            ReleaseMethod::Call(how) => how,
            ReleaseMethod::Never(why) => return Err(Unsupported::Never { why }),
        };
        if allocator == AllocatorKind::Glibc {
            return Self::of_glibc(pid, maps, found, how);
        }
        let libc = libc_of(pid, maps)?;
        let program = first_mappings(maps).next().map(|m| m.inode);
        for mapping in first_mappings(maps) {
            let Ok(image) = Image::of_mapping(pid, mapping) else { continue };
            let Some(function) = image.symbols(how.functions).into_iter().flatten().next() else {
                continue;
            };
            if Some(mapping.inode) == program {
                return Err(Unsupported::Static { allocator: allocator.name() });
            }
            if let Some(why) = (how.refuses)(&image) {
                return Err(Unsupported::Never { why });
            }
            let mut forbidden: Vec<_> = code_of(maps, mapping).collect();
            forbidden.extend(["fork", "_Fork", "__libc_fork", "vfork"].iter().filter_map(|f| body(&libc, f)));
            return Ok(Self::calling(libc, None, function, how, forbidden));
        }
        Err(Unsupported::NotExported { allocator: allocator.name(), function: how.functions[0] })
    }

    fn of_glibc(
        pid: Pid,
        maps: &Maps,
        found: &LiveAllocator,
        how: &'static ReleaseCall,
    ) -> Result<Self, Unsupported> {
        let allocator = AllocatorKind::Glibc.name();
        let reason = || found.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join(" ");
        let glibc = found.glibc.clone().ok_or_else(|| Unsupported::NoGlibc { reason: reason() })?;
        if glibc.linked_statically {
            return Err(Unsupported::Static { allocator });
        }
        let libc = libc_of(pid, maps)?;
        let missing = Unsupported::NotExported { allocator, function: how.functions[0] };
        let function = libc.symbol(how.functions[0]).ok_or(missing)?;
        Ok(Self::calling(libc, Some(glibc), function, how, Vec::new()))
    }

    #[cfg(target_arch = "x86_64")]
    fn calling(
        libc: Image,
        glibc: Option<Glibc>,
        function: u64,
        how: &ReleaseCall,
        forbidden: Vec<Range<u64>>,
    ) -> Self {
        let arguments = how.arguments.to_vec();
        let stack_bytes = how.stack_bytes;
        let call = Call { function, arguments, stack_bytes, forbidden, attendance: ATTENDANCE };
        Release { libc, glibc, call }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn calling(libc: Image, glibc: Option<Glibc>, _: u64, _: &ReleaseCall, _: Vec<Range<u64>>) -> Self {
        Release { libc, glibc }
    }

    /// Returns the places in libc that a borrowed thread is led through.
    ///
    /// # Errors
    /// Its libc does not look like any known one.
    #[cfg(target_arch = "x86_64")]
    pub fn gadgets(
        &self,
        memory: &unbloat_process::LiveMemory,
    ) -> Result<unbloat_process::remote::Gadgets, unbloat_process::remote::UnknownLibc> {
        unbloat_process::remote::Gadgets::in_libc(&self.libc, memory)
    }

    /// Returns the locks that a borrowed thread must not hold, where they can be read.
    ///
    /// # Errors
    /// The arenas cannot be followed.
    #[cfg(target_arch = "x86_64")]
    pub fn locks(
        &self,
        memory: &unbloat_process::LiveMemory,
    ) -> Result<
        Option<crate::allocators::glibc::locks::ArenaLocks>,
        crate::allocators::glibc::arena::ArenaError,
    > {
        self.glibc
            .as_ref()
            .map(|glibc| crate::allocators::glibc::locks::ArenaLocks::of(glibc, memory))
            .transpose()
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

/// The executable mappings of a file.
fn code_of<'a>(maps: &'a Maps, first: &'a Mapping) -> impl Iterator<Item = Range<u64>> + 'a {
    maps.iter()
        .filter(|m| m.execute && m.inode == first.inode && m.file() == first.file())
        .map(Mapping::range)
}

/// Returns the addresses of a function's code.
fn body(image: &Image, name: &str) -> Option<Range<u64>> {
    let symbol = image.elf.symbol(image.source(), name)?;
    let start = image.bias.wrapping_add(symbol.address);
    Some(start..start + symbol.size.max(1))
}
