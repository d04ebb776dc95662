//! The layout of the status page: the words with their numbers, and the places of the texts.

use crate::text::cut;

/// Size of the file and of the mapping, in bytes.
pub const PAGE_BYTES: usize = 4096;

/// Number of 64-bit words on a page.
pub const WORDS: usize = PAGE_BYTES / 8;

/// The first word of a finished page: the bytes `UNBLOAT` and the version of this layout.
///
/// The version changes if a word changes its meaning or its place; new words at the end do not change it.
pub const MAGIC: u64 = u64::from_be_bytes(*b"UNBLOAT\x01");

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

/// Returns the bucket of a trim with this duration.
pub fn trim_bucket(ns: u64) -> usize {
    TRIM_BUCKET_BOUNDS_NS.iter().position(|&bound| ns <= bound).unwrap_or(TRIM_BUCKET_BOUNDS_NS.len())
}

/// First word of the gem's last steps.
pub const STEPS_FIRST_WORD: usize = 144;

/// Number of the gem's steps that the page keeps; a power of two.
pub const STEPS_KEPT: usize = 16;

/// Returns the words of a step: its time (`CLOCK_MONOTONIC` nanoseconds) and its code. `number` steps came
/// before it.
pub fn step_words(number: u64) -> (usize, usize) {
    let slot = number as usize & (STEPS_KEPT.saturating_sub(1));
    let first = STEPS_FIRST_WORD.saturating_add(slot.saturating_mul(2));
    (first, first.saturating_add(1))
}

/// The numbers on the page. The discriminant is the index of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// [`MAGIC`]; stored last.
    Magic = 0,
    /// The process ID in the process's own PID namespace.
    Pid = 1,
    /// Start of the process: field 22 of `/proc/PID/stat`, clock ticks since boot. Together with the PID it
    /// identifies a process for good, so that a page that outlived its process is not mistaken for its
    /// successor's.
    StartTicks = 2,
    /// Garbage collections of either kind since the process (or its nearest forked ancestor) started.
    GcCount = 3,
    /// Number of full collections among them.
    GcMajorCount = 4,
    /// Number of times that freed memory was returned to the kernel (`malloc_trim` or the allocator's own
    /// purge).
    Trims = 5,
    /// Bytes by which the resident set shrank over those trims, summed; growth during a trim counts as 0.
    TrimReturnedBytes = 6,
    /// Nanoseconds of wall time spent trimming.
    TrimNs = 7,
    /// The longest single trim in nanoseconds.
    TrimMaxNs = 8,
    /// Minor page faults soon after pages were returned, at most as many as those: memory that was needed
    /// again.
    Refaults = 9,
    /// Reason for the last decision of the policy; see [`crate::Reason`].
    LastReason = 10,
    /// `CLOCK_MONOTONIC` nanoseconds at the end of the last trim; 0 before the first.
    LastTrimAtNs = 11,
    /// Resident bytes before the last trim.
    LastTrimBeforeBytes = 12,
    /// Resident bytes after the last trim.
    LastTrimAfterBytes = 13,
    /// Trims made because the process had fallen idle.
    IdleTrims = 14,
    /// Trims requested by the program through `Unbloat.trim`.
    RequestedTrims = 15,
    /// Number of open `Unbloat.suspend` blocks.
    Suspended = 16,
    /// Number of forks between this process and the one started with the runtime.
    ForkGeneration = 17,
    /// 1 if the runtime observes the garbage collector, 0 if it has switched itself off or is not in a Ruby.
    Hearing = 18,
    /// CPU nanoseconds used by the runtime's own thread.
    ThreadCpuNs = 19,
    /// Moment at which the allocator returns freed pages: 1 at once, 2 after its own delay, 0 if the runtime
    /// does not control that.
    Returning = 20,
    /// Number of steps that the gem has taken; [`step_words`] are the places of the last ones.
    Steps = 21,
    /// First of the [`TRIM_BUCKETS`] buckets of the trim-time histogram.
    TrimHistogram = 32,
}

/// The texts on the page: UTF-8, padded with zero bytes, truncated to their space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// The policy in force, in the spelling of `unbloat run --policy`.
    Policy,
    /// The allocator found in the process: `glibc 2.36`, `jemalloc 5.3.1`, or `unknown (FILE)` with the file
    /// that serves malloc.
    Allocator,
    /// The version of the runtime library.
    Library,
    /// Ruby's version as reported by the process, empty outside Ruby.
    Ruby,
    /// Problems of this process, in words; empty if there are none.
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

    /// Room in bytes.
    pub const fn bytes(self) -> usize {
        self.words().saturating_mul(8)
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

/// Returns the words of a text, in order, for a writer to store from [`Text::first_word`] on.
///
/// A text that is too long is truncated at a character boundary.
pub fn pack(place: Text, text: &str) -> impl Iterator<Item = u64> {
    words_of(cut(text, place.bytes())).take(place.words())
}

/// The words that hold a text, followed by zeros without end.
pub fn words_of(text: &str) -> impl Iterator<Item = u64> {
    let mut bytes = text.bytes();
    core::iter::repeat_with(move || u64::from_ne_bytes([(); 8].map(|()| bytes.next().unwrap_or(0))))
}
