//! Opens files that a target has mapped, without trusting the target's file system.
//!
//! The target controls the names in `/proc/PID/maps` and whatever is behind them. Opening a FIFO would block,
//! opening a device can have side effects, and a symbolic link leads wherever the target likes. So a file is
//! first located with `O_PATH`, which neither blocks nor has side effects. It must be a regular file and the
//! very one that is mapped; only then is it opened for reading, without blocking.
//!
//! Names are resolved below the target's root, component by component, following no link and no `..`. This is
//! `openat2(2)` with `RESOLVE_IN_ROOT` and `RESOLVE_NO_SYMLINKS`, implemented with `openat`: a system call
//! filter can check the flags of `openat` but not those of `openat2`, and kernels before 5.6 lack the latter.

use crate::{Mapping, Pid};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, major, minor};
use nix::sys::statfs::{BTRFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, fstatfs};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};

/// The reason why a mapped file was not opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotOpened {
    /// The mapping has no file.
    #[error("it is not a file")]
    NoFile,
    /// The file is a FIFO, a device, a socket or a directory.
    #[error("it is not a regular file")]
    NotRegular,
    /// The name now refers to another file.
    #[error("the file was replaced after it was mapped (an upgrade?); only root can open the old one")]
    Replaced,
    /// The path contains a symbolic link, which the kernel never reports for a mapped file.
    #[error("its name leads through a symbolic link, so it is not the mapped file")]
    Link,
    /// The kernel's reason.
    #[error(transparent)]
    Io(io::Error),
}

impl From<Errno> for NotOpened {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::ELOOP | Errno::ENOTDIR => NotOpened::Link,
            errno => NotOpened::Io(errno.into()),
        }
    }
}

/// Opens the file behind a mapping for reading.
///
/// `/proc/PID/map_files` comes first: it is the very file even if its name is gone, but requires
/// `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`. Otherwise the file is opened by name, if that still refers to
/// the same file.
///
/// # Errors
/// It is not a file, not a regular one, no longer the mapped one, or cannot be opened by this process.
pub(crate) fn open_mapped(pid: Pid, mapping: &Mapping) -> Result<File, NotOpened> {
    let exact = pid.proc(&format!("map_files/{:x}-{:x}", mapping.start, mapping.end));
    let located = match openat(AT_FDCWD, &exact, LOCATE, Mode::empty()) {
        Ok(located) => located,
        Err(_) => locate_in_root(pid, mapping.file().ok_or(NotOpened::NoFile)?)?,
    };
    check(&located, mapping)?;
    open_located(&located)
}

/// Locates without opening: nothing blocks and no driver is called.
const LOCATE: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// Locates a file by its name below the root of a process.
fn locate_in_root(pid: Pid, path: &Path) -> Result<OwnedFd, NotOpened> {
    let mut at = openat(AT_FDCWD, &pid.proc("root"), LOCATE | OFlag::O_DIRECTORY, Mode::empty())?;
    let mut components = path.components().filter(|c| *c != Component::RootDir).peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else { return Err(NotOpened::Link) };
        let kind = if components.peek().is_some() { OFlag::O_DIRECTORY } else { OFlag::empty() };
        at = openat(&at, name, LOCATE | OFlag::O_NOFOLLOW | kind, Mode::empty())?;
    }
    Ok(at)
}

/// Checks that a located file is regular and the mapped one.
fn check(located: &OwnedFd, mapping: &Mapping) -> Result<(), NotOpened> {
    let stat = fstat(located)?;
    if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFREG {
        return Err(NotOpened::NotRegular);
    }
    let same = stat.st_ino == mapping.inode && is_same_device(located, &stat, mapping);
    if same { Ok(()) } else { Err(NotOpened::Replaced) }
}

/// Returns whether a file lies on the device of a mapping. On overlayfs and btrfs `stat(2)` reports a
/// different number than `/proc/PID/maps` (`show_map_vma`, fs/proc/task_mmu.c, uses the superblock's), so the
/// inode has to suffice there.
fn is_same_device(located: &OwnedFd, stat: &FileStat, mapping: &Mapping) -> bool {
    (major(stat.st_dev), minor(stat.st_dev)) == mapping.device
        || fstatfs(located)
            .is_ok_and(|fs| [OVERLAYFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC].contains(&fs.filesystem_type()))
}

/// Opens a located regular file for reading, through our own descriptor rather than any name of the target's.
fn open_located(located: &OwnedFd) -> Result<File, NotOpened> {
    File::options()
        .read(true)
        .custom_flags((OFlag::O_NONBLOCK | OFlag::O_NOCTTY).bits())
        .open(format!("/proc/self/fd/{}", located.as_raw_fd()))
        .map_err(NotOpened::Io)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Maps;
    use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
    use std::num::NonZeroUsize;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A file mapped by this process, and its line in `maps`.
    struct Mapped {
        directory: tempfile::TempDir,
        mapping: Mapping,
    }

    impl Mapped {
        #[allow(unsafe_code)]
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("library.so");
            std::fs::write(&path, vec![7; 8192]).unwrap();
            let file = File::open(&path).unwrap();
            let length = NonZeroUsize::new(8192).unwrap();
            // SAFETY: a new mapping at an address chosen by the kernel.
            let at = unsafe { mmap(None, length, ProtFlags::PROT_READ, MapFlags::MAP_PRIVATE, &file, 0) };
            let at = at.unwrap();
            let mapping = Maps::of(Pid::this()).unwrap().find(at.as_ptr() as u64).unwrap().clone();
            // SAFETY: nothing refers to the mapping.
            unsafe { munmap(at, length.get()) }.unwrap();
            Mapped { directory, mapping }
        }

        fn path(&self) -> PathBuf {
            self.directory.path().join("library.so")
        }
    }

    #[test]
    fn a_mapped_file_is_opened_by_its_name() {
        let mapped = Mapped::new();
        let file = open_mapped(Pid::this(), &mapped.mapping).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 8192);
    }

    #[test]
    fn a_fifo_in_its_place_is_refused_at_once() {
        let mapped = Mapped::new();
        std::fs::remove_file(mapped.path()).unwrap();
        nix::unistd::mkfifo(&mapped.path(), Mode::S_IRWXU).unwrap();
        assert!(matches!(open_mapped(Pid::this(), &mapped.mapping), Err(NotOpened::NotRegular)));
    }

    #[test]
    fn another_file_in_its_place_is_refused() {
        let mapped = Mapped::new();
        let other = mapped.directory.path().join("other");
        std::fs::write(&other, "other").unwrap();
        std::fs::rename(other, mapped.path()).unwrap();
        assert!(matches!(open_mapped(Pid::this(), &mapped.mapping), Err(NotOpened::Replaced)));
    }

    #[test]
    fn a_link_is_not_followed_even_to_the_mapped_file() {
        let mapped = Mapped::new();
        let moved = mapped.directory.path().join("moved");
        std::fs::rename(mapped.path(), &moved).unwrap();
        symlink(&moved, mapped.path()).unwrap();
        let error = open_mapped(Pid::this(), &mapped.mapping).unwrap_err();
        // Located as a link, or refused as one on the way.
        assert!(matches!(error, NotOpened::Link | NotOpened::NotRegular), "{error}");
    }

    #[test]
    fn a_device_is_never_opened() {
        let mapped = Mapped::new();
        let mapping = Mapping {
            backing: crate::Backing::File { path: PathBuf::from("/dev/zero"), deleted: false },
            ..mapped.mapping
        };
        assert!(matches!(open_mapped(Pid::this(), &mapping), Err(NotOpened::NotRegular)));
    }
}
