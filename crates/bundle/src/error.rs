//! Reasons why the libraries are unusable, each with the next step.

use std::io;
use std::path::PathBuf;

/// The reason why the libraries are unusable.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// There is no directory for the cache.
    #[error(
        "there is no directory for the libraries: neither XDG_CACHE_HOME nor HOME is set to an absolute path. Set one, or \
         run `unbloat install DIR` once and set UNBLOAT_LIBRARY_DIR=DIR"
    )]
    NoCache,
    /// A file or directory could not be created.
    #[error(
        "cannot write {path}: {cause}. Set XDG_CACHE_HOME to a writable directory, or run `unbloat install DIR` once \
         (when building an image, say) and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        cause: io::Error,
    },
    /// Others can write to a directory, and so could smuggle code into the server.
    #[error(
        "{path} belongs to another user or is writable by others, so libraries in it or below it are not \
         loaded. Remove their write permission, or set XDG_CACHE_HOME to a directory of your own",
        path = path.display()
    )]
    NotPrivate {
        /// The directory.
        path: PathBuf,
    },
    /// `UNBLOAT_LIBRARY_DIR` contains something else under a library's name.
    #[error(
        "{path} is not the library bundled with this unbloat: it has another version, or was modified. Run \
         `unbloat install` for its directory again, or unset UNBLOAT_LIBRARY_DIR to use the cache",
        path = path.display()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// `UNBLOAT_LIBRARY_DIR` lacks a required library.
    #[error(
        "UNBLOAT_LIBRARY_DIR={directory} has no {library}. Run `unbloat install {directory}`, or unset the variable to use \
         the cache",
        directory = directory.display()
    )]
    NotInstalled {
        /// The directory.
        directory: PathBuf,
        /// The missing file.
        library: &'static str,
    },
    /// The kernel maps no code from this file system.
    #[error(
        "{path} is on a file system mounted noexec, from which no library can be loaded. Run `unbloat \
         install DIR` with a directory elsewhere and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    NoExec {
        /// The directory.
        path: PathBuf,
    },
    /// A path cannot be passed in `LD_PRELOAD` and `RUBYOPT`.
    #[error(
        "{path} contains a space or a colon, which LD_PRELOAD and RUBYOPT do not allow. Run `unbloat \
         install DIR` with another directory and set UNBLOAT_LIBRARY_DIR=DIR",
        path = path.display()
    )]
    Unquotable {
        /// The path.
        path: PathBuf,
    },
}
