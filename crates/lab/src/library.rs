//! Finds an installed allocator library and its Debian package. A library's file name contains a version that
//! differs between releases (`libmimalloc.so.2`, `libmimalloc.so.3`), and the package's name follows it.

use std::path::{Path, PathBuf};

/// Returns the search path of Debian's dynamic linker (ld.so(8), /etc/ld.so.conf.d). Its names of architectures are Rust's.
fn directories() -> [String; 6] {
    let architecture = std::env::consts::ARCH;
    [
        "/usr/local/lib".to_owned(),
        format!("/usr/lib/{architecture}-linux-gnu"),
        format!("/lib/{architecture}-linux-gnu"),
        format!("/usr/local/lib/{architecture}-linux-gnu"),
        "/usr/lib".to_owned(),
        "/usr/lib64".to_owned(),
    ]
}

/// Directory with the file lists of installed packages (dpkg(1)).
const PACKAGES: &str = "/var/lib/dpkg/info";

/// An installed library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// The name by which the dynamic linker finds it.
    pub file: String,
    /// The Debian package that contains it.
    pub package: Option<String>,
}

/// Finds the installed library called `name`, or `name` with a version.
#[must_use]
pub fn find(name: &str) -> Option<Library> {
    let (directory, file) = directories().into_iter().find_map(|directory| {
        let entries = std::fs::read_dir(&directory).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Some((directory, shortest(name, names)?))
    })?;
    let package = package(Path::new(PACKAGES), &PathBuf::from(directory).join(&file));
    Some(Library { file, package })
}

/// Returns `libx.so` itself, or its shortest name with a version, which is the one that programs request.
fn shortest(name: &str, files: impl Iterator<Item = String>) -> Option<String> {
    let is_it =
        |file: &String| file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    files.filter(is_it).min_by_key(|file| (file.len(), file.clone()))
}

/// Returns the package whose list in `lists` contains `path`.
fn package(lists: &Path, path: &Path) -> Option<String> {
    let wanted = path.to_str()?;
    std::fs::read_dir(lists).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let package = name.strip_suffix(".list")?;
        let files = std::fs::read_to_string(entry.path()).ok()?;
        let has = files.lines().any(|file| file == wanted);
        has.then(|| package.split(':').next().unwrap_or(package).to_owned())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_version_that_is_installed_is_found() {
        let files = ["libmimalloc.so.3.0", "libmimalloc.so.3", "libmimalloc_debug.so", "libm.so.6"];
        let find = |name| shortest(name, files.into_iter().map(str::to_owned));
        assert_eq!(find("libmimalloc.so").as_deref(), Some("libmimalloc.so.3"));
        assert_eq!(find("libm.so.6").as_deref(), Some("libm.so.6"));
        assert_eq!(find("libjemalloc.so.2"), None);
    }

    #[test]
    fn a_package_is_named_without_its_architecture() {
        let lists = tempfile::tempdir().unwrap();
        std::fs::write(lists.path().join("libx2:amd64.list"), "/usr\n/usr/lib/libx.so.2\n").unwrap();
        std::fs::write(lists.path().join("other.list"), "/usr/lib/libx.so.20\n").unwrap();
        let package = |path: &str| package(lists.path(), Path::new(path));
        assert_eq!(package("/usr/lib/libx.so.2").as_deref(), Some("libx2"));
        assert_eq!(package("/usr/lib/libx.so"), None);
    }

    /// glibc's own libraries are installed everywhere.
    #[test]
    fn the_system_s_libraries_are_seen() {
        assert_eq!(find("libc.so.6").unwrap().file, "libc.so.6");
        assert_eq!(find("libnonesuch.so"), None);
    }
}
