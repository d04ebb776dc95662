//! The source of an ELF file's bytes, and bounded reads of tables and numbers from it.

use std::fs::File;
use std::ops::{ControlFlow, Range};

/// Maximum number of bytes of a table that are read block by block.
pub(super) const MAX_STREAMED_BYTES: u64 = 256 << 20;
/// Maximum number of bytes in memory at once: the code of a large library.
const MAX_TABLE_BYTES: usize = 32 << 20;
/// Size of a block of a table.
const BLOCK_BYTES: usize = 1 << 16;

/// The source of an ELF file's bytes: a file, or bytes in a test.
pub trait Source {
    /// Fills `buffer` from `offset` on, up to the end of the source; returns the number of bytes read.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize;
}

impl Source for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match std::os::unix::fs::FileExt::read_at(self, rest, offset.saturating_add(done as u64)) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        done
    }
}

impl Source for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let rest = usize::try_from(offset).ok().and_then(|from| self.get(from..)).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        read
    }
}

/// Passes the complete entries of a table to `take` until it has enough, reading block by block.
pub(super) fn blocks(
    source: &(impl Source + ?Sized),
    range: Range<u64>,
    entry: usize,
    mut take: impl FnMut(&[u8]) -> ControlFlow<()>,
) {
    let end = range.end.min(range.start.saturating_add(MAX_STREAMED_BYTES));
    let step = BLOCK_BYTES / entry * entry;
    let mut at = range.start;
    while at < end {
        let block = available(source, at, (end - at).min(step as u64) as usize);
        if block.chunks_exact(entry).try_for_each(&mut take).is_break() || block.len() < step {
            break;
        }
        at += step as u64;
    }
}

/// Reads exactly `len` bytes, or nothing; also nothing if that exceeds the limit.
pub(super) fn table(source: &(impl Source + ?Sized), offset: u64, len: usize) -> Option<Vec<u8>> {
    let bytes = (len <= MAX_TABLE_BYTES).then(|| available(source, offset, len))?;
    (bytes.len() == len).then_some(bytes)
}

/// Reads at most `len` bytes. Memory is allocated as the source yields bytes, so a false `len` costs nothing.
pub(crate) fn available(source: &(impl Source + ?Sized), offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let (from, step) = (bytes.len(), (len - bytes.len()).min(1 << 20));
        bytes.resize(from + step, 0);
        let read = source.read_at(offset.saturating_add(from as u64), &mut bytes[from..]);
        bytes.truncate(from + read);
        if read < step {
            break;
        }
    }
    bytes
}

pub(super) fn c_string(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads a little-endian number at an offset. Callers pass long enough slices; a shorter one reads as 0.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

pub(super) fn half32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(super) fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}
