//! The libraries that the `unbloat` binary carries inside, and putting them where a process can load them.
//!
//! [`cache`] unpacks them into the per-user cache, under a directory that is named by their contents, and verifies what
//! it finds there; [`install`] writes them into a directory of the user's choice.

use nix::sys::statvfs::{FsFlags, statvfs};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

pub use unbloat_contract::Library;

/// The contents of a library's file.
#[must_use]
pub fn contents(library: Library) -> &'static [u8] {
    match library {
        Library::Runtime => include_bytes!(concat!(env!("OUT_DIR"), "/libunbloat.so")),
        Library::Jemalloc => include_bytes!(concat!(env!("OUT_DIR"), "/libunbloat-jemalloc.so")),
    }
}

/// Why the libraries could not be put somewhere.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// There is no directory that could hold the cache.
    #[error(
        "there is no directory for the libraries: neither XDG_CACHE_HOME nor HOME is set to an absolute path. Set one, or \
         run `unbloat install DIR` once and set UNBLOAT_LIBRARY_DIR=DIR"
    )]
    NoCache,
    /// A file or directory could not be made.
    #[error(
        "cannot write {path}: {cause}. Set XDG_CACHE_HOME to a writable directory, or run `unbloat install DIR` once \
         (when building an image, say) and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// A directory that others can write to could be used to smuggle code into the server.
    #[error(
        "{path} belongs to another user or can be written by others, so libraries in it are not loaded. Remove it or set \
         XDG_CACHE_HOME to a directory of your own",
        path = path.display()
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
    /// `UNBLOAT_LIBRARY_DIR` does not hold what is needed.
    #[error(
        "UNBLOAT_LIBRARY_DIR={directory} has no {library}. Run `unbloat install {directory}`, or unset the variable to use \
         the cache",
        directory = directory.display()
    )]
    NotInstalled {
        /// The directory.
        directory: PathBuf,
        /// The file that it lacks.
        library: &'static str,
    },
    /// The kernel maps no code from this file system.
    #[error(
        "{path} lies on a file system that is mounted noexec, from which no library can be loaded. Run `unbloat install DIR` \
         with a directory elsewhere and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    NoExec {
        /// The directory.
        path: PathBuf,
    },
    /// A path cannot be passed in `LD_PRELOAD` and `RUBYOPT`.
    #[error(
        "{path} holds a space or a colon, which neither LD_PRELOAD nor RUBYOPT can carry. Run `unbloat install DIR` with \
         another directory and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    Unquotable {
        /// The path.
        path: PathBuf,
    },
}

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
    if let Some(installed) = environment("UNBLOAT_LIBRARY_DIR").filter(|path| !path.is_empty()) {
        return installed_in(Path::new(&installed), needed);
    }
    let Place { top, mode } = place(environment, user()).ok_or(BundleError::NoCache)?;
    let directory = top.join(concat!(env!("CARGO_PKG_VERSION"), "-", env!("UNBLOAT_FINGERPRINT")));
    loadable(&directory)?;
    if !is_complete(&top, &directory) {
        make_private(&top, mode)?;
        allows_code(&top)?;
        make_private(&directory, mode)?;
        for library in Library::ALL {
            write_atomically(&directory, library, mode)?;
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
    allows_code(&directory)?;
    Ok(directory)
}

/// Where a cache lies and the permissions of what is in it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    top: PathBuf,
    mode: u32,
}

/// The cache of a user. What root starts may give up root before it starts another Ruby, which then has to be able to
/// read the libraries: root's cache is open to be read, and unless told otherwise not below root's own home.
fn place(environment: impl Fn(&str) -> Option<String>, user: u32) -> Option<Place> {
    let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let mode = if user == 0 { 0o755 } else { 0o700 };
    let caches = absolute("XDG_CACHE_HOME")
        .or_else(|| (user == 0).then(|| PathBuf::from("/var/cache")))
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(Place { top: caches.join("unbloat"), mode })
}

/// Writes the libraries into a directory, which is made if need be, open to be read whatever the umask; the files' paths.
///
/// # Errors
/// [`BundleError`] when a file cannot be written.
pub fn install(directory: &Path) -> Result<Vec<PathBuf>, BundleError> {
    make_directories(directory, 0o755).map_err(|source| write_error(directory, source))?;
    let directory = directory.canonicalize().map_err(|source| write_error(directory, source))?;
    loadable(&directory)?;
    Library::ALL.into_iter().map(|library| write_atomically(&directory, library, 0o755)).collect()
}

/// Whether the directory and the one above it are ours alone, and it holds exactly these libraries.
fn is_complete(top: &Path, directory: &Path) -> bool {
    check_private(top).is_ok()
        && check_private(directory).is_ok()
        && Library::ALL.into_iter().all(|library| {
            let path = directory.join(library.file_name());
            let owned = fs::symlink_metadata(&path)
                .is_ok_and(|meta| meta.is_file() && meta.uid() == user() && meta.mode() & 0o022 == 0);
            owned && fs::read(&path).is_ok_and(|found| found == contents(library))
        })
}

/// Makes a directory with these permissions, or accepts one that nobody else can write to.
fn make_private(directory: &Path, mode: u32) -> Result<(), BundleError> {
    make_directories(directory, mode).map_err(|source| write_error(directory, source))?;
    check_private(directory)
}

/// Makes a directory and those above it that are missing, with these permissions.
///
/// They are set once more after the directories are made: a umask of 077, which hardened machines have, would shut out the
/// users that root becomes and those that a server runs as.
fn make_directories(directory: &Path, mode: u32) -> io::Result<()> {
    let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let new: Vec<&Path> = directory.ancestors().take_while(missing).collect();
    DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    new.into_iter().try_for_each(|path| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
}

/// Refuses a directory on a file system from which the kernel maps no code. One that cannot be asked is believed.
fn allows_code(directory: &Path) -> Result<(), BundleError> {
    let refuses = statvfs(directory).is_ok_and(|system| system.flags().contains(FsFlags::ST_NOEXEC));
    if refuses { Err(BundleError::NoExec { path: directory.to_owned() }) } else { Ok(()) }
}

fn check_private(directory: &Path) -> Result<(), BundleError> {
    let meta = fs::symlink_metadata(directory).map_err(|source| write_error(directory, source))?;
    if meta.is_dir() && meta.uid() == user() && meta.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(BundleError::NotPrivate { path: directory.to_owned() })
}

/// Writes a library beside its place and moves it there: whoever looks sees the old file or the whole new one.
fn write_atomically(directory: &Path, library: Library, mode: u32) -> Result<PathBuf, BundleError> {
    let path = directory.join(library.file_name());
    let beside = directory.join(format!(".{}.{}", library.file_name(), std::process::id()));
    let written =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside).and_then(
            |mut file| {
                file.write_all(contents(library))?;
                file.set_permissions(fs::Permissions::from_mode(mode))?;
                fs::rename(&beside, &path)
            },
        );
    written.map_err(|source| {
        // The half-written file is of no use to anyone; the error that matters is the first.
        let _ = fs::remove_file(&beside);
        write_error(&path, source)
    })?;
    Ok(path)
}

fn write_error(path: &Path, cause: io::Error) -> BundleError {
    BundleError::Write { path: path.to_owned(), cause }
}

/// Refuses a path that the dynamic linker or Ruby would take apart.
fn loadable(path: &Path) -> Result<(), BundleError> {
    let text = path.to_string_lossy();
    if text.contains([' ', ':', ';', '\t', '\n', '$']) {
        return Err(BundleError::Unquotable { path: path.to_owned() });
    }
    Ok(())
}

fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn unpack(home: &Path) -> Result<PathBuf, BundleError> {
        cache(&Library::ALL, |name| (name == "XDG_CACHE_HOME").then(|| home.display().to_string()))
    }

    #[test]
    fn unpacking_keeps_others_from_writing_and_is_done_once() {
        let home = tempfile::tempdir().unwrap();
        let directory = unpack(home.path()).unwrap();
        let runtime = directory.join("libunbloat.so");
        let expected = if user() == 0 { 0o755 } else { 0o700 };
        assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, expected);
        let first = fs::metadata(&runtime).unwrap().ino();
        assert_eq!(unpack(home.path()).unwrap(), directory);
        assert_eq!(fs::metadata(&runtime).unwrap().ino(), first);
    }

    #[test]
    fn a_library_that_was_changed_is_put_right() {
        let home = tempfile::tempdir().unwrap();
        let directory = unpack(home.path()).unwrap();
        fs::write(directory.join("libunbloat.so"), b"not a library").unwrap();
        unpack(home.path()).unwrap();
        assert_eq!(fs::read(directory.join("libunbloat.so")).unwrap(), contents(Library::Runtime));
    }

    #[test]
    fn root_keeps_its_libraries_where_those_it_becomes_can_read_them() {
        let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        assert_eq!(place(home, 0), Some(Place { top: "/var/cache/unbloat".into(), mode: 0o755 }));
        let told = |name: &str| (name == "XDG_CACHE_HOME").then(|| "/srv/cache".to_owned());
        assert_eq!(place(told, 0), Some(Place { top: "/srv/cache/unbloat".into(), mode: 0o755 }));
        assert_eq!(place(home, 1000), Some(Place { top: "/home/u/.cache/unbloat".into(), mode: 0o700 }));
        assert_eq!(place(|_| None, 1000), None);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = unpack(home.path()).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack(home.path()), Err(BundleError::NotPrivate { .. })));
    }

    #[test]
    fn a_directory_above_that_others_can_write_to_is_refused_as_well() {
        let home = tempfile::tempdir().unwrap();
        let directory = unpack(home.path()).unwrap();
        fs::set_permissions(directory.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack(home.path()), Err(BundleError::NotPrivate { .. })));
    }

    #[test]
    fn an_installed_directory_has_to_hold_what_is_needed() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("new/lib");
        let installed = |needed: &[Library]| {
            cache(needed, |name| (name == "UNBLOAT_LIBRARY_DIR").then(|| directory.display().to_string()))
        };
        let error = installed(&[Library::Runtime]).unwrap_err().to_string();
        assert!(error.contains("libunbloat.so") && error.contains("unbloat install"), "{error}");
        install(&directory).unwrap();
        assert_eq!(installed(&Library::ALL).unwrap(), directory);
        fs::remove_file(directory.join("libunbloat.so")).unwrap();
        assert!(installed(&Library::ALL).is_err());
        assert_eq!(installed(&[Library::Jemalloc]).unwrap(), directory);
    }

    #[test]
    fn an_unusable_cache_names_the_alternatives() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        let error = unpack(&file).unwrap_err().to_string();
        assert!(error.contains("unbloat install DIR") && error.contains("XDG_CACHE_HOME"), "{error}");
        assert!(matches!(unpack(Path::new("/a b")), Err(BundleError::Unquotable { .. })));
    }

    /// The names of the versions that a library needs stand in its string table (`DT_VERNEED`).
    #[test]
    fn the_libraries_need_no_newer_glibc_than_debian_11_has() {
        const START: &[u8] = b"\0GLIBC_2.";
        for library in Library::ALL {
            let bytes = contents(library);
            let starts = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(START));
            let minors = starts.map(|at| {
                let digits = bytes[at + START.len()..].iter().take_while(|byte| byte.is_ascii_digit());
                String::from_utf8(digits.copied().collect()).unwrap().parse::<u32>().unwrap()
            });
            let newest = minors.max().expect("it needs some version of glibc");
            assert!(newest <= 31, "{} needs GLIBC_2.{newest}", library.file_name());
        }
    }
}
