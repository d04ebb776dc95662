//! Parses a status page.

use crate::page::{MAGIC, PAGE_BYTES, STEPS_KEPT, TRIM_BUCKETS, Text, WORDS, Word, step_words};
use crate::reason::Reason;
use crate::step::{Step, TakenStep};
use core::fmt;

/// A page's contents at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    words: [u64; WORDS],
}

/// The reason why some bytes are not a status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer than [`PAGE_BYTES`] bytes.
    Short {
        /// Number of bytes.
        bytes: usize,
    },
    /// The first word is not [`MAGIC`] of any version: not a page, or one still being created.
    NotAPage,
    /// A page of another version of the layout.
    OtherVersion {
        /// The version found.
        version: u8,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short { bytes } => write!(f, "it has {bytes} bytes instead of {PAGE_BYTES}"),
            Malformed::NotAPage => f.write_str("it does not begin like a status page"),
            Malformed::OtherVersion { version } => write!(
                f,
                "its layout has version {version} and this unbloat knows version {}: use the unbloat that started the process",
                MAGIC as u8
            ),
        }
    }
}

impl core::error::Error for Malformed {}

impl Snapshot {
    /// Parses a page.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a finished page of this version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let page = bytes.get(..PAGE_BYTES).ok_or(Malformed::Short { bytes: bytes.len() })?;
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(page.chunks_exact(8)) {
            let mut raw = [0; 8];
            raw.copy_from_slice(chunk);
            *word = u64::from_ne_bytes(raw);
        }
        let snapshot = Self { words };
        match snapshot.word(Word::Magic) {
            MAGIC => Ok(snapshot),
            other if other >> 8 == MAGIC >> 8 => Err(Malformed::OtherVersion { version: other as u8 }),
            _ => Err(Malformed::NotAPage),
        }
    }

    /// Returns one number.
    pub fn word(&self, place: Word) -> u64 {
        self.words.get(place as usize).copied().unwrap_or_default()
    }

    /// Copies one text into `buffer`; it ends at bytes that are not UTF-8.
    pub fn text<'a>(&self, place: Text, buffer: &'a mut [u8; 256]) -> &'a str {
        let words = self.words.iter().skip(place.first_word()).take(place.words());
        for (to, word) in buffer.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let bytes = buffer.get(..place.bytes()).unwrap_or_default();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let text = bytes.get(..end).unwrap_or_default();
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => {
                core::str::from_utf8(text.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
        }
    }

    /// Returns the reason for the policy's last decision.
    pub fn last_reason(&self) -> Reason {
        Reason::from_code(self.word(Word::LastReason))
    }

    /// Returns when freed pages are returned, if the runtime controls that: `at_once`, or `later`, after the
    /// allocator's own delay.
    pub fn returning(&self) -> Option<&'static str> {
        match self.word(Word::Returning) {
            1 => Some("at_once"),
            2 => Some("later"),
            _ => None,
        }
    }

    /// Returns the gem's last steps, the oldest first; those with a code that is unknown here are left out.
    pub fn steps(&self) -> impl Iterator<Item = TakenStep> {
        let taken = self.word(Word::Steps);
        let at = |index: usize| self.words.get(index).copied().unwrap_or_default();
        (taken.saturating_sub(STEPS_KEPT as u64)..taken).filter_map(move |number| {
            let (time, code) = step_words(number);
            Some(TakenStep { number, at_ns: at(time), step: Step::from_code(at(code))? })
        })
    }

    /// Returns the number of trims in each bucket of [`crate::TRIM_BUCKET_BOUNDS_NS`] and beyond.
    pub fn trim_histogram(&self) -> [u64; TRIM_BUCKETS] {
        let mut buckets = [0; TRIM_BUCKETS];
        let words = self.words.iter().skip(Word::TrimHistogram as usize);
        for (bucket, word) in buckets.iter_mut().zip(words) {
            *bucket = *word;
        }
        buckets
    }
}
