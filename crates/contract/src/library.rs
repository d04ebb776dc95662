//! The two shared libraries that the `unbloat` binary carries, by name.

/// A library that is loaded into servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// The runtime: Ruby extension and preloadable.
    Runtime,
    /// jemalloc with defaults for Ruby servers, to be preloaded.
    Jemalloc,
}

impl Library {
    /// All of them.
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
