//! The verdict on synthetic reports: the findings, their order and their lines.
#![allow(clippy::unwrap_used)]

use super::{of, of_tree};
use crate::model::{
    Action, Allocator, AllocatorKind, Arena, Category, Census, Compaction, Finding, FindingCode, Held,
    HolderSum, Inspection, JemallocRequest, JemallocSettings, Origin, Ownership, ProcessReport, RubyHeap,
    RubyType, Runtime, Server, Settings, Sharing, SizePool,
};
use proptest::prelude::*;
use std::time::Duration;
use unbloat_process::Pid;

const MIB: u64 = 1 << 20;

fn report(pid: i32, bytes: &[(Category, u64)], arenas: usize) -> ProcessReport {
    let mut census = Census::of_walked_heap();
    bytes.iter().for_each(|&(category, bytes)| census.add(category, bytes));
    let stranded = census.bytes(Category::MallocStranded) / arenas.max(1) as u64;
    let arena = |i: usize| Arena { main: i == 0, stranded_bytes: stranded, ..Arena::default() };
    ProcessReport {
        pid: Pid(pid),
        parent: None,
        command: "puma: cluster worker 0: 1 [app]".into(),
        rss_bytes: census.total(),
        pss_bytes: Some(census.total()),
        uss_bytes: Some(census.total()),
        swap_bytes: Some(0),
        threads: 7,
        proportional: Some(census.clone()),
        census,
        sharing: None,
        allocator: Some(Allocator {
            kind: AllocatorKind::Glibc,
            version: Some("2.36".into()),
            evidence: String::new(),
            settings: None,
            arenas: (0..arenas).map(arena).collect(),
            bins: Vec::new(),
            asked: JemallocRequest::default(),
        }),
        ruby: None,
        runtime: None,
        ownership: None,
        map: None,
        verdict: vec![],
        notes: vec![],
        stopped: Duration::ZERO,
        elapsed: Duration::ZERO,
    }
}

fn codes(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.name()).collect()
}

#[test]
fn the_larger_gain_comes_first() {
    let live = (Category::MallocLive, 100 * MIB);
    let (small, large) = (20 * MIB, 60 * MIB);
    let a = of(&report(9, &[live, (Category::MallocTrimmable, large), (Category::MallocStranded, small)], 8));
    assert_eq!(codes(&a), ["bloat", "trimmable", "stranded"]);
    assert_eq!(a[1].actions, [Action::Trim(Pid(9))]);
    assert_eq!(a[1].gain_bytes, Some(large));
    let b = of(&report(9, &[live, (Category::MallocTrimmable, small), (Category::MallocStranded, large)], 8));
    assert_eq!(codes(&b), ["bloat", "stranded", "trimmable"]);
}

#[test]
fn stranded_memory_in_few_arenas_calls_for_another_allocator() {
    let bytes = [(Category::MallocLive, 100 * MIB), (Category::MallocStranded, 50 * MIB)];
    let actions = |arenas| of(&report(1, &bytes, arenas))[1].actions.clone();
    let server = Server::Puma;
    let run = Action::Run { server, name_policy: false };
    assert_eq!(actions(8), [run.clone(), Action::LimitArenas { arenas: 2, server }]);
    assert_eq!(actions(2), [run, Action::PreloadJemalloc]);
}

#[test]
fn a_process_that_runs_under_unbloat_is_told_what_that_did_and_not_to_use_it() {
    let bytes = [(Category::MallocLive, 100 * MIB), (Category::MallocStranded, 50 * MIB)];
    let mut report = report(4, &bytes, 8);
    let runtime = |policy: &str, trims| Runtime {
        policy: policy.into(),
        trims,
        returned_bytes: trims * 3 * MIB,
        problem: None,
    };
    report.runtime = Some(runtime("trim=adaptive", 12));
    let findings = of(&report);
    assert_eq!(codes(&findings), ["bloat", "runtime", "stranded"]);
    assert!(findings[1].text.contains("trim=adaptive") && findings[1].text.contains("36.0 MiB in 12 trims"));
    assert_eq!(findings[2].actions, [Action::Run { server: Server::Puma, name_policy: true }]);

    report.runtime = Some(Runtime {
        problem: Some("libunbloat-jemalloc.so is not loaded".into()),
        ..runtime("allocator=jemalloc,trim=adaptive", 0)
    });
    let findings = of(&report);
    assert!(findings[1].text.contains("not had to return anything yet"), "{}", findings[1].text);
    assert!(findings[1].text.contains("is not loaded"), "{}", findings[1].text);
    let actions: Vec<_> = findings.iter().flat_map(|finding| &finding.actions).collect();
    assert_eq!(actions, [&Action::Status(Pid(4)), &Action::Status(Pid(4))]);
}

#[test]
fn a_lean_process_is_told_so_and_left_alone() {
    let findings =
        of(&report(1, &[(Category::MallocLive, 100 * MIB), (Category::MallocTrimmable, MIB / 2)], 1));
    assert_eq!(codes(&findings), ["lean"]);
    assert!(findings[0].actions.is_empty());
}

#[test]
fn free_slots_that_compaction_could_free_name_the_call_of_that_ruby() {
    let bytes = [(Category::RubyLive(RubyType::String), 40 * MIB), (Category::RubyFree, 30 * MIB)];
    let mut report = report(1, &bytes, 1);
    let pool = SizePool {
        slot_bytes: 40,
        pages: 1120,
        slots: 1_835_008,
        live_slots: 1_048_576,
        ..SizePool::default()
    };
    let heap = |version: &str| RubyHeap {
        version: version.into(),
        page_bytes: 65536,
        pools: vec![pool.clone()],
        compactable_pages: 400,
        ..RubyHeap::default()
    };
    for (version, call) in [("3.1.2", Compaction::Compact), ("3.4.1", Compaction::Warmup)] {
        report.ruby = Some(heap(version));
        let findings = of(&report);
        let slots = findings.iter().find(|finding| finding.code == FindingCode::RubyFreeSlots).unwrap();
        assert_eq!(slots.actions, [Action::Compact { call, server: Server::Puma }]);
        assert_eq!(slots.gain_bytes, Some(400 * 65536));
    }
}

#[test]
fn an_allocator_that_is_not_walked_is_not_called_lean() {
    let mut report = report(1, &[(Category::AllocatorOther, 200 * MIB)], 0);
    report.census = Census::default();
    report.census.add(Category::AllocatorOther, 200 * MIB);
    report.allocator.as_mut().unwrap().kind = AllocatorKind::Jemalloc;
    let findings = of(&report);
    assert_eq!(codes(&findings), ["summary", "allocator-not-walked"]);
}

#[test]
fn a_tree_is_summed_by_pss_and_workers_that_load_the_application_are_told_to_preload() {
    let mut master = report(1, &[(Category::MallocLive, 30 * MIB)], 1);
    let ruby = |classes| RubyHeap { objects: vec![(RubyType::Class, classes)], ..RubyHeap::default() };
    master.ruby = Some(ruby(1_000));
    let mut worker =
        report(2, &[(Category::MallocLive, 100 * MIB), (Category::MallocTrimmable, 20 * MIB)], 4);
    worker.sharing = Some(Sharing { parent: Pid(1), shared_bytes: 10 * MIB, unshared_bytes: 5 * MIB });
    worker.ruby = Some(ruby(9_000));
    let mut inspection = Inspection { processes: vec![master, worker], ..Inspection::default() };
    let findings = of_tree(&inspection);
    assert_eq!(codes(&findings), ["tree", "tree-trimmable", "tree-sharing"]);
    assert!(findings[0].text.starts_with("2 processes take 150 MiB together"), "{}", findings[0].text);
    assert_eq!(findings[2].actions, [Action::PreloadApp]);
    inspection.processes[0].ruby = Some(ruby(9_000));
    let findings = of_tree(&inspection);
    assert!(
        findings[2].actions.is_empty(),
        "two thirds are shared and nothing is loaded twice: {findings:?}"
    );
}

/// Creates a worker whose malloc is jemalloc with these settings.
fn under_jemalloc(settings: JemallocSettings, asked: JemallocRequest) -> ProcessReport {
    let mut report = report(1, &[(Category::MallocLive, 100 * MIB), (Category::MallocStranded, 20 * MIB)], 2);
    let allocator = report.allocator.as_mut().unwrap();
    (allocator.kind, allocator.asked) = (AllocatorKind::Jemalloc, asked);
    allocator.settings = Some(Settings::Jemalloc(settings));
    report
}

#[test]
fn each_way_to_set_jemalloc_up_has_its_sentence() {
    let settings = |decay, threads| JemallocSettings {
        arena_limit: Some(8),
        dirty_decay_ms: Some(decay),
        background_threads: threads,
        ..JemallocSettings::default()
    };
    let asked = JemallocRequest { preload: true, background_thread: true };
    let said = |report: &ProcessReport| codes(&of(report)).join(" ");
    let default = under_jemalloc(settings(10_000, 0), JemallocRequest::default());
    assert_eq!(said(&default), "bloat stranded jemalloc-defaults");
    let stranded = &of(&default)[1];
    let run = Action::Run { server: Server::Puma, name_policy: false };
    assert_eq!(stranded.actions, [run], "no arenas to limit, no jemalloc to preload: {stranded:?}");
    assert_eq!(said(&under_jemalloc(settings(1_000, 0), asked)), "bloat stranded jemalloc-background-thread");
    let tuned = under_jemalloc(settings(1_000, 4), asked);
    assert_eq!(said(&tuned), "bloat stranded jemalloc-tuned");
    let text = "jemalloc is tuned: freed pages go back within 1 s, by a thread of jemalloc's own, threads spread over up to 8 arenas.";
    assert_eq!(of(&tuned)[2].text, text);
    let one = JemallocSettings { arena_limit: Some(1), ..settings(0, 0) };
    let text = "jemalloc is tuned: freed pages go back at once, and all threads share one arena.";
    assert_eq!(of(&under_jemalloc(one, JemallocRequest::default()))[2].text, text);
    let mut lean = under_jemalloc(settings(0, 0), asked);
    let policy = "allocator=jemalloc,trim=adaptive".into();
    lean.runtime = Some(Runtime { policy, trims: 1, returned_bytes: MIB, problem: None });
    assert_eq!(said(&lean), "bloat runtime stranded jemalloc-lean");
    let mut missing = report(1, &[(Category::MallocLive, 100 * MIB)], 1);
    missing.allocator.as_mut().unwrap().asked = asked;
    assert_eq!(said(&missing), "lean jemalloc-not-loaded");
}

proptest! {
    /// Whatever the figures, nothing panics, the first finding is the summary, gains are figures of the
    /// report, and one inspection never speaks of a leak.
    #[test]
    fn every_sentence_stays_within_the_evidence(
        live in 1..1u64 << 33, cached in 0..1u64 << 30, trimmable in 0..1u64 << 33,
        stranded in 0..1u64 << 33, ruby_free in 0..1u64 << 30, arenas in 0usize..40,
    ) {
        let report = report(1, &[
            (Category::MallocLive, live), (Category::MallocCached, cached),
            (Category::MallocTrimmable, trimmable), (Category::MallocStranded, stranded),
            (Category::RubyFree, ruby_free),
        ], arenas);
        let findings = of(&report);
        prop_assert!([FindingCode::Bloat, FindingCode::Lean].contains(&findings[0].code));
        for finding in &findings {
            prop_assert!(!finding.text.to_lowercase().contains("leak"));
            prop_assert!(finding.gain_bytes.is_none_or(|gain| gain <= report.rss_bytes));
        }
    }
}

#[test]
fn live_memory_is_told_by_owner_and_the_floor_without_garbage() {
    let live = [(Category::RubyLive(RubyType::String), 40 * MIB), (Category::MallocLive, 60 * MIB)];
    let mut report = report(1, &live, 1);
    report.ruby = Some(RubyHeap::default());
    assert_eq!(codes(&of(&report)), ["lean", "live"]);
    let held =
        |mib: u64| Held { objects: 1000, slot_bytes: mib * MIB / 2, malloc_bytes: Some(mib * MIB / 2) };
    let gem = Origin::Gem { name: "rails\u{1b}".into(), version: Some("8".into()) };
    report.ownership = Some(Ownership {
        waiting: Some(held(24)),
        code_bytes: 30 * MIB,
        code: vec![
            (Origin::Unknown, 12 * MIB),
            (gem, 9 * MIB),
            (Origin::Application, MIB),
            (Origin::Ruby, 1),
        ],
        strings: held(10),
        string_holders: vec![HolderSum { what: "Template @source".into(), held: held(4) }],
    });
    let found = of(&report);
    assert_eq!(codes(&found), ["lean", "live", "waiting"]);
    let code = "30.0 MiB are code, of which rails\u{fffd} 8 has 9.00 MiB and the application has 1.00 MiB";
    let strings = "10.0 MiB are strings, of which Template @source holds 4.00 MiB";
    assert!(found[1].text.contains(&format!(": {code}; {strings}.")), "{}", found[1].text);
    assert_eq!(
        found[2].text,
        "24.0 MiB of it (24 %) is held by nothing: 1000 objects that wait for a collection. With it the floor is 100 MiB, \
         without it 76.0 MiB."
    );
    report.ownership.as_mut().unwrap().waiting = Some(Held { malloc_bytes: None, ..held(24) });
    assert_eq!(report.floor_without_waiting_bytes(), None, "a part of it is unknown");
    assert!(!of(&report)[2].text.contains("floor"));
    report.ownership.as_mut().unwrap().waiting = None;
    assert_eq!(codes(&of(&report)), ["lean", "live"]);
}
