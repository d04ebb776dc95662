//! The status page: what `libunbloat.so` tells the outside about itself, and how `unbloat` reads it.
//!
//! Every process that has the runtime loaded keeps one small file of [`PAGE_BYTES`] bytes and maps it shared. The
//! file is an array of 64-bit words in the machine's byte order; [`Word`] names them. Each word is written with
//! one atomic store, so a reader (that needs no more than `read(2)`) sees every word whole; two words may be from
//! moments a little apart. [`Word::Magic`] is written last: a page without it is still being made.
//!
//! This crate is the contract and nothing else: no I/O, no allocation, no dependencies. The writer is
//! `crates/runtime`, the reader that finds a process's page is `unbloat_process::status_page`.
//!
//! **Where it lies.** In `$XDG_RUNTIME_DIR/unbloat/` when that variable is set, otherwise in `/dev/shm/unbloat-UID/`
//! (UID: the effective user id), under the name that [`FileName`] prints. The directory is 0700, the file 0600.
#![no_std]

mod library;
mod reason;

pub use library::Library;
pub use reason::Reason;

use core::fmt;

/// Size of the file and of the mapping, in bytes.
pub const PAGE_BYTES: usize = 4096;

/// Number of 64-bit words on a page.
pub const WORDS: usize = PAGE_BYTES / 8;

/// The first word of a finished page: the bytes `UNBLOAT` and the version of this layout.
///
/// The version changes when a word changes its meaning or its place; new words at the end do not change it.
pub const MAGIC: u64 = u64::from_be_bytes(*b"UNBLOAT\x01");

/// Name of the directory under `$XDG_RUNTIME_DIR`.
pub const RUNTIME_SUBDIRECTORY: &str = "unbloat";

/// Directory used without `$XDG_RUNTIME_DIR`, to be followed by the effective user id.
pub const SHARED_MEMORY_PREFIX: &str = "/dev/shm/unbloat-";

/// Upper bounds, in nanoseconds, of the buckets of the trim-time histogram; one more bucket takes the rest.
pub const TRIM_BUCKET_BOUNDS_NS: [u64; 11] = [
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    500_000_000,
];

/// Number of buckets of the trim-time histogram.
pub const TRIM_BUCKETS: usize = TRIM_BUCKET_BOUNDS_NS.len() + 1;

/// The bucket that a trim of this many nanoseconds belongs to.
pub fn trim_bucket(ns: u64) -> usize {
    TRIM_BUCKET_BOUNDS_NS.iter().position(|&bound| ns <= bound).unwrap_or(TRIM_BUCKET_BOUNDS_NS.len())
}

/// The places of the numbers on the page. The discriminant is the index of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// [`MAGIC`]; stored last.
    Magic = 0,
    /// The process id as the process itself sees it (in its own pid namespace).
    Pid = 1,
    /// When the process began: field 22 of `/proc/PID/stat`, clock ticks since boot. With the pid it names a
    /// process for good, so that a page that outlived its process is not taken for its successor's.
    StartTicks = 2,
    /// Garbage collections of either kind since the process (or its nearest forked ancestor) began.
    GcCount = 3,
    /// Full collections among them.
    GcMajorCount = 4,
    /// How often freed memory was given back to the kernel (`malloc_trim` or the allocator's own purge).
    Trims = 5,
    /// Bytes by which the resident set shrank over those trims, summed; growth during a trim counts as 0.
    TrimReturnedBytes = 6,
    /// Nanoseconds of wall time spent trimming.
    TrimNs = 7,
    /// The longest single trim in nanoseconds.
    TrimMaxNs = 8,
    /// Minor page faults soon after pages were given back, at most as many as those: memory that was needed again.
    Refaults = 9,
    /// Why nothing was done the last time the policy decided; see [`Reason`].
    LastReason = 10,
    /// `CLOCK_MONOTONIC` nanoseconds at the end of the last trim; 0 before the first.
    LastTrimAtNs = 11,
    /// Resident bytes before the last trim.
    LastTrimBeforeBytes = 12,
    /// Resident bytes after the last trim.
    LastTrimAfterBytes = 13,
    /// Trims made because the process had fallen idle.
    IdleTrims = 14,
    /// Trims asked for by the program with `Unbloat.trim`.
    RequestedTrims = 15,
    /// How many `Unbloat.suspend` blocks are open now.
    Suspended = 16,
    /// How many forks lie between this process and the one that was started with the runtime.
    ForkGeneration = 17,
    /// 1 when the runtime hears the garbage collector, 0 when it has switched itself off or is not in a Ruby.
    Hearing = 18,
    /// Processor nanoseconds used by the runtime's own thread.
    ThreadCpuNs = 19,
    /// When the allocator gives back what is freed: 1 at once, 2 after its own delay, 0 where the runtime does not decide that.
    Returning = 20,
    /// First of the [`TRIM_BUCKETS`] buckets of the trim-time histogram.
    TrimHistogram = 32,
}

/// The places of the texts on the page: UTF-8, padded with zero bytes, cut at the end of their room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// The policy in force, spelled as `unbloat run --policy` takes it.
    Policy,
    /// The allocator found in the process: `glibc 2.36`, `jemalloc 5.3.1`, or `unknown (FILE)` with the file
    /// that serves malloc.
    Allocator,
    /// The version of the runtime library.
    Library,
    /// Ruby's version as the process states it, empty outside Ruby.
    Ruby,
    /// What does not work here and why; empty when all does.
    Notice,
}

impl Text {
    /// Index of the first word.
    pub const fn first_word(self) -> usize {
        match self {
            Text::Policy => 64,
            Text::Allocator => 96,
            Text::Library => 104,
            Text::Ruby => 108,
            Text::Notice => 112,
        }
    }

    /// Number of words.
    pub const fn words(self) -> usize {
        match self {
            Text::Policy | Text::Notice => 32,
            Text::Allocator => 8,
            Text::Library | Text::Ruby => 4,
        }
    }
}

/// The words that hold a text, in order, for a writer to store from [`Text::first_word`] on.
///
/// A text longer than its room is cut at a character's boundary.
pub fn pack(place: Text, text: &str) -> impl Iterator<Item = u64> {
    let room = place.words() * 8;
    let mut end = text.len().min(room);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = text.as_bytes().get(..end).unwrap_or_default();
    (0..place.words()).map(move |word| {
        let mut packed = [0; 8];
        for (to, from) in packed.iter_mut().zip(bytes.iter().skip(word * 8)) {
            *to = *from;
        }
        u64::from_ne_bytes(packed)
    })
}

/// A page's file name: `NAMESPACE-PID.status`.
///
/// NAMESPACE is the inode of `/proc/self/ns/pid`: containers may share `/dev/shm` and still count pids apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileName {
    /// Inode number of the pid namespace.
    pub namespace: u64,
    /// The process id in that namespace.
    pub pid: u32,
}

impl FileName {
    /// Reads a name back; anything else in the directory gives `None`.
    pub fn parse(name: &str) -> Option<Self> {
        let (namespace, pid) = name.strip_suffix(".status")?.split_once('-')?;
        Some(Self { namespace: namespace.parse().ok()?, pid: pid.parse().ok()? })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.status", self.namespace, self.pid)
    }
}

/// A page's contents at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot {
    words: [u64; WORDS],
}

/// Why some bytes are not a status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// Fewer than [`PAGE_BYTES`] bytes.
    Short {
        /// How many there were.
        bytes: usize,
    },
    /// The first word is not [`MAGIC`] of any version: not a page, or one that is still being made.
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
            Malformed::NotAPage => f.write_str("it does not begin as a status page does"),
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
    /// Takes a page's bytes apart.
    ///
    /// # Errors
    /// [`Malformed`] when the bytes are not a finished page of this version.
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

    /// One number.
    pub fn word(&self, place: Word) -> u64 {
        self.words.get(place as usize).copied().unwrap_or_default()
    }

    /// One text, copied into `room`; bytes that are not UTF-8 end it.
    pub fn text<'a>(&self, place: Text, room: &'a mut [u8; 256]) -> &'a str {
        let words = self.words.iter().skip(place.first_word()).take(place.words());
        for (to, word) in room.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        let bytes = room.get(..place.words() * 8).unwrap_or_default();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        let text = bytes.get(..end).unwrap_or_default();
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => {
                core::str::from_utf8(text.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or_default()
            }
        }
    }

    /// Why nothing was done the last time the policy decided.
    pub fn last_reason(&self) -> Reason {
        Reason::from_code(self.word(Word::LastReason))
    }

    /// When freed pages go back, where the runtime decides that: `at_once`, or `later`, after the allocator's own delay.
    pub fn returning(&self) -> Option<&'static str> {
        match self.word(Word::Returning) {
            1 => Some("at_once"),
            2 => Some("later"),
            _ => None,
        }
    }

    /// How many trims fell into each bucket of [`TRIM_BUCKET_BOUNDS_NS`] and beyond.
    pub fn trim_histogram(&self) -> [u64; TRIM_BUCKETS] {
        let mut buckets = [0; TRIM_BUCKETS];
        let words = self.words.iter().skip(Word::TrimHistogram as usize);
        for (bucket, word) in buckets.iter_mut().zip(words) {
            *bucket = *word;
        }
        buckets
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    extern crate std;
    use super::*;
    use std::string::ToString as _;
    use std::vec::Vec;

    fn page(change: impl Fn(&mut [u64; WORDS])) -> Vec<u8> {
        let mut words = [0; WORDS];
        words[0] = MAGIC;
        change(&mut words);
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn numbers_and_texts_come_back() {
        let bytes = page(|words| {
            words[Word::Trims as usize] = 7;
            words[Word::LastReason as usize] = Reason::NoGrowth as u64;
            for (to, from) in
                words[Text::Policy.first_word()..].iter_mut().zip(pack(Text::Policy, "trim=adaptive"))
            {
                *to = from;
            }
        });
        let snapshot = Snapshot::parse(&bytes).unwrap();
        assert_eq!(snapshot.word(Word::Trims), 7);
        assert_eq!(snapshot.text(Text::Policy, &mut [0; 256]), "trim=adaptive");
        assert_eq!(snapshot.text(Text::Ruby, &mut [0; 256]), "");
        assert_eq!(snapshot.last_reason(), Reason::NoGrowth);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "x".repeat(63) + "é";
        let packed: Vec<u8> = pack(Text::Allocator, &text).flat_map(u64::to_ne_bytes).collect();
        assert_eq!(&packed[..63], "x".repeat(63).as_bytes());
        assert_eq!(packed[63], 0);
    }

    #[test]
    fn places_do_not_overlap() {
        let texts = [Text::Policy, Text::Allocator, Text::Library, Text::Ruby, Text::Notice];
        let mut used = [false; WORDS];
        let histogram = Word::TrimHistogram as usize;
        used[..=Word::Returning as usize].fill(true);
        assert!(
            used[histogram..histogram + TRIM_BUCKETS].iter().all(|used| !used),
            "the histogram lies on a number"
        );
        used[histogram..histogram + TRIM_BUCKETS].fill(true);
        for text in texts {
            for word in &mut used[text.first_word()..text.first_word() + text.words()] {
                assert!(!*word, "{text:?} lies on something else");
                *word = true;
            }
        }
    }

    #[test]
    fn what_is_not_a_page_is_refused() {
        assert_eq!(Snapshot::parse(b"short").unwrap_err(), Malformed::Short { bytes: 5 });
        assert_eq!(Snapshot::parse(&[0; PAGE_BYTES]).unwrap_err(), Malformed::NotAPage);
        let other = page(|words| words[0] = MAGIC + 1);
        assert_eq!(Snapshot::parse(&other).unwrap_err(), Malformed::OtherVersion { version: 2 });
    }

    #[test]
    fn any_bytes_can_be_read_without_harm() {
        let bytes = page(|words| words[1..].fill(u64::MAX));
        let snapshot = Snapshot::parse(&bytes).unwrap();
        assert_eq!(snapshot.text(Text::Policy, &mut [0; 256]), "");
        assert_eq!(snapshot.last_reason(), Reason::Unknown);
    }

    #[test]
    fn file_names_round_trip_and_strangers_are_ignored() {
        let name = FileName { namespace: 4_026_531_836, pid: 77 };
        assert_eq!(name.to_string(), "4026531836-77.status");
        assert_eq!(FileName::parse("4026531836-77.status"), Some(name));
        assert_eq!(FileName::parse("77.status"), None);
        assert_eq!(FileName::parse("4026531836-77.status.tmp"), None);
    }

    #[test]
    fn trims_fall_into_the_bucket_that_bounds_them() {
        assert_eq!(trim_bucket(0), 0);
        assert_eq!(trim_bucket(100_000), 0);
        assert_eq!(trim_bucket(100_001), 1);
        assert_eq!(trim_bucket(20_000_000), 7);
        assert_eq!(trim_bucket(u64::MAX), TRIM_BUCKETS - 1);
    }
}
