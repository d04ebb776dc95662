//! Live objects by class, against what the process says of itself (`ObjectSpace`).
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use unbloat_heap::model::{ByClass, ClassKind, Held, StringPlace};
use unbloat_heap::objects;
use unbloat_process::Pid;
use unbloat_test_support::{Target, ruby};

const CLASSES: &str = include_str!("ruby/classes.rb");

fn numbers(line: &str) -> BTreeMap<String, u64> {
    line.split(' ')
        .filter_map(|pair| pair.rsplit_once('='))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

struct Classes {
    target: Target,
    version: String,
}

impl Classes {
    fn start() -> Self {
        let mut target = Target::start_ready(&mut ruby(&[], CLASSES));
        let version = target.ask("version");
        Classes { target, version }
    }

    fn look(&self) -> ByClass {
        let look = objects(Pid(self.target.pid()), false).unwrap();
        let untold = look.notes.iter().any(|note| note.code.name().starts_with("ruby-"));
        assert!(!untold, "{:?}", look.notes);
        look.found.expect("a Ruby")
    }
}

fn of_class(found: &ByClass, name: &str) -> Held {
    let row = found.classes.iter().find(|row| row.kind == ClassKind::Class && row.name == *name);
    row.unwrap_or_else(|| panic!("no {name}: {:?}", found.classes)).held
}

/// Counts of a version whose class names are known.
fn names_are_known(version: &str) -> bool {
    !version.starts_with("3.2")
}

#[test]
fn classes_and_counts_equal_what_object_space_says() {
    let mut classes = Classes::start();
    if !names_are_known(&classes.version) {
        return;
    }
    let said = numbers(&classes.target.ask("counts"));
    let found = classes.look();
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    for row in &found.classes {
        let name = match row.kind {
            ClassKind::Class => row.name.raw().to_owned(),
            ClassKind::Anonymous => "anonymous".to_owned(),
            ClassKind::Unknown => panic!("{row:?}"),
            ClassKind::Singleton | ClassKind::Internal | ClassKind::Hidden => continue,
        };
        *counted.entry(name).or_default() += row.held.objects;
    }
    // The answer is made of strings in arrays and a hash.
    for made in ["String", "Array", "Hash"] {
        let (counted, said) = (counted.remove(made).unwrap(), said[made]);
        assert!(
            (said..said + 20 + 4 * found.classes.len() as u64).contains(&counted),
            "{made}: {counted}, {said}"
        );
    }
    let mut said: BTreeMap<String, u64> = said.into_iter().filter(|(_, count)| *count > 0).collect();
    said.retain(|name, _| !["String", "Array", "Hash"].contains(&name.as_str()));
    assert_eq!(counted, said, "{}", classes.version);
    assert_eq!(counted["Planted"], 1234 + 21);
    assert_eq!(counted["Shelf::Inner"], 77);
    assert_eq!(counted["anonymous"], 55);
    let anonymous = found.classes.iter().find(|row| row.kind == ClassKind::Anonymous).unwrap();
    assert_eq!((anonymous.name.raw(), anonymous.classes), ("Planted", 5));
}

#[test]
fn memory_by_class_is_what_memsize_says_within_eight_percent() {
    let mut classes = Classes::start();
    if !names_are_known(&classes.version) {
        return;
    }
    let said = numbers(&classes.target.ask("sizes"));
    let found = classes.look();
    for (name, said) in said {
        let held = of_class(&found, &name);
        let found = held.bytes() as f64;
        assert!(
            (found / said as f64 - 1.0).abs() < 0.08,
            "{name}: {held:?}, {said} said ({})",
            classes.version
        );
    }
    let strings: BTreeMap<_, _> = found.strings.iter().copied().collect();
    assert!(strings[&StringPlace::Own].objects >= 2000 && strings[&StringPlace::Embedded].objects > 100);
    assert_eq!(strings[&StringPlace::Embedded].malloc_bytes, Some(0));
    let mutexes: u64 = found
        .data
        .iter()
        .filter(|row| row.data_type.as_ref().is_some_and(|name| *name == "mutex"))
        .map(|row| row.held.objects)
        .sum();
    assert!(mutexes >= 90, "{:?}", found.data);
}

#[test]
fn a_look_can_stop_the_process_and_lets_it_go_on() {
    let mut classes = Classes::start();
    let look = objects(Pid(classes.target.pid()), true).unwrap();
    assert!(look.stopped > std::time::Duration::ZERO && look.stopped <= look.elapsed);
    assert_eq!(classes.target.ask("version"), classes.version);
}

#[test]
fn a_program_that_is_no_ruby_is_said_to_be_none() {
    let mut target = Target::start(std::process::Command::new("cat").arg("-u"));
    assert_eq!(target.ask("hello"), "hello");
    let look = objects(Pid(target.pid()), false).unwrap();
    assert!(look.found.is_none());
    assert_eq!(look.notes.last().unwrap().code.name(), "no-ruby");
}
