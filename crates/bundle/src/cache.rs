//! The directory from which a server loads the libraries.

use crate::error::BundleError;
use crate::install::{make_directories, write_error, write_library};
use crate::{contents, trust};
use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use unbloat_contract::{Library, Variable};

/// The directory in which the libraries lie, unpacked if they were not there or were not what they should be.
///
/// `UNBLOAT_LIBRARY_DIR`, when set, is where `unbloat install` put them, and has to hold those that are `needed`. Otherwise
/// it is `unbloat/VERSION-HASH` in the per-user cache; root's is `/var/cache`.
///
/// # Errors
/// [`BundleError`] when nothing can be written or loaded there, or what is there is not ours alone.
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

/// The directory that `unbloat install` wrote. What could not be loaded from it would end every Ruby with a `LoadError`.
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

/// The place of a cache and the permissions of its files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) top: PathBuf,
    pub(crate) mode: u32,
}

/// The cache of a user. What root starts may give up root before it starts another Ruby, which then has to be able to
/// read the libraries: root's cache is open to be read, and unless told otherwise not below root's own home.
pub(crate) fn place(environment: impl Fn(&str) -> Option<String>, user: u32) -> Option<Place> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mode = if user == 0 { 0o755 } else { 0o700 };
    let caches = absolute("XDG_CACHE_HOME")
        .or_else(|| (user == 0).then(|| PathBuf::from("/var/cache")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(Place { top: caches.join("unbloat"), mode })
}

/// Makes a directory with these permissions, or accepts one that nobody else can change. Returns its path without links: what was
/// checked is what a server loads from.
fn make_private(directory: &Path, mode: u32) -> Result<PathBuf, BundleError> {
    let real = |path: &Path| path.canonicalize().map_err(|source| write_error(path, source));
    // Nothing is made below a directory of somebody else's.
    if let Some(existing) = directory.ancestors().find(|path| path.is_dir()) {
        trust::check_above(&real(existing)?)?;
    }
    make_directories(directory, mode).map_err(|source| write_error(directory, source))?;
    let directory = real(directory)?;
    loadable(&directory)?;
    trust::check(&directory)?;
    Ok(directory)
}

/// True if a directory that has been checked holds exactly these libraries.
fn is_complete(directory: &Path) -> bool {
    Library::ALL.into_iter().all(|library| is_trusted_copy(directory, library))
}

/// True if a file is a library of ours, byte by byte, that nobody else can change.
fn is_trusted_copy(directory: &Path, library: Library) -> bool {
    let path = directory.join(library.file_name());
    let is_safe =
        |meta: fs::Metadata| meta.is_file() && trust::owner_is_trusted(&meta) && meta.mode() & 0o022 == 0;
    fs::symlink_metadata(&path).is_ok_and(is_safe)
        && fs::read(&path).is_ok_and(|found| found == contents(library))
}

/// Refuses a directory on a file system from which the kernel maps no code. One that cannot be asked is believed.
fn allows_code(directory: &Path) -> Result<(), BundleError> {
    let refuses = statvfs(directory).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOEXEC));
    if refuses { Err(BundleError::NoExec { path: directory.to_owned() }) } else { Ok(()) }
}

/// Refuses a path that the dynamic linker or Ruby would take apart.
pub(crate) fn loadable(path: &Path) -> Result<(), BundleError> {
    let text = path.to_string_lossy();
    if text.contains([' ', ':', ';', '\t', '\n', '$']) {
        return Err(BundleError::Unquotable { path: path.to_owned() });
    }
    Ok(())
}
