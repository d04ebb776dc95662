//! The Ruby heap of real processes, against what they say of themselves (`GC.stat`, `ObjectSpace.count_objects`).
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use unbloat_heap::ruby::{Ruby, slots};
use unbloat_process::{LiveMemory, Maps, Pid, ResidentOnly};
use unbloat_test_support::{Target, ruby};

const TALKATIVE: &str = include_str!("ruby/talkative.rb");

fn numbers(line: &str) -> BTreeMap<String, f64> {
    line.split(' ')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

fn find(pid: Pid) -> (Ruby, slots::Tally) {
    let maps = Maps::of(pid).unwrap();
    let live = LiveMemory::of(pid).unwrap();
    let memory = ResidentOnly::new(&live);
    let ruby = Ruby::find(&memory, &maps, pid).unwrap().expect("a Ruby");
    let tally = slots::walk(&memory, ruby.pages.as_ref().expect("a heap"), |_, _| {}, |_| {}).unwrap();
    (ruby, tally)
}

#[test]
fn pages_and_slots_equal_what_the_garbage_collector_says() {
    let mut target = Target::start_ready(&mut ruby(&[], TALKATIVE));
    let version = target.ask("version");
    let stat = numbers(&target.ask("stat"));
    let (ruby, tally) = find(Pid(target.pid()));
    assert_eq!(ruby.version.unwrap().to_string(), version);
    let pages: u64 = tally.unassigned_pages + tally.pools.values().map(|pool| pool.pages).sum::<u64>();
    let slots: u64 = tally.pools.values().map(|pool| pool.slots).sum();
    let eden: u64 = tally.pools.values().map(|pool| pool.pages - pool.tomb_pages).sum();
    assert_eq!(pages as f64, stat["heap_allocated_pages"], "{version}: {tally:?}");
    assert_eq!(slots as f64, stat["heap_available_slots"]);
    assert_eq!(eden as f64, stat["heap_eden_pages"]);
    assert_eq!(tally.vanished_pages, 0);
}
