//! The directory from which a server loads the libraries.

use crate::error::BundleError;
use crate::install::{make_directories, write_error, write_library};
use crate::{contents, trust};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use unbloat_contract::{Library, Variable};

/// Returns the directory that contains the libraries, unpacking them if they are missing or differ.
///
/// If set, `UNBLOAT_LIBRARY_DIR` is where `unbloat install` put them, and must contain those that are
/// `needed`. Otherwise the directory is `unbloat/VERSION-HASH` in the per-user cache; root's is `/var/cache`.
///
/// # Errors
/// [`BundleError`] if nothing can be written to or loaded from there, or others can change the contents.
pub fn cache(
    needed: &[Library],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<PathBuf, BundleError> {
    let installed = environment(Variable::LibraryDirectory.name()).filter(|path| !path.is_empty());
    if let Some(installed) = installed {
        return installed_in(Path::new(&installed), needed);
    }
    let Place { top, mode } = place(environment, trust::user()).ok_or(BundleError::NoCache)?;
    let directory = top.join(concat!(env!("CARGO_PKG_VERSION"), "-", env!("UNBLOAT_FINGERPRINT")));
    loadable(&directory)?;
    let directory = make_private(&directory, mode)?;
    if !is_complete(&directory) {
        allows_code(&directory)?;
        for library in Library::ALL {
            write_library(&directory, library, mode)?;
        }
    }
    allows_code(&directory)?;
    Ok(directory)
}

/// Checks the directory written by `unbloat install`. A library that cannot be loaded from it would end every
/// Ruby with a `LoadError`.
fn installed_in(directory: &Path, needed: &[Library]) -> Result<PathBuf, BundleError> {
    let directory = std::path::absolute(directory).map_err(|source| write_error(directory, source))?;
    loadable(&directory)?;
    let lacking = needed.iter().find(|library| !directory.join(library.file_name()).is_file());
    if let Some(library) = lacking {
        return Err(BundleError::NotInstalled { directory, library: library.file_name() });
    }
    let directory = directory.canonicalize().map_err(|source| write_error(&directory, source))?;
    loadable(&directory)?;
    trust::check(&directory)?;
    if let Some(other) = needed.iter().find(|library| !is_trusted_copy(&directory, **library)) {
        return Err(BundleError::NotOurs { path: directory.join(other.file_name()) });
    }
    allows_code(&directory)?;
    Ok(directory)
}

/// The location of a cache and the permissions of its files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) top: PathBuf,
    pub(crate) mode: u32,
}

/// Returns the cache of a user. A process started by root may drop root before it starts another Ruby, which
/// must then be able to read the libraries. So root's cache is world-readable, and by default outside root's
/// home.
pub(crate) fn place(environment: impl Fn(&str) -> Option<String>, user: u32) -> Option<Place> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mode = if user == 0 { 0o755 } else { 0o700 };
    let caches = absolute("XDG_CACHE_HOME")
        .or_else(|| (user == 0).then(|| PathBuf::from("/var/cache")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(Place { top: caches.join("unbloat"), mode })
}

/// Creates a directory with these permissions, or accepts an existing one that nobody else can change.
/// Returns its path without links, so that a server loads from the path that was checked.
fn make_private(directory: &Path, mode: u32) -> Result<PathBuf, BundleError> {
    let real = |path: &Path| path.canonicalize().map_err(|source| write_error(path, source));
    // Nothing is created below a directory of another user.
    if let Some(existing) = directory.ancestors().find(|path| path.is_dir()) {
        trust::check_above(&real(existing)?)?;
    }
    make_directories(directory, mode).map_err(|source| write_error(directory, source))?;
    let directory = real(directory)?;
    loadable(&directory)?;
    trust::check(&directory)?;
    Ok(directory)
}

/// Returns whether a checked directory contains exactly these libraries.
fn is_complete(directory: &Path) -> bool {
    Library::ALL.into_iter().all(|library| is_trusted_copy(directory, library))
}

/// Returns whether a file is one of our libraries, byte by byte, that nobody else can change.
fn is_trusted_copy(directory: &Path, library: Library) -> bool {
    let path = directory.join(library.file_name());
    let is_safe =
        |meta: fs::Metadata| meta.is_file() && trust::owner_is_trusted(&meta) && meta.mode() & 0o022 == 0;
    fs::symlink_metadata(&path).is_ok_and(is_safe)
        && fs::read(&path).is_ok_and(|found| found == contents(library))
}

/// Refuses a directory on a file system from which the kernel maps no code. If that cannot be determined, the
/// directory is accepted.
fn allows_code(directory: &Path) -> Result<(), BundleError> {
    let refuses = statvfs(directory).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOEXEC));
    if refuses { Err(BundleError::NoExec { path: directory.to_owned() }) } else { Ok(()) }
}

/// Refuses a path that the dynamic linker or Ruby would split.
pub(crate) fn loadable(path: &Path) -> Result<(), BundleError> {
    let text = path.to_string_lossy();
    if text.contains([' ', ':', ';', '\t', '\n', '$']) {
        return Err(BundleError::Unquotable { path: path.to_owned() });
    }
    Ok(())
}
