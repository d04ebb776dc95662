//! The mappings of a process's address space, from `/proc/PID/maps`
//! (format: `Documentation/filesystems/proc.rst`, section 1.1, of the Linux source).

use crate::{Error, Pid, Result};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The backing of a mapping, from its name in `maps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backing {
    /// Unnamed anonymous memory.
    Anonymous,
    /// `[anon:NAME]` or `[anon_shmem:NAME]`: anonymous memory that the program named with `PR_SET_VMA_ANON_NAME`.
    Named(String),
    /// `[heap]`: memory managed by `brk`.
    Brk,
    /// `[stack]`: the main thread's stack.
    MainStack,
    /// `[vdso]`, `[vvar]`, `[vsyscall]`, …: pages provided by the kernel.
    Kernel(String),
    /// A file. `deleted`: it no longer has a name (an upgraded library, a memfd, System V or POSIX shared
    /// memory).
    File {
        /// Its path in the process's own mount namespace.
        #[serde(with = "crate::sandbox::path")]
        path: PathBuf,
        /// The name has been removed.
        deleted: bool,
    },
}

/// One mapping (VMA).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Readable.
    pub read: bool,
    /// Writable.
    pub write: bool,
    /// Executable.
    pub execute: bool,
    /// Shared (`MAP_SHARED`), as opposed to private, copy on write.
    pub shared: bool,
    /// Offset into the file, in bytes.
    pub offset: u64,
    /// The file's device, major and minor number.
    pub device: (u64, u64),
    /// The file's inode; 0 for anonymous memory.
    pub inode: u64,
    /// Its backing.
    pub backing: Backing,
}

impl Mapping {
    /// Addresses of the mapping.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Returns whether the mapping is empty (kernel mappings never are).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Returns whether this is private writable anonymous memory, where the heap of an allocator or a garbage
    /// collector can lie.
    #[must_use]
    pub fn is_private_anonymous(&self) -> bool {
        !self.shared
            && self.write
            && matches!(self.backing, Backing::Anonymous | Backing::Named(_) | Backing::Brk)
    }

    /// Returns the file behind the mapping, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match &self.backing {
            Backing::File { path, .. } => Some(path),
            _ => None,
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let perms = fields.next()?.as_bytes();
        let offset = fields.next()?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let inode = fields.next()?;
        let name = fields.next().unwrap_or("").trim_start();
        let &[read, write, execute, shared] = perms else { return None };
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        (start <= end).then_some(())?;
        Some(Mapping {
            start,
            end,
            read: read == b'r',
            write: write == b'w',
            execute: execute == b'x',
            shared: shared == b's',
            offset: u64::from_str_radix(offset, 16).ok()?,
            device: (u64::from_str_radix(major, 16).ok()?, u64::from_str_radix(minor, 16).ok()?),
            inode: inode.parse().ok()?,
            backing: Backing::parse(name),
        })
    }
}

impl Backing {
    fn parse(name: &str) -> Self {
        if name.is_empty() {
            return Backing::Anonymous;
        }
        match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
            Some("heap") => Backing::Brk,
            Some("stack") => Backing::MainStack,
            Some(inner) => match inner.strip_prefix("anon:").or_else(|| inner.strip_prefix("anon_shmem:")) {
                Some(given) => Backing::Named(given.to_owned()),
                None => Backing::Kernel(inner.to_owned()),
            },
            None => {
                let (path, deleted) = match name.strip_suffix(" (deleted)") {
                    Some(path) => (path, true),
                    None => (name, false),
                };
                // The kernel writes a newline in a name as \012.
                Backing::File { path: PathBuf::from(path.replace("\\012", "\n")), deleted }
            }
        }
    }
}

/// Maximum size of the list: a hundred times that of a large server. The kernel allows 65,530 mappings by
/// default (`vm.max_map_count`), and a name takes up to 4 KiB.
const MAX_BYTES: u64 = 16 << 20;

/// All mappings of a process, sorted by address, disjoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Maps(Vec<Mapping>);

impl Maps {
    /// Reads `/proc/PID/maps`.
    ///
    /// # Errors
    /// The process is gone, or may not be read. A kernel thread has no mappings: the result is empty.
    pub fn of(pid: Pid) -> Result<Self> {
        let failed = |e| Error::from_io(pid, "the mappings", e);
        let file = std::fs::File::open(pid.proc("maps")).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Error::TooMany { pid, what: "mappings" });
        }
        Self::parse(pid, &String::from_utf8_lossy(&bytes))
    }

    /// Parses the text of a `maps` file. `pid` is only used in error messages.
    ///
    /// # Errors
    /// A line deviates from the documented format.
    pub fn parse(pid: Pid, text: &str) -> Result<Self> {
        let parse = |line: &str| {
            Mapping::parse(line).ok_or_else(|| Error::Malformed { pid, what: "maps", line: line.to_owned() })
        };
        let mut mappings = text.lines().map(parse).collect::<Result<Vec<_>>>()?;
        mappings.sort_by_key(|m| m.start);
        Ok(Maps(mappings))
    }

    /// Iterates over the mappings in address order.
    pub fn iter(&self) -> std::slice::Iter<'_, Mapping> {
        self.0.iter()
    }

    /// Returns the mapping that contains `address`.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|m| m.end <= address);
        self.0.get(after).filter(|m| m.start <= address)
    }

    /// Returns whether the process has no user memory at all: a kernel thread or a zombie.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> IntoIterator for &'a Maps {
    type Item = &'a Mapping;
    type IntoIter = std::slice::Iter<'a, Mapping>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXT: &str = "\
55d0c0a00000-55d0c0a21000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000021000 rw-p 00000000 00:00 0 
7f0000021000-7f0004000000 ---p 00000000 00:00 0 
7f1000000000-7f1000100000 rw-p 00000000 00:00 0                          [anon:Ruby:GC:default:heap_page_body_allocate]
7f2000000000-7f2000010000 r-xp 00001000 fe:00 1234                       /usr/lib/a b.so (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]
7ffc00100000-7ffc00102000 r--p 00000000 00:00 0                          [vvar]
";

    #[test]
    fn every_kind_of_line_is_understood() {
        let maps = Maps::parse(Pid(1), TEXT).unwrap();
        let backings: Vec<_> = maps.iter().map(|m| &m.backing).collect();
        assert_eq!(
            backings,
            [
                &Backing::Brk,
                &Backing::Anonymous,
                &Backing::Anonymous,
                &Backing::Named("Ruby:GC:default:heap_page_body_allocate".into()),
                &Backing::File { path: "/usr/lib/a b.so".into(), deleted: true },
                &Backing::MainStack,
                &Backing::Kernel("vvar".into()),
            ]
        );
        assert_eq!(maps.find(0x7f00_0002_0fff).unwrap().start, 0x7f00_0000_0000);
        assert!(maps.find(0x7f00_0400_0000).is_none());
        assert!(maps.find(0x7f20_0000_0000).unwrap().execute);
    }

    #[test]
    fn own_mappings_contain_a_local_variable() {
        let maps = Maps::of(Pid::this()).unwrap();
        let here = 0u8;
        assert!(maps.find(std::ptr::from_ref(&here) as u64).is_some());
    }

    #[test]
    fn a_strange_line_is_an_error_that_shows_it() {
        let error = Maps::parse(Pid(7), "what is this\n").unwrap_err();
        assert!(error.to_string().contains("what is this"), "{error}");
    }
}
