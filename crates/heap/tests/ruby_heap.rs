//! The Ruby heap of real processes, compared with their own figures (`GC.stat`, `ObjectSpace.count_objects`).
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` select a Ruby other than the machine's (see
//! `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;
use unbloat_heap::model::{Category, Census, Note, RubyHeap, RubyType};
use unbloat_heap::ruby::Ruby;
use unbloat_heap::{Options, inspect};
use unbloat_process::{LiveMemory, Maps, Memory as _, Pid, ResidentOnly, page_size};
use unbloat_test_support::{Target, ruby, system_library};

const TALKATIVE: &str = include_str!("ruby/talkative.rb");

fn numbers(line: &str) -> BTreeMap<String, u64> {
    line.split(' ')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

/// A Ruby that reports its own figures and is read from outside.
struct Talkative {
    target: Target,
    version: String,
}

impl Talkative {
    fn start() -> Self {
        let mut target = Target::start_ready(&mut ruby(&[], TALKATIVE));
        let version = target.ask("version");
        // The first answers create the strings, caches and pages that later ones reuse.
        for question in ["stat", "counts", "stat", "counts"] {
            target.ask(question);
        }
        Talkative { target, version }
    }

    fn numbers(&mut self, question: &str) -> BTreeMap<String, u64> {
        numbers(&self.target.ask(question))
    }

    fn read(&self) -> (RubyHeap, Vec<Note>, Census) {
        let pid = Pid(self.target.pid());
        let maps = Maps::of(pid).unwrap();
        let live = LiveMemory::of(pid).unwrap();
        let memory = ResidentOnly::new(&live);
        let ruby = Ruby::find(&memory, &maps, pid).unwrap().expect("a Ruby");
        let mut claimed = Census::default();
        let reading = ruby
            .read(&memory, &maps, |range, category| claimed.add(category, range.end - range.start))
            .unwrap();
        assert_eq!(claimed, reading.census(), "all of it is resident");
        let census = reading.census();
        let (heap, notes) = reading.finish();
        (heap, notes, census)
    }
}

#[test]
fn pages_and_slots_equal_what_the_garbage_collector_says() {
    let mut talkative = Talkative::start();
    let stat = talkative.numbers("stat");
    let (heap, notes, census) = talkative.read();
    assert_eq!(heap.version, talkative.version);
    assert_eq!(heap.pages(), stat["heap_allocated_pages"], "{heap:?}");
    assert_eq!(heap.slots(), stat["heap_available_slots"], "{heap:?}");
    assert_eq!(heap.eden_pages(), stat["heap_eden_pages"], "{heap:?}");
    let empty = stat.get("heap_empty_pages").copied().unwrap_or(0);
    assert_eq!(heap.unassigned_pages, empty, "{heap:?}");
    // Allows for objects created by the question itself.
    assert!(heap.live_slots().abs_diff(stat["heap_live_slots"]) < 200, "{heap:?} {stat:?}");
    let places = stat.get("heap_sorted_length").unwrap_or(&stat["heap_allocated_pages"]);
    assert_eq!(heap.sorted_length.as_ref(), Some(places), "{heap:?}");
    assert!(heap.slot_use().unwrap() > 0.1 && heap.page_use().unwrap() > 0.1, "{heap:?}");
    assert_eq!(notes, []);
    // 2.7 leaves the last 40 bytes of a page to malloc.
    let rest = if talkative.version.starts_with("2.7") { 40 } else { 0 };
    assert_eq!(census.total(), heap.pages() * (heap.page_bytes - rest));
}

#[test]
fn objects_by_type_equal_what_object_space_says() {
    let mut talkative = Talkative::start();
    let counts = talkative.numbers("counts");
    let (heap, ..) = talkative.read();
    assert_eq!(heap.slots(), counts["TOTAL"]);
    for (ruby_type, found) in &heap.objects {
        let name = format!("T_{}", ruby_type.name().to_uppercase());
        let said = counts.get(&name).copied().unwrap_or(0);
        // The answer is made of strings in an array; method lookups are cached in internal objects.
        assert!(found.abs_diff(said) <= 120, "{name}: {found} found, {said} said ({counts:?})");
    }
    let imemos: u64 = heap.imemos.iter().map(|(_, count)| count).sum();
    let all = heap.objects.iter().find(|(t, _)| *t == RubyType::Imemo).unwrap().1;
    assert_eq!(imemos, all, "every internal object has a known kind");
    assert!(heap.imemos.iter().any(|(kind, count)| *kind == "iseq" && *count > 20), "{:?}", heap.imemos);
}

#[test]
fn fiber_stacks_and_the_transient_heap_are_found() {
    let script = "fibers = Array.new(50) { Fiber.new { Fiber.yield } }.each(&:resume); GC.start; $stdout.sync = true; puts 'ready'; gets; puts fibers.size";
    let target = Target::start_ready(&mut ruby(&[], script));
    let pid = Pid(target.pid());
    let maps = Maps::of(pid).unwrap();
    let live = LiveMemory::of(pid).unwrap();
    let memory = ResidentOnly::new(&live);
    let ruby = Ruby::find(&memory, &maps, pid).unwrap().expect("a Ruby");
    let other = ruby.other_memory(&memory, &maps).unwrap();
    let resident = |wanted: Category| -> u64 {
        let ranges = other.iter().filter(|(_, category)| *category == wanted);
        ranges
            .map(|(range, _)| live.residency(range.start, range.end - range.start).unwrap().resident_bytes())
            .sum()
    };
    // A fiber that has run has touched its machine stack and, at the other end, its VM stack.
    assert!(resident(Category::ThreadStacks) >= 50 * 2 * page_size(), "{other:x?}");
    let version = ruby.version.unwrap();
    let has_transient_heap = (version.major, version.minor) < (3, 3);
    assert_eq!(resident(Category::RubyTransientHeap) > 0, has_transient_heap, "{other:x?}");
}

/// Malloc memory by type matches Ruby's count for the objects that the script keeps: `memsize_of` also counts
/// the slot, counts requested bytes instead of chunks, and the rest of the program has objects of its own.
#[test]
fn malloc_memory_belongs_to_the_types_that_hold_it() {
    malloc_memory_belongs_to_its_types(&mut ruby(&[], include_str!("ruby/owners.rb")));
}

/// The same with jemalloc, whose blocks are reported like glibc's chunks.
#[test]
fn under_jemalloc_malloc_memory_belongs_to_the_types_that_hold_it_as_well() {
    let jemalloc = system_library("libjemalloc.so.2").expect("libjemalloc2: run scripts/deps test");
    malloc_memory_belongs_to_its_types(ruby(&[], include_str!("ruby/owners.rb")).env("LD_PRELOAD", jemalloc));
}

fn malloc_memory_belongs_to_its_types(command: &mut Command) {
    let mut target = Target::start_ready(command);
    let said = numbers(&target.ask("sizes"));
    let report = inspect(Pid(target.pid()), &Options::default()).unwrap();
    assert_eq!(report.unattributed_bytes(), 0, "{:#?}", report.census);
    let heap = report.ruby.unwrap();
    let owned: BTreeMap<_, _> = heap.malloc_owned.unwrap().into_iter().collect();
    use RubyType::{Array, Bignum, Hash, Object, String, Struct};
    for (ruby_type, count) in
        [(String, 20_000), (Array, 5_000), (Hash, 5_000), (Object, 5_000), (Struct, 5_000), (Bignum, 2_000)]
    {
        let (said, owned) = (said[ruby_type.name()], owned[&ruby_type]);
        let allowed = said - count * 160..said + said / 3 + (1 << 20);
        assert!(allowed.contains(&owned), "{} {ruby_type:?}: {owned} of {allowed:?}", heap.version);
    }
    let all: u64 = owned.values().sum();
    let live = report.census.bytes(Category::MallocLive) + report.census.bytes(Category::MmappedChunks);
    assert!(
        all <= live && all > live / 10 * 9,
        "{}: {all} of {live} bytes, {:?}",
        heap.version,
        report.notes
    );
}
