//! The libraries that the `unbloat` binary contains, and their installation where a process can load them.
//!
//! [`mod@cache`] unpacks them into the per-user cache, under a directory named after their contents, and
//! verifies existing files there; [`mod@install`] writes them into a directory of the user's choice.
//!
//! | module | concept |
//! |---|---|
//! | `cache` | the directory from which a server loads the libraries |
//! | `install` | writes the libraries into a directory |
//! | `trust` | directories that nobody else can change |
//! | `error` | reasons why the libraries are unusable |

mod cache;
mod error;
mod install;
mod trust;

pub use cache::cache;
pub use error::BundleError;
pub use install::install;
pub use unbloat_contract::Library;

/// The contents of a library's file.
#[must_use]
pub fn contents(library: Library) -> &'static [u8] {
    match library {
        Library::Runtime => include_bytes!(concat!(env!("OUT_DIR"), "/libunbloat.so")),
        Library::Jemalloc => include_bytes!(concat!(env!("OUT_DIR"), "/libunbloat-jemalloc.so")),
    }
}

#[cfg(test)]
mod tests;
