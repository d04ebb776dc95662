//! Writes the libraries into a directory.

use crate::cache::loadable;
use crate::contents;
use crate::error::BundleError;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use unbloat_contract::Library;

/// Writes the libraries into a directory, which is created if necessary, with read permission for everybody
/// whatever the umask; returns the files' paths.
///
/// # Errors
/// [`BundleError`] if a file cannot be written.
pub fn install(directory: &Path) -> Result<Vec<PathBuf>, BundleError> {
    make_directories(directory, 0o755).map_err(|source| write_error(directory, source))?;
    let directory = directory.canonicalize().map_err(|source| write_error(directory, source))?;
    loadable(&directory)?;
    Library::ALL.into_iter().map(|library| write_library(&directory, library, 0o755)).collect()
}

/// Creates a directory and any missing ancestors, with these permissions.
///
/// The permissions are set again after creation: a umask of 077, as on hardened machines, would lock out the
/// users that root switches to and those that a server runs as.
pub(crate) fn make_directories(directory: &Path, mode: u32) -> io::Result<()> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let new: Vec<&Path> = directory.ancestors().take_while(missing).collect();
    DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    new.into_iter().try_for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// Writes a library next to its destination and moves it there, so that readers see either the old file or
/// the complete new one.
///
/// Everything happens in the opened directory, under an unpredictable name and without following links, so
/// that no other file can be hit in a directory of another user.
pub(crate) fn write_library(directory: &Path, library: Library, mode: u32) -> Result<PathBuf, BundleError> {
    let path = directory.join(library.file_name());
    let failed = |cause: io::Error| write_error(&path, cause);
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let opened: OwnedFd =
        openat(AT_FDCWD, directory, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    let beside = format!(".{}.{:016x}", library.file_name(), RandomState::new().hash_one(std::process::id()));
    let written = write_new(opened.as_fd(), &beside, contents(library), mode)
        .and_then(|()| Ok(renameat(&opened, beside.as_str(), &opened, library.file_name())?));
    written.map_err(|cause| {
        // The partial file is useless; the first error is the one that matters.
        let _ = unlinkat(&opened, beside.as_str(), UnlinkatFlags::NoRemoveDir);
        failed(cause)
    })?;
    Ok(path)
}

fn write_new(directory: BorrowedFd<'_>, name: &str, contents: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(directory, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    file.write_all(contents)?;
    Ok(fchmod(&file, Mode::from_bits_truncate(mode))?)
}

pub(crate) fn write_error(path: &Path, cause: io::Error) -> BundleError {
    BundleError::Write { path: path.to_owned(), cause }
}
