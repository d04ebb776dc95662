//! Small reads of a target's memory that touch resident pages only and distinguish "unreadable" from "the
//! process is gone".

use std::ops::Range;
use unbloat_process::{Error, Memory, Residency, ResidentOnly, Result, page_size, windows};

/// Maximum size of one read within a long range.
const PIECE_BYTES: u64 = 16 << 10;
/// Bytes whose residency is asked for at once.
const WINDOW_BYTES: u64 = 64 << 20;

/// A careful view of memory for one inspection. Residency of a page is cached from the first query on.
pub struct Reader<'a> {
    memory: &'a dyn Memory,
    careful: ResidentOnly<'a>,
}

impl<'a> Reader<'a> {
    /// Creates a fresh view.
    #[must_use]
    pub fn new(memory: &'a dyn Memory) -> Self {
        Reader { memory, careful: ResidentOnly::new(memory) }
    }

    /// Returns the underlying memory.
    #[must_use]
    pub fn memory(&self) -> &'a dyn Memory {
        self.memory
    }

    /// Reads `N` bytes, if readable.
    ///
    /// # Errors
    /// The process is gone.
    pub fn bytes<const N: usize>(&self, address: u64) -> Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        Ok(readable(self.careful.read(address, &mut bytes))?.map(|()| bytes))
    }

    /// Like [`Reader::bytes`], but queries residency afresh.
    ///
    /// # Errors
    /// The process is gone.
    pub fn bytes_now<const N: usize>(&self, address: u64) -> Result<Option<[u8; N]>> {
        let Some(pages) = pages_of(&(address..address.saturating_add(N as u64))) else { return Ok(None) };
        let residency = self.residency(&pages)?;
        if residency.resident_bytes() < pages.end - pages.start {
            return Ok(None);
        }
        let mut bytes = [0; N];
        Ok(readable(self.memory.read(address, &mut bytes))?.map(|()| bytes))
    }

    /// Reads `N` words, if readable.
    ///
    /// # Errors
    /// The process is gone.
    pub fn words<const N: usize>(&self, address: u64) -> Result<Option<[u64; N]>> {
        let mut bytes = vec![0; 8 * N];
        let read = readable(self.careful.read(address, &mut bytes))?;
        Ok(read.map(|()| std::array::from_fn(|i| word_at(&bytes, 8 * i).unwrap_or(0))))
    }

    /// Reads one word, if readable.
    ///
    /// # Errors
    /// The process is gone.
    pub fn word(&self, address: u64) -> Result<Option<u64>> {
        readable(self.careful.word(address))
    }

    /// Reads `size` bytes at each address; `None` for unreadable ones.
    ///
    /// # Errors
    /// The process is gone.
    pub fn gather(&self, addresses: &[u64], size: usize) -> Result<Gathered> {
        let mut bytes = vec![0; addresses.len() * size];
        let readable = self.careful.gather(addresses, size, &mut bytes)?;
        Ok(Gathered { bytes, size, readable })
    }

    /// Returns the resident parts of a range, in pieces of at most 16 KiB.
    ///
    /// # Errors
    /// The process is gone.
    pub fn pieces(&self, range: &Range<u64>) -> Result<Vec<Range<u64>>> {
        let mut pieces = Vec::new();
        for window in windows(self.memory, range, WINDOW_BYTES) {
            let Some(pages) = pages_of(&window) else { continue };
            let residency = self.residency(&pages)?;
            for run in residency.resident_runs() {
                let (mut at, end) = (run.start.max(window.start), run.end.min(window.end));
                while at < end {
                    let next = (at / PIECE_BYTES * PIECE_BYTES + PIECE_BYTES).min(end);
                    pieces.push(at..next);
                    at = next;
                }
            }
        }
        Ok(pieces)
    }

    /// Returns which of some pages are resident; none where there can be no pages.
    ///
    /// # Errors
    /// The process is gone.
    pub fn residency(&self, pages: &Range<u64>) -> Result<Residency> {
        let len = pages.end - pages.start;
        Ok(readable(self.memory.residency(pages.start, len))?.unwrap_or_default())
    }

    /// Reads a piece returned by [`Reader::pieces`]; empty if it is gone meanwhile.
    ///
    /// # Errors
    /// The process is gone.
    pub fn piece(&self, piece: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (piece.end - piece.start) as usize];
        let read = readable(self.memory.read(piece.start, &mut bytes))?;
        Ok(read.map_or_else(Vec::new, |()| bytes))
    }

    /// Reads a range, with absent pages as zeros.
    ///
    /// # Errors
    /// The process is gone.
    pub fn range(&self, range: &Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        for piece in self.pieces(range)? {
            let at = (piece.start - range.start) as usize;
            let read = self.piece(&piece)?;
            if let Some(part) = bytes.get_mut(at..at + read.len()) {
                part.copy_from_slice(&read);
            }
        }
        Ok(bytes)
    }

    /// Returns the nonzero words on the resident pages of a range, with their addresses.
    ///
    /// # Errors
    /// The process is gone.
    pub fn nonzero_words(&self, range: &Range<u64>) -> Result<Vec<(u64, u64)>> {
        let mut words = Vec::new();
        for piece in self.pieces(range)? {
            let start = piece.start.next_multiple_of(8);
            let bytes = self.piece(&piece)?;
            let aligned = bytes.get((start - piece.start) as usize..).unwrap_or(&[]);
            words.extend((start..).step_by(8).zip(words_of(aligned)).filter(|&(_, word)| word != 0));
        }
        Ok(words)
    }
}

/// The result of [`Reader::gather`].
#[derive(Debug)]
pub struct Gathered {
    bytes: Vec<u8>,
    size: usize,
    readable: Vec<bool>,
}

impl Gathered {
    /// Returns the bytes at the address with this index, if they were readable.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.readable.get(index).filter(|&&readable| readable)?;
        self.bytes.get(index * self.size..(index + 1) * self.size)
    }
}

/// Returns the little-endian word at an offset in a buffer.
#[must_use]
pub fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
}

/// Iterates over the words of a buffer.
pub fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| word_at(word, 0).unwrap_or(0))
}

/// Returns the pages that a range touches; `None` at the end of the address space.
#[must_use]
pub fn pages_of(range: &Range<u64>) -> Option<Range<u64>> {
    let end = range.end.checked_next_multiple_of(page_size())?;
    (range.start < range.end).then_some(range.start / page_size() * page_size()..end)
}

/// Maps unreadable memory to `None`, and returns an error only if the process is gone.
fn readable<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error @ Error::Gone { .. }) => Err(error),
        Err(_) => Ok(None),
    }
}
