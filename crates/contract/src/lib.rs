//! The contract between `libunbloat.so` and the rest of Unbloat. No I/O, no allocation, no dependencies.
//!
//! | module | concept |
//! |---|---|
//! | [`page`] | the layout of the status page |
//! | [`place`] | the file of a status page: its directory and its name |
//! | [`snapshot`] | parses a status page |
//! | [`text`] | cutting and splitting texts without a path to a panic |
//! | [`reason`] | reasons why the runtime did nothing |
//! | [`step`] | steps that the gem takes to keep a worker's memory small |
//! | [`library`] | the names of the two libraries loaded into servers |
//! | [`vocabulary`] | the parts of a policy, the words of their values, and the environment variables that carry them |
//!
//! **The status page.** Every process that has the runtime loaded keeps one small file of [`PAGE_BYTES`]
//! bytes. The file is an array of 64-bit words in the machine's byte order; [`Word`] and [`Text`] name them.
//! The writer copies its words there from time to time, so two words may be from slightly different moments.
//! [`Word::Magic`] is written last: a page without it is still being created. The writer is `crates/runtime`;
//! the reader that finds a process's page is `unbloat_process::status_page`.
#![no_std]
// It is linked into servers: see crates/runtime.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used
    )
)]

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    target_endian = "little",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "Unbloat is for Linux on x86-64 and aarch64 with 64-bit pointers. To bring it to another architecture, start with \
     crates/process/src/remote/arch."
);

pub mod library;
pub mod page;
pub mod place;
pub mod reason;
pub mod snapshot;
pub mod step;
pub mod text;
pub mod vocabulary;

pub use library::Library;
pub use page::{
    MAGIC, PAGE_BYTES, STEPS_FIRST_WORD, STEPS_KEPT, TRIM_BUCKET_BOUNDS_NS, TRIM_BUCKETS, Text, WORDS, Word,
    pack, step_words, trim_bucket, words_of,
};
pub use place::{FileName, RUNTIME_SUBDIRECTORY, SHARED_MEMORY_PREFIX};
pub use reason::Reason;
pub use snapshot::{Malformed, Snapshot};
pub use step::{Step, TakenStep};
pub use vocabulary::{Compact, Part, Trim, Variable, switch};

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
        used[..=Word::Steps as usize].fill(true);
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
        for place in (0..STEPS_KEPT as u64).flat_map(|number| <[usize; 2]>::from(step_words(number))) {
            assert!(!used[place], "a step lies on something else");
            used[place] = true;
        }
    }

    #[test]
    fn the_last_steps_come_back_in_their_order() {
        let taken = 19;
        let bytes = page(|words| {
            words[Word::Steps as usize] = taken;
            for number in 0..taken {
                let (at, step) = step_words(number);
                (words[at], words[step]) = (1000 + number, Step::ALL[number as usize % 4] as u64);
            }
            // A code of a later version.
            words[step_words(18).1] = 77;
        });
        let steps: Vec<_> = Snapshot::parse(&bytes).unwrap().steps().collect();
        assert_eq!(steps.iter().map(|step| step.number).collect::<Vec<_>>(), (3..18).collect::<Vec<_>>());
        assert_eq!(steps[0], TakenStep { number: 3, at_ns: 1003, step: Step::Replace });
        assert_eq!(steps[14], TakenStep { number: 17, at_ns: 1017, step: Step::Collect });
        assert_eq!(Snapshot::parse(&page(|_| ())).unwrap().steps().count(), 0);
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
        assert_eq!(snapshot.steps().count(), 0);
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
