//! The names of the two shared libraries contained in the `unbloat` binary.

/// A library loaded into servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The runtime: a Ruby extension that can also be preloaded.
    Runtime,
    /// jemalloc with defaults for Ruby servers, for preloading.
    Jemalloc,
}

impl Library {
    /// All libraries.
    pub const ALL: [Library; 2] = [Library::Runtime, Library::Jemalloc];

    /// The file's name. Ruby derives the extension's entry point from it.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Library::Runtime => "libunbloat.so",
            Library::Jemalloc => "libunbloat-jemalloc.so",
        }
    }
}
