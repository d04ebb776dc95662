//! A directory visible to a test and its targets, each by its own path.

use crate::root::root;
use std::path::{Path, PathBuf};

/// A temporary directory in the targets' root (see [`crate::target_command`]), removed when dropped.
#[derive(Debug)]
pub struct TargetDirectory {
    outside: tempfile::TempDir,
    inside: PathBuf,
}

impl TargetDirectory {
    /// Creates an empty one.
    ///
    /// # Panics
    /// There is no space for it.
    #[must_use]
    #[allow(clippy::expect_used, clippy::new_without_default)]
    pub fn new() -> Self {
        let root = root();
        let temporary = root.as_ref().map_or_else(std::env::temp_dir, |root| root.join("tmp"));
        let outside = tempfile::tempdir_in(temporary).expect("a temporary directory");
        let path = root.as_deref().and_then(|root| outside.path().strip_prefix(root).ok());
        let inside = path.map_or_else(|| outside.path().to_owned(), |path| Path::new("/").join(path));
        TargetDirectory { outside, inside }
    }

    /// Returns its path for the test.
    #[must_use]
    pub fn outside(&self) -> &Path {
        self.outside.path()
    }

    /// Returns its path for a target.
    #[must_use]
    pub fn inside(&self) -> &Path {
        &self.inside
    }

    /// Writes a file; returns its path for a target.
    ///
    /// # Panics
    /// It cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.outside().join(name);
        if let Err(e) = std::fs::write(&path, text) {
            panic!("cannot write {}: {e}", path.display());
        }
        self.inside.join(name)
    }
}
