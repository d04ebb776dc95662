//! The objects of one class, strings with equal contents and holders, against planted ones and what the process says of itself.
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use unbloat_heap::model::{ByClass, DuplicateText, Duplicates, HolderSum, OfClass};
use unbloat_heap::{Questions, objects_with};
use unbloat_process::Pid;
use unbloat_test_support::{Target, ruby};

struct Strings {
    target: Target,
    version: String,
}

impl Strings {
    fn start() -> Self {
        let mut target = Target::start_ready(&mut ruby(&[], include_str!("ruby/strings.rb")));
        let version = target.ask("version");
        Strings { target, version }
    }

    fn ask(&self, questions: &Questions) -> ByClass {
        objects_with(Pid(self.target.pid()), questions, false).unwrap().found.expect("a Ruby")
    }

    fn labels(&self, contents: bool) -> OfClass {
        let class = Some("Label".to_owned());
        self.ask(&Questions { class, contents, ..Questions::default() }).of_class.unwrap()
    }

    fn duplicates(&self, holders: bool, contents: bool) -> Duplicates {
        let questions = Questions { duplicates: true, holders, contents, ..Questions::default() };
        self.ask(&questions).duplicates.unwrap()
    }

    /// The versions whose names, and those whose references are known.
    fn has_names(&self) -> bool {
        !self.version.starts_with("3.2")
    }

    fn has_references(&self) -> bool {
        unbloat_heap::ruby::versions::VERSIONS.iter().any(|facts| {
            facts.has_references() && self.version.starts_with(&format!("{}.{}.", facts.major, facts.minor))
        })
    }
}

fn text_of(found: &Duplicates, length: u64) -> &DuplicateText {
    let row = found.largest.iter().find(|row| row.length == length);
    row.unwrap_or_else(|| panic!("no text of {length} bytes: {:#?}", found.largest))
}

const CURRENCY: u64 = 2 * 58;
const NAME: u64 = 3 * 58;
const GARBAGE: u64 = 4 * 58;

#[test]
fn a_class_is_described_by_sizes_and_by_its_largest_objects() {
    let strings = Strings::start();
    if !strings.has_names() {
        return;
    }
    let found = strings.labels(false);
    assert_eq!(found.held.objects, 807);
    let mut sum = unbloat_heap::model::Held::default();
    found.sizes.iter().for_each(|size| sum += size.held);
    assert_eq!(sum, found.held);
    for size in &found.sizes {
        let mean = size.held.bytes() / size.held.objects;
        assert!(mean > size.up_to_bytes / 2 && mean <= size.up_to_bytes, "{size:?}");
    }
    let of = |bytes: std::ops::Range<u64>| -> u64 {
        let inside = found.sizes.iter().filter(|size| bytes.contains(&size.up_to_bytes));
        inside.map(|size| size.held.objects).sum()
    };
    assert_eq!((of(0..512), of(512..65_536), of(65_536..1 << 20)), (500, 300, 7), "{:?}", found.sizes);
    assert_eq!(found.largest.len(), 20);
    for large in &found.largest[..7] {
        assert_eq!((large.length, large.encoding.unwrap().name()), (Some(100_000), "UTF-8"), "{large:?}");
    }
    assert!(found.largest[7].length.unwrap() < 1500);
    assert!(found.largest.iter().all(|large| large.contents.is_none()), "contents were not asked for");
}

#[test]
fn contents_are_shown_only_if_they_are_asked_for_and_not_in_full() {
    let strings = Strings::start();
    if !strings.has_names() {
        return;
    }
    let shown = strings.labels(true);
    let contents: Vec<&str> =
        shown.largest[..7].iter().map(|large| large.contents.as_ref().unwrap().raw()).collect();
    assert!(contents.iter().all(|text| text.starts_with("large ") && text.len() == 120), "{contents:?}");
    let found = strings.duplicates(false, true);
    let currency = text_of(&found, CURRENCY).contents.as_ref().unwrap();
    assert!(currency.raw().starts_with("the currency of a shop"), "{currency:?}");
    let redacted = strings.duplicates(false, false);
    assert!(redacted.largest.iter().all(|row| row.contents.is_none()));
}

#[test]
fn equal_strings_are_counted_as_the_process_itself_counts_them() {
    let mut strings = Strings::start();
    let found = strings.duplicates(false, false);
    let said: u64 = strings.target.ask("copies").parse().unwrap();
    assert!(said >= 1999 + 1499 + 999 + 3, "{said}");
    let rows = |length: u64| found.largest.iter().filter(move |row| row.length == length);
    let copies = |length| rows(length).map(|row| row.copies.objects).collect::<Vec<_>>();
    let planted = (copies(CURRENCY), copies(NAME), copies(GARBAGE));
    assert_eq!(planted, (vec![1999], vec![1499], vec![999]), "{:#?}", found.largest);
    let mut encodings: Vec<_> = rows(40_000).map(|row| (row.encoding.name(), row.copies.objects)).collect();
    encodings.sort_unstable();
    // Two of each, and the constant from which they were made.
    assert_eq!(encodings, [("ASCII-8BIT", 1), ("EUC-JP", 1), ("UTF-8", 2)]);
    for row in &found.largest {
        if let Some(malloc) = row.copies.malloc_bytes.filter(|_| [CURRENCY, NAME].contains(&row.length)) {
            assert!(malloc >= 200 * row.copies.objects, "{row:?}");
        }
    }
    // Short strings are many; long ones the process has counted as well.
    assert!(found.copies.objects >= said, "{} of {said}", found.copies.objects);
    assert_eq!((found.one_in, found.holders.is_none()), (1, true));
    assert!(found.compared.objects > found.copies.objects + found.contents);
}

fn holder<'a>(holders: &'a [HolderSum], name: &str) -> &'a HolderSum {
    holders.iter().find(|holder| holder.what == *name).unwrap_or_else(|| panic!("no {name}: {holders:#?}"))
}

#[test]
fn copies_are_told_by_their_holder() {
    let strings = Strings::start();
    if !strings.has_references() || !strings.has_names() {
        return;
    }
    let found = strings.duplicates(true, false);
    let by_holder = found.holders.as_ref().unwrap();
    // A word on the stack may hold a few, and is nearer.
    let nearly = |found: u64, all: u64| found <= all && found + 10 >= all;
    assert!(nearly(holder(by_holder, "Shop @currency").held.objects, 1999), "{by_holder:?}");
    assert!(nearly(holder(by_holder, "module Catalog ::TABLE").held.objects, 1499), "{by_holder:?}");
    assert!(holder(by_holder, "nothing: waits for a collection").held.objects >= 990, "{by_holder:?}");
    let currency = found.largest.iter().find(|row| row.length == CURRENCY).unwrap();
    assert!(nearly(holder(&currency.holders, "Shop @currency").held.objects, 2000), "{currency:?}");
    let mut sum = unbloat_heap::model::Held::default();
    by_holder.iter().for_each(|holder| sum += holder.held);
    assert_eq!(sum, found.copies, "each copy has one holder");
}

#[test]
fn the_holders_of_a_class_sum_to_its_objects() {
    let strings = Strings::start();
    if !strings.has_references() || !strings.has_names() {
        return;
    }
    let found = strings.ask(&Questions { holders: true, ..Questions::default() });
    let holders = found.holders.as_ref().unwrap();
    assert_eq!(holders.len(), found.classes.len());
    for (row, holders) in found.classes.iter().zip(holders) {
        let mut sum = unbloat_heap::model::Held::default();
        holders.iter().for_each(|holder| sum += holder.held);
        assert_eq!((sum.objects, sum.slot_bytes), (row.held.objects, row.held.slot_bytes), "{row:?}");
    }
    let labels = found.classes.iter().position(|row| row.name == *"Label").unwrap();
    // A word on the stack may hold a few, and is nearer.
    let held = holder(&holders[labels], "class Object ::LABELS").held.objects;
    assert!((797..=807).contains(&held), "{:?}", holders[labels]);
}

#[test]
fn a_class_that_does_not_exist_has_no_objects() {
    let strings = Strings::start();
    let class = Some("Nobody".to_owned());
    let found = strings.ask(&Questions { class, ..Questions::default() }).of_class.unwrap();
    assert_eq!((found.held.objects, found.sizes.len(), found.largest.len()), (0, 0, 0));
    assert_eq!(found.name, *"Nobody");
}
