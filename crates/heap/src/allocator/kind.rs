//! Which allocator a file is or has linked in, and its version: by its symbols; where those were stripped, by the messages
//! that it can print. The file's name says nothing.

use crate::model::AllocatorKind;
use unbloat_process::Image;

/// What gives an allocator away, in the order in which it is asked.
const SIGNS: [(AllocatorKind, &[&str]); 5] = [
    (AllocatorKind::Jemalloc, &["mallctl", "je_mallctl", "_rjem_mallctl"]),
    (AllocatorKind::Mimalloc, &["mi_malloc", "mi_version"]),
    (
        AllocatorKind::Tcmalloc,
        &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_Internal_GetNumericProperty"],
    ),
    (AllocatorKind::Glibc, &["gnu_get_libc_version", "__libc_malloc"]),
    (AllocatorKind::Musl, &["__malloc_donate", "__libc_malloc_impl", "__dls3"]),
];

/// Messages that an allocator has in its read-only data.
const TEXTS: [(AllocatorKind, &[u8]); 3] = [
    (AllocatorKind::Jemalloc, b"<jemalloc>: "),
    (AllocatorKind::Mimalloc, b"mimalloc: error: "),
    (AllocatorKind::Tcmalloc, b"tcmalloc.max_total_thread_cache_bytes"),
];

/// The allocator that a file which defines `malloc` is, or has linked in.
pub(super) fn kind_of(image: &Image) -> AllocatorKind {
    if image.name().starts_with("ld-musl") || image.name().starts_with("libc.musl") {
        return AllocatorKind::Musl;
    }
    let names: Vec<&str> = SIGNS.iter().flat_map(|(_, signs)| *signs).copied().collect();
    let found = image.symbols(&names);
    let has =
        |signs: &[&str]| names.iter().zip(&found).any(|(name, at)| at.is_some() && signs.contains(name));
    let by_symbols = SIGNS.iter().find(|(_, signs)| has(signs)).map(|(kind, _)| kind.clone());
    by_symbols.or_else(|| by_texts(image)).unwrap_or(AllocatorKind::Unknown)
}

/// The allocator whose messages a file has. A file may also just carry an allocator for others, so this proves something
/// only where `malloc` is known to be the file's own.
pub(super) fn by_texts(image: &Image) -> Option<AllocatorKind> {
    TEXTS.iter().find(|(_, text)| image.find_bytes(text, 0).is_some()).map(|(kind, _)| kind.clone())
}

/// Versions as the libraries carry them in their texts and code.
pub(super) fn version_of(image: &Image, kind: &AllocatorKind) -> Option<String> {
    let text = |before: &str| {
        let bytes = image.find_bytes(before.as_bytes(), 24)?;
        let text = String::from_utf8_lossy(bytes.get(before.len()..)?).into_owned();
        let version: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        Some(version).filter(|v| v.starts_with(|c: char| c.is_ascii_digit()))
    };
    match kind {
        AllocatorKind::Tcmalloc => text("gperftools "),
        AllocatorKind::Jemalloc => jemalloc_version(image),
        AllocatorKind::Mimalloc => mimalloc_version(image),
        _ => None,
    }
}

/// `JEMALLOC_VERSION`: `5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c`.
fn jemalloc_version(image: &Image) -> Option<String> {
    (2..=9).flat_map(|major| (0..=9).map(move |minor| format!("{major}.{minor}."))).find_map(|start| {
        let bytes = image.find_bytes(start.as_bytes(), 48)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (version, rest) = text.split_once('-')?;
        let commit = rest.split_once("-g")?.1;
        let hexadecimal = commit.chars().take(12).all(|c| c.is_ascii_hexdigit());
        (version.len() < 10 && hexadecimal).then(|| version.to_owned())
    })
}

/// `mi_version` does nothing but return `MI_MALLOC_VERSION`: its code is that number.
fn mimalloc_version(image: &Image) -> Option<String> {
    returned_number(&image.file_bytes(image.symbol("mi_version")?, 16)?).and_then(dotted)
}

/// The constant that a function returns which does nothing else, on x86-64 or aarch64. What branch protection puts before
/// (`endbr64`, `bti c`) is passed over.
fn returned_number(code: &[u8]) -> Option<u32> {
    let code = code
        .strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa])
        .or_else(|| code.strip_prefix(&[0x5f, 0x24, 0x03, 0xd5]))
        .unwrap_or(code);
    let (first, rest) = code.split_at_checked(4)?;
    let first = u32::from_le_bytes(first.try_into().ok()?);
    if rest.starts_with(&[0xc0, 0x03, 0x5f, 0xd6]) {
        // movz w0, #number; ret
        return (first & 0xffe0_001f == 0x5280_0000).then_some(first >> 5 & 0xffff);
    }
    // mov $number,%eax; ret
    let number = code.get(1..5).filter(|_| code.first() == Some(&0xb8) && code.get(5) == Some(&0xc3))?;
    Some(u32::from_le_bytes(number.try_into().ok()?))
}

/// One digit for each of the three parts, or two for the last two: 209 → `2.0.9`, 30201 → `3.2.1`.
fn dotted(number: u32) -> Option<String> {
    let base = match number {
        100..=999 => 10,
        10_000..=99_999 => 100,
        _ => return None,
    };
    Some(format!("{}.{}.{}", number / base / base, number / base % base, number % base))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_returns_a_number_tells_it() {
        assert_eq!(returned_number(b"\xb8\xd1\0\0\0\xc3\x90\x90"), Some(209));
        assert_eq!(returned_number(b"\xf3\x0f\x1e\xfa\xb8\xd1\0\0\0\xc3"), Some(209));
        assert_eq!(returned_number(&[0x20, 0x1a, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6]), Some(209));
        assert_eq!(returned_number(b"\x55\x48\x89\xe5\xb8\xd1\0\0\0"), None);
        assert_eq!(returned_number(b"\xb8\xd1"), None);
        assert_eq!(dotted(209).as_deref(), Some("2.0.9"));
        assert_eq!(dotted(30_201).as_deref(), Some("3.2.1"));
        assert_eq!(dotted(7), None);
    }
}
