//! mimalloc.

use super::{Descriptor, RELEASE_STACK_BYTES, Release, ReleaseCall};
use crate::model::AllocatorKind;
use unbloat_process::Image;
#[cfg(target_arch = "x86_64")]
use unbloat_process::remote::Argument;

/// mimalloc's row of the table of allocators.
pub const DESCRIPTOR: Descriptor = Descriptor {
    kind: AllocatorKind::Mimalloc,
    in_libc: false,
    file_names: &[],
    symbols: &["mi_malloc", "mi_version"],
    message: Some(b"mimalloc: error: "),
    version,
    release: Release::Call(ReleaseCall {
        functions: &["mi_collect"],
        #[cfg(target_arch = "x86_64")]
        arguments: &[Argument::Word(1)],
        stack_bytes: RELEASE_STACK_BYTES,
        refuses: |_| None,
        reach: "mi_collect reaches the heap of the borrowed thread and of threads that have ended, not the heaps of other \
                threads",
    }),
    stranded_cure: None,
};

/// Reads the number that `mi_version` returns, which is all that its code does.
fn version(image: &Image) -> Option<String> {
    returned_number(&image.file_bytes(image.symbol("mi_version")?, 16)?).and_then(dotted)
}

/// Returns the constant returned by a function that does nothing else, on x86-64 or aarch64. Branch
/// protection instructions in front (`endbr64`, `bti c`) are skipped.
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

/// Formats one digit for each of the three parts, or two for the last two: 209 → `2.0.9`, 30201 → `3.2.1`.
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
