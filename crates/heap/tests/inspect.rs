//! Complete inspections of real processes.
#![allow(clippy::unwrap_used, missing_docs)]

use std::path::PathBuf;
use std::process::Command;
use unbloat_heap::model::{AllocatorKind, Category, NoteCode, ProcessReport};
use unbloat_heap::{Options, inspect};
use unbloat_process::{Pid, page_size};
use unbloat_test_support::{Compiler, Program, Target, c_program, ruby, system_library};

fn inspected(target: &Target) -> ProcessReport {
    inspect(Pid(target.pid()), &Options::default()).unwrap()
}

fn heap_program(command: &mut Command) -> Target {
    Target::start_ready(command.args(["3", "5000", "3000", "3", "2"]))
}

/// Asserts that the categories sum to the kernel's figure, to the byte.
fn assert_complete(report: &ProcessReport) {
    assert_eq!(report.unattributed_bytes(), 0, "rss {} census {:#?}", report.rss_bytes, report.census);
}

#[test]
fn a_program_with_glibc() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let target = heap_program(&mut program.command());
    let report = inspected(&target);
    assert_complete(&report);
    assert_eq!(report.notes, []);
    let allocator = report.allocator.unwrap();
    assert_eq!(allocator.kind, AllocatorKind::Glibc);
    assert_eq!(allocator.arenas.len(), 4);
    assert!(allocator.evidence.contains("/libc"), "{}", allocator.evidence); // libc-2.31.so on Debian 11
    let mapped = (2 << 20) + 12345_u64;
    let found = report.census.bytes(Category::MmappedChunks);
    assert!((mapped..mapped + 3 * page_size()).contains(&found), "{found}");
    assert_eq!(allocator.glibc_settings().unwrap().mmapped_chunks.unwrap().0, 2);
}

/// A mapped chunk that is aligned to more than a page and longer than one residency query.
#[test]
fn a_large_aligned_block_has_a_mapping_of_its_own() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    let before = inspected(&target).census.bytes(Category::MmappedChunks);
    target.ask("aligned");
    let report = inspected(&target);
    assert_complete(&report);
    assert_eq!(report.notes, []);
    let more = report.census.bytes(Category::MmappedChunks) - before;
    assert!((8 << 20..(8 << 20) + 3 * page_size()).contains(&more), "{more}");
    assert_eq!(report.allocator.unwrap().glibc_settings().unwrap().mmapped_chunks.unwrap().0, 3);
}

/// Finds a library of each allocator, as far as this Debian has one: 11 has no mimalloc.
fn other_allocators() -> Vec<(AllocatorKind, PathBuf)> {
    let names: [(AllocatorKind, &[&str]); 3] = [
        (AllocatorKind::Jemalloc, &["libjemalloc.so.2"]),
        (AllocatorKind::Mimalloc, &["libmimalloc.so.3", "libmimalloc.so.2.0"]),
        (AllocatorKind::Tcmalloc, &["libtcmalloc_minimal.so.4"]),
    ];
    let found = names.map(|(kind, names)| (kind, names.iter().find_map(|name| system_library(name))));
    found
        .into_iter()
        .filter_map(|(kind, path)| {
            assert!(path.is_some() || kind == AllocatorKind::Mimalloc, "{kind:?}: run scripts/deps test");
            Some((kind, path?))
        })
        .collect()
}

/// Asserts that the report names the allocator behind the program's 16 MB and more, and its version, which
/// the file's name does not contain.
fn assert_allocator(target: &Target, kind: &AllocatorKind) {
    let report = inspected(target);
    assert_complete(&report);
    let allocator = report.allocator.as_ref().unwrap();
    assert_eq!(allocator.kind, *kind, "{allocator:?}");
    let version = allocator.version.as_deref().unwrap_or_else(|| panic!("{allocator:?}"));
    assert!(version.contains('.') && !allocator.evidence.contains(version), "{allocator:?}");
    let other = report.census.bytes(Category::AllocatorOther);
    let live = report.census.bytes(Category::MallocLive);
    if *kind == AllocatorKind::Jemalloc {
        let told = live + report.bloat_bytes().unwrap();
        assert!(told > 15 << 20 && other == 0, "{told} told apart, {other} not");
        assert!(allocator.arenas.len() > 1 && !allocator.bins.is_empty(), "{allocator:?}");
        return;
    }
    assert!(other > 15 << 20);
    assert!(live < 1 << 20);
    assert_eq!(report.bloat_bytes(), None, "what is not walked is not told");
}

#[test]
fn other_allocators_are_told_however_they_are_loaded() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    for (kind, path) in other_allocators() {
        assert_allocator(&heap_program(program.command().env("LD_PRELOAD", &path)), &kind);
        let linked = Program::build(Compiler::System, c_program("heap"), &[path.to_str().unwrap()]);
        assert_allocator(&heap_program(&mut linked.command()), &kind);

        // The environment alone proves nothing.
        let target = heap_program(program.command().env("UNRELATED", &path));
        assert_eq!(inspected(&target).allocator.unwrap().kind, AllocatorKind::Glibc);
    }
}

/// Linked into the program itself, whose own symbols are stripped.
#[test]
fn a_jemalloc_linked_into_the_program() {
    let libraries = ["-l:libjemalloc.a", "-lm", "-ldl"];
    let program = Program::build(Compiler::System, c_program("heap"), &libraries);
    assert_allocator(&heap_program(&mut program.command()), &AllocatorKind::Jemalloc);

    // Without any library; the other program calls functions that only glibc's malloc has.
    let program = Program::build(Compiler::Static, c_program("idle"), &libraries);
    let report = inspected(&Target::start_ready(&mut program.command()));
    assert_complete(&report);
    let allocator = report.allocator.unwrap();
    assert_eq!((&allocator.kind, report.notes), (&AllocatorKind::Jemalloc, vec![]));
    assert!(allocator.version.is_some_and(|version| version.starts_with("5.")));
}

#[test]
fn statically_linked_programs() {
    for compiler in [Compiler::Static, Compiler::StaticPie] {
        let program = Program::build(compiler, c_program("heap"), &[]);
        let report = inspected(&heap_program(&mut program.command()));
        assert_complete(&report);
        let allocator = report.allocator.unwrap();
        assert_eq!((allocator.kind, allocator.arenas.len()), (AllocatorKind::Glibc, 4), "{compiler:?}");
    }
}

#[test]
fn stopping_the_target_settles_everything() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    target.ask("churn");
    let report = inspect(Pid(target.pid()), &Options { stop: true, ..Options::default() }).unwrap();
    assert!(report.stopped > std::time::Duration::ZERO);
    // Every chunk is reported, unless an arena was never seen at rest, which a note then says.
    let codes: Vec<_> = report.notes.iter().map(|note| note.code).collect();
    if codes != [NoteCode::ArenaLocked] {
        assert_eq!((report.census.bytes(Category::Unsettled), codes), (0, vec![]));
    }
    assert!(target.ask("live").contains(' '), "it goes on");
}

/// Reading must not give the parent copies of the pages it shares with its child.
#[test]
fn proportional_bytes_sum_to_pss_and_pages_stay_shared() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    // The child dies with its parent: it waits for a signal that the kernel sends when its parent ends.
    target.ask("fork");
    let options = Options { proportional: true, ..Options::default() };
    let report = inspect(Pid(target.pid()), &options).unwrap();
    assert_eq!(report.proportional.unwrap().total(), report.pss_bytes.unwrap());
    let (pss, rss) = (report.pss_bytes.unwrap(), report.rss_bytes);
    assert!(pss < rss * 3 / 5, "{pss} of {rss}: reading un-shared pages");
}

/// Changing memory is read again or counted as unsettled; it is never called damaged, and no bytes are lost.
#[test]
fn change_is_not_damage() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    target.ask("churn");
    for _ in 0..20 {
        let report = inspected(&target);
        let codes: Vec<_> = report.notes.iter().map(|note| note.code).collect();
        assert!(!codes.contains(&NoteCode::HeapDamaged), "{:?}", report.notes);
        let away = report.unattributed_bytes().unsigned_abs();
        assert!(away <= report.rss_bytes / 4, "{away} of {}", report.rss_bytes);
    }
}

#[test]
fn damage_is_said_and_bounded() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    target.ask("corrupt");
    let report = inspected(&target);
    assert_complete(&report);
    let codes: Vec<_> = report.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, [NoteCode::HeapDamaged]);
    let unsettled = report.census.bytes(Category::Unsettled);
    assert!((16..64 << 10).contains(&unsettled), "{unsettled}");
    // Changes elsewhere do not hide the damage.
    target.ask("churn");
    let notes = inspected(&target).notes;
    let damaged: Vec<_> = notes.iter().filter(|note| note.code == NoteCode::HeapDamaged).collect();
    assert_eq!(damaged.len(), 1, "{notes:?}");
}

#[test]
fn a_mapped_chunk_that_is_not_found_is_said() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let mut target = heap_program(&mut program.command());
    target.ask("deface");
    let report = inspected(&target);
    assert_complete(&report);
    let codes: Vec<_> = report.notes.iter().map(|note| note.code).collect();
    assert_eq!(codes, [NoteCode::MappedChunksIncomplete]);
    assert!(report.notes[0].text.contains("counts 2 chunks"), "{}", report.notes[0].text);
}

#[test]
fn programs_that_cannot_be_read_say_what_they_are() {
    let program = Program::build(Compiler::Musl, c_program("idle"), &[]);
    let report = inspected(&Target::start_ready(&mut program.command()));
    assert_complete(&report);
    assert_eq!(report.allocator.unwrap().kind, AllocatorKind::Musl);

    assert!(inspect(Pid(i32::MAX), &Options::default()).unwrap_err().to_string().contains("does not exist"));

    let mut ended = Command::new("true").spawn().unwrap();
    let pid = Pid(ended.id() as i32);
    while unbloat_process::Status::of(pid).unwrap().kind != unbloat_process::Kind::Zombie {
        std::thread::yield_now();
    }
    let report = inspect(pid, &Options::default()).unwrap();
    assert_eq!((report.notes[0].code, report.census.total()), (NoteCode::Zombie, 0));
    ended.wait().unwrap();

    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        assert_eq!(inspect(Pid(2), &Options::default()).unwrap().notes[0].code, NoteCode::KernelThread);
    }
}

/// A worker of a forking server under jemalloc is accounted for to the byte, and the memory that it can never
/// free is named.
#[test]
fn a_ruby_that_forked_under_jemalloc() {
    const FORKS: &str = "$stdout.sync = true; \
        4.times { Thread.new { kept = Array.new(3000) { |i| 'x' * (40 + i % 900) }; kept.clear; GC.start; sleep } }; \
        sleep 0.3; child = fork { $stdin.read }; puts 'ready', child; $stdin.read";
    let library = system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let mut target = Target::start_ready(ruby(&[], FORKS).env("LD_PRELOAD", library));
    let child = Pid(target.line().parse().unwrap());
    let parent = inspected(&target);
    assert_complete(&parent);
    assert_eq!(parent.notes, []);
    let report = inspect(child, &Options::default()).unwrap();
    assert_complete(&report);
    assert!(report.bloat_bytes().is_some());
    // 5.2's structures leave no trace to search for.
    let old = report.allocator.as_ref().unwrap().version.as_ref().unwrap().starts_with("5.2.");
    let expected = if old { vec![] } else { vec![NoteCode::CachesForgotten] };
    assert_eq!(report.notes.iter().map(|note| note.code).collect::<Vec<_>>(), expected);
    let settings = *report.allocator.as_ref().unwrap().jemalloc_settings().unwrap();
    assert_eq!((settings.dirty_decay_ms, settings.background_threads), (Some(10_000), 0));
    let owned = report.ruby.unwrap().malloc_owned.unwrap();
    assert!(owned.iter().any(|&(_, bytes)| bytes > 10_000), "{owned:?}");
}
