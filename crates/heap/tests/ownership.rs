//! The owners of live memory in an inspection: garbage, code and strings, against what the program has planted.
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use unbloat_heap::model::{Ownership, ProcessReport};
use unbloat_heap::{Options, Whose, inspect, inspect_all};
use unbloat_process::Pid;
use unbloat_test_support::{Target, ruby};

fn start(script: &str) -> (Target, bool) {
    let mut target = Target::start_ready(&mut ruby(&[], script));
    let version = target.ask("version");
    let known = unbloat_heap::ruby::versions::VERSIONS.iter().any(|facts| {
        facts.has_references() && version.starts_with(&format!("{}.{}.", facts.major, facts.minor))
    });
    (target, known)
}

fn look(target: &Target, whose: Whose) -> ProcessReport {
    inspect(Pid(target.pid()), &Options { whose, ..Options::default() }).unwrap()
}

fn codes(report: &ProcessReport) -> Vec<&str> {
    report.notes.iter().map(|note| note.code.name()).collect()
}

#[test]
fn garbage_is_told_and_so_is_the_floor_without_it() {
    let (target, known) = start(include_str!("ruby/holds.rb"));
    let report = look(&target, Whose::Yes);
    let ownership = report.ownership.as_ref().unwrap();
    if !known {
        assert_eq!(ownership.waiting, None);
        assert!(codes(&report).contains(&"ruby-references-unknown"), "{:?}", report.notes);
        return;
    }
    let waiting = ownership.waiting.unwrap();
    // 3000 objects, each with a text of its own in malloc memory.
    assert!(waiting.objects > 6000 && waiting.malloc_bytes.unwrap() > 2900 * 64, "{waiting:?}");
    let floor = report.floor_bytes().unwrap();
    assert_eq!(report.floor_without_waiting_bytes(), Some(floor - waiting.bytes()));
    assert_eq!(codes(&report), codes(&look(&target, Whose::No)), "nothing else is missing");
}

#[test]
fn strings_are_told_by_holder_and_code_by_origin() {
    let (target, known) = start(include_str!("ruby/strings.rb"));
    let report = look(&target, Whose::IfCheap);
    let Ownership { code_bytes, code, strings, string_holders, .. } = report.ownership.unwrap();
    let of_origins: u64 = code.iter().map(|(_, bytes)| bytes).sum();
    assert!(code_bytes > 100_000 && of_origins <= code_bytes && of_origins > code_bytes / 2, "{code:?}");
    assert!(strings.objects >= 807 + 2000 + 1500, "{strings:?}");
    assert_eq!(string_holders.is_empty(), !known);
    if known {
        let holder = |name: &str| string_holders.iter().find(|holder| holder.what == *name);
        let shops = holder("Shop @currency").unwrap_or_else(|| panic!("{string_holders:?}"));
        // A word on the stack may hold a few, and is nearer.
        assert!((1990..=2000).contains(&shops.held.objects), "{string_holders:?}");
        let mut sum = unbloat_heap::model::Held::default();
        string_holders.iter().for_each(|holder| sum += holder.held);
        assert_eq!(sum, strings);
    }
}

#[test]
fn of_several_processes_the_largest_is_looked_at_unless_all_are_asked_for() {
    let (large, _) = start(include_str!("ruby/strings.rb"));
    let (small, _) = start("$stdout.sync = true; puts 'ready'; while gets; puts RUBY_VERSION; end");
    let pids = [&small, &large].map(|target| Pid(target.pid()));
    let told = |whose| -> Vec<bool> {
        let inspection = inspect_all(&pids, &Options { whose, ..Options::default() });
        inspection.processes.iter().map(|process| process.ownership.is_some()).collect()
    };
    assert_eq!(told(Whose::No), [false, false]);
    assert_eq!(told(Whose::IfCheap), [false, true]);
    assert_eq!(told(Whose::Yes), [true, true]);
}

#[test]
fn a_stopped_process_goes_on() {
    let (mut target, _) = start(include_str!("ruby/holds.rb"));
    let options = Options { whose: Whose::Yes, stop: true, ..Options::default() };
    let report = inspect(Pid(target.pid()), &options).unwrap();
    assert!(report.ownership.is_some() && report.stopped <= report.elapsed);
    assert!(!target.ask("version").is_empty());
}
