//! jemalloc in the table of allocators: how to recognize a file that carries it, and the call that returns
//! its memory.

use super::super::{Descriptor, RELEASE_STACK_BYTES, Release, ReleaseCall};
use super::verdict;
use crate::model::AllocatorKind;
use unbloat_process::Image;
#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Argument;

/// jemalloc's row of the table of allocators.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: AllocatorKind::Jemalloc,
    in_libc: false,
    file_names: &[],
    symbols: FUNCTIONS,
    message: Some(b"<jemalloc>: "),
    version,
    release: Release::Call(ReleaseCall {
        functions: FUNCTIONS,
        // `MALLCTL_ARENAS_ALL` is 4096 (jemalloc 5, include/jemalloc/jemalloc_macros.h.in).
        #[cfg(target_arch = "x86_64")]
        arguments: &[
            Argument::Text("arena.4096.purge"),
            Argument::Word(0),
            Argument::Word(0),
            Argument::Word(0),
            Argument::Word(0),
        ],
        stack_bytes: RELEASE_STACK_BYTES,
        refuses: older_than_5,
        reach: "jemalloc purges all arenas, but thread caches keep their memory",
    }),
    stranded_cure: Some(verdict::stranded_cure),
};

/// `mallctl` with the prefixes that builds use: none, upstream's default on some systems, and Rust's.
const FUNCTIONS: &[&str] = &["mallctl", "je_mallctl", "_rjem_mallctl"];

/// `JEMALLOC_VERSION`: `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
fn version(image: &Image) -> Option<String> {
    (2..=9).flat_map(|major| (0..=9).map(move |minor| format!("{major}.{minor}."))).find_map(|start| {
        let bytes = image.find_bytes(start.as_bytes(), 48)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (version, rest) = text.split_once('-')?;
        let commit = rest.split_once("-g")?.1;
        let hexadecimal = commit.chars().take(12).all(|c| c.is_ascii_hexdigit());
        (version.len() < 10 && hexadecimal).then(|| version.to_owned())
    })
}

/// Refuses a jemalloc that does not know `arena.4096.purge`. `MALLCTL_ARENAS_ALL` came with version 5, as did
/// muzzy pages, whose setting's name is in the library's data (jemalloc 5.0.0, ChangeLog; `src/ctl.c`).
fn older_than_5(image: &Image) -> Option<&'static str> {
    const NAME: &[u8] = b"muzzy_decay_ms\0";
    // Linkers may put constants into the code segment.
    let named = image.elf.segments.iter().filter(|segment| !segment.write).any(|segment| {
        let at = image.bias.wrapping_add(segment.addresses.start);
        let bytes = image.file_bytes(at, segment.file_bytes as usize).unwrap_or_default();
        bytes.windows(NAME.len()).any(|window| window == NAME)
    });
    (!named).then_some(
        "its jemalloc is older than version 5, which has no single call that purges all \
        arenas",
    )
}
