//! Whether a program brings a jemalloc of its own: needed as a library, or linked into it or into its libruby.
//!
//! `ruby --with-jemalloc` of a shared build (`--enable-shared`, as distributions and most images have it) shows it in
//! libruby and not in the executable.

use memchr::memmem;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{DynamicTable, ElfFile64, FileHeader as _};
use std::fs;
use std::path::{Path, PathBuf};

/// What all messages of jemalloc begin with; it is in every binary that has jemalloc linked in.
const MESSAGE: &[u8] = b"<jemalloc>";

/// Where libruby lies when nothing in the executable says so, beside `../lib` from there.
const LIBRARY_DIRECTORIES: [&str; 4] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib"];

/// Whether a program, or the libruby that it needs, holds or needs a jemalloc. `bytes` are the program's.
pub(crate) fn is_in(program: &Path, bytes: &[u8]) -> bool {
    let Some(dynamic) = Dynamic::of(bytes) else { return false };
    let libruby = dynamic.needed.iter().find(|name| name.starts_with("libruby"));
    let libruby = || fs::read(find(libruby?, program, &dynamic.directories)?).ok();
    dynamic.shows_jemalloc(bytes)
        || libruby().is_some_and(|bytes| Dynamic::of(&bytes).is_some_and(|ruby| ruby.shows_jemalloc(&bytes)))
}

/// What the dynamic table of an ELF file says.
struct Dynamic {
    needed: Vec<String>,
    /// `DT_RUNPATH` and `DT_RPATH`, with `$ORIGIN` in them.
    directories: Vec<String>,
}

impl Dynamic {
    fn of(bytes: &[u8]) -> Option<Self> {
        let elf = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let sections = elf.elf_header().sections(elf.endian(), bytes).ok()?;
        let table: DynamicTable<'_, FileHeader64<object::Endianness>> =
            sections.dynamic_table(elf.endian(), bytes).ok()?;
        let texts = |wanted: &[object::elf::DynamicTag]| -> Vec<String> {
            let entries = table.iter().filter(|entry| wanted.contains(&entry.tag));
            entries
                .filter_map(|entry| Some(String::from_utf8_lossy(table.string(entry).ok()?).into_owned()))
                .collect()
        };
        let paths = texts(&[DT_RUNPATH, DT_RPATH]);
        let directories = paths.iter().flat_map(|path| path.split(':')).map(str::to_owned).collect();
        Some(Self { needed: texts(&[DT_NEEDED]), directories })
    }

    fn shows_jemalloc(&self, bytes: &[u8]) -> bool {
        self.needed.iter().any(|name| name.starts_with("libjemalloc"))
            || memmem::find(bytes, MESSAGE).is_some()
    }
}

/// The file of a library that a program needs, about where the dynamic linker will find it (ld.so(8)).
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
        let ours = unbloat_bundle::contents(Library::Jemalloc);
        assert!(is_in(Path::new("/usr/bin/ruby"), ours));
        assert!(!is_in(Path::new("/usr/bin/ruby"), unbloat_bundle::contents(Library::Runtime)));
        assert!(!is_in(Path::new("/no/such/program"), b"<jemalloc>: no ELF file"));
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
