//! Detects a program's own jemalloc: required as a library, or linked into the program or its libruby.
//!
//! `ruby --with-jemalloc` in a shared build (`--enable-shared`, as in distributions and most images) shows in
//! libruby and not in the executable.

use memchr::memmem;
use std::fs;
use std::path::{Path, PathBuf};
use unbloat_process::elf::Elf;

/// The prefix of all messages of jemalloc, present in every binary with jemalloc linked in.
const MESSAGE: &[u8] = b"<jemalloc>";

/// Directories of libruby if the executable names none, in addition to `../lib` relative to it.
const LIBRARY_DIRECTORIES: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib"];

/// Returns whether a program, or the libruby it requires, contains or requires jemalloc. `bytes` are the
/// program's.
pub(crate) fn is_in(program: &Path, elf: &Elf, bytes: &[u8]) -> bool {
    let needed = elf.needed(bytes);
    let libruby = needed.iter().find(|name| name.starts_with("libruby"));
    let libruby = || fs::read(find(libruby?, program, &elf.library_paths(bytes))?).ok();
    shows_jemalloc(&needed, bytes)
        || libruby().is_some_and(|bytes| {
            Elf::parse(&bytes[..]).is_ok_and(|libruby| shows_jemalloc(&libruby.needed(&bytes[..]), &bytes))
        })
}

fn shows_jemalloc(needed: &[String], bytes: &[u8]) -> bool {
    needed.iter().any(|name| name.starts_with("libjemalloc")) || memmem::find(bytes, MESSAGE).is_some()
}

/// Finds the file of a library that a program requires, much as the dynamic linker will (ld.so(8)).
fn find(library: &str, program: &Path, directories: &[String]) -> Option<PathBuf> {
    let program = program.canonicalize().ok()?;
    let origin = program.parent()?;
    let expanded = directories.iter().map(|directory| {
        let text = directory.replace("${ORIGIN}", "$ORIGIN");
        PathBuf::from(text.replace("$ORIGIN", &origin.to_string_lossy()))
    });
    let multiarch = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let usual = LIBRARY_DIRECTORIES.iter().map(PathBuf::from);
    let mut files =
        expanded.chain([origin.join("../lib"), multiarch]).chain(usual).map(|dir| dir.join(library));
    files.find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_contract::Library;

    #[test]
    fn a_jemalloc_is_seen_in_the_file_that_holds_it() {
        let program = Path::new("/usr/bin/ruby");
        let is_in = |bytes: &[u8]| is_in(program, &Elf::parse(bytes).unwrap(), bytes);
        assert!(is_in(unbloat_bundle::contents(Library::Jemalloc)));
        assert!(!is_in(unbloat_bundle::contents(Library::Runtime)));
    }

    #[test]
    fn a_library_is_found_beside_its_program_first() {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("bin/ruby");
        let library = root.path().join("lib/libruby.so.3.3");
        for file in [&program, &library] {
            fs::create_dir(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        for directories in [&["/nowhere".to_owned(), "$ORIGIN/../lib".to_owned()][..], &[]] {
            let found = find("libruby.so.3.3", &program, directories).unwrap();
            assert_eq!(found.canonicalize().unwrap(), library.canonicalize().unwrap());
        }
        assert_eq!(find("libruby.so.9.9", &program, &[]), None);
    }
}
