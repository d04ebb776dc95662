//! jemalloc heaps of real processes, compared with jemalloc's own statistics.
#![allow(clippy::unwrap_used, missing_docs)]

mod builds;
mod figures;

use figures::{assert_exact, look, stats};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;
use unbloat_heap::allocators::jemalloc::Listener;
use unbloat_heap::allocators::jemalloc::counts::Forgotten;
use unbloat_heap::model::Category;
use unbloat_process::{LiveMemory, Memory as _, Pid, page_size};
use unbloat_test_support::{Compiler, Program, Target, c_program, system_library};

const CONFIGURATIONS: [&str; 11] = [
    "",
    "narenas:1",
    "narenas:2,tcache_max:1024",
    "tcache:false",
    "retain:false",
    "dirty_decay_ms:0,muzzy_decay_ms:0",
    "dirty_decay_ms:-1",
    // An hour: the thread would purge between jemalloc's figures and ours.
    "background_thread:true,dirty_decay_ms:3600000,muzzy_decay_ms:5000",
    "slab_sizes:1-4096:1",
    "slab_sizes:1-14336:17",
    "percpu_arena:percpu",
];

/// Builds the target and links it with a library of the system.
fn program(compiler: Compiler, flags: &[&str]) -> Program {
    Program::build(compiler, c_program("jemalloc"), flags)
}

/// The target with the system's jemalloc preloaded.
fn preloaded() -> Command {
    let library =
        system_library("libjemalloc.so.2").expect("libjemalloc.so.2 is missing: run scripts/deps test");
    let program = program(Compiler::System, &["-ldl"]);
    let mut command = program.command();
    command.env("LD_PRELOAD", library);
    // The program's directory has to outlive the process.
    std::mem::forget(program);
    command
}

#[test]
fn every_figure_of_a_preloaded_jemalloc_is_exact() {
    for configuration in CONFIGURATIONS {
        let mut command = preloaded();
        command.env("MALLOC_CONF", configuration).args(["4", "8"]);
        let mut target = Target::start_ready(&mut command);
        let stats = stats(&mut target);
        let (_, survey) = look(target.pid());
        assert_exact(&survey, &stats, configuration);
        assert_eq!(
            survey.settings.background_threads > 0,
            configuration.contains("background"),
            "{configuration}"
        );
    }
}

#[test]
fn a_linked_jemalloc_is_exact() {
    let program = program(Compiler::System, &["-l:libjemalloc.so.2", "-ldl"]);
    let mut target = Target::start_ready(program.command().args(["3", "8"]));
    let stats = stats(&mut target);
    assert_exact(&look(target.pid()).1, &stats, "linked");
}

#[test]
fn a_jemalloc_inside_of_a_stripped_program_is_exact() {
    for compiler in [Compiler::System, Compiler::Static] {
        let program = program(compiler, &["-l:libjemalloc.a", "-lm", "-ldl"]);
        let mut target = Target::start_ready(program.command().args(["3", "8"]));
        let stats = stats(&mut target);
        let (jemalloc, survey) = look(target.pid());
        assert!(jemalloc.image.path.ends_with("program"), "{:?}", jemalloc.image);
        assert_exact(&survey, &stats, &format!("{compiler:?}"));
    }
}

#[test]
fn both_sides_of_a_fork_are_exact_and_what_the_child_cannot_free_is_named() {
    let mut target = Target::start_ready(preloaded().args(["6", "8"]));
    let answer = target.ask("fork");
    let (child, its) = answer.split_once(' ').unwrap();
    let parents = stats(&mut target);
    let (_, parent) = look(target.pid());
    assert_exact(&parent, &parents, "parent");
    assert_eq!(parent.forgotten, Forgotten::default());
    let (_, survey) = look(child.parse().unwrap());
    assert_exact(&survey, &serde_json::from_str(its).unwrap(), "child");
    // 5.2's structures leave no trace to search for.
    if parents["version"].as_str().unwrap().starts_with("5.2.") {
        return;
    }
    // The caches of six threads of the parent: the blocks they hold there are lost to the child.
    let threads: Vec<_> = parent.caches.list.iter().filter(|cache| cache.blocks > 0).collect();
    assert!(threads.len() >= 6, "{}", threads.len());
    assert_eq!(survey.forgotten.threads, 6);
    assert!(survey.forgotten.bytes > 50_000, "{:?}", survey.forgotten);
    assert!(survey.total().forgotten > 0 && survey.total().forgotten <= survey.total().cached);
}

/// Adds up reported bytes by residency.
struct Told<'a> {
    memory: &'a LiveMemory,
    end: u64,
    resident: BTreeMap<Category, u64>,
    blocks: u64,
}

impl Listener for Told<'_> {
    fn extent(&mut self, range: Range<u64>, _: u32) {
        assert!(self.end <= range.start, "{:x} is told twice", range.start);
        self.end = range.start;
    }

    fn block(&mut self, _: Range<u64>, resident_bytes: u64) {
        self.blocks += resident_bytes;
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        assert_eq!(self.end, range.start, "a gap or an overlap");
        self.end = range.end;
        let pages = range.start / page_size() * page_size()..range.end.next_multiple_of(page_size());
        let residency = self.memory.residency(pages.start, pages.end - pages.start).unwrap();
        *self.resident.entry(category).or_default() += residency.resident_within(range);
    }
}

#[test]
fn what_is_told_range_by_range_is_what_is_counted_in_bits() {
    let mut target =
        Target::start_ready(preloaded().env("MALLOC_CONF", "dirty_decay_ms:-1").args(["4", "8", "5"]));
    target.ask("stats");
    let (_, survey) = look(target.pid());
    let memory = LiveMemory::of(Pid(target.pid())).unwrap();
    let mut told = Told { memory: &memory, end: 0, resident: BTreeMap::new(), blocks: 0 };
    survey.tell(&mut told);
    let total = survey.total();
    let of = |category| told.resident.get(&category).copied().unwrap_or(0);
    assert_eq!(of(Category::MallocLive), total.live);
    assert_eq!(told.blocks, total.live);
    assert_eq!(of(Category::MallocCached), total.cached);
    assert_eq!(of(Category::MallocTrimmable), total.trimmable);
    assert_eq!(of(Category::MallocStranded), total.stranded);
    assert_eq!(of(Category::MallocOverhead) + survey.metadata_bytes, total.overhead);
    assert!(
        total.stranded > 100_000 && total.trimmable > 1_000_000 && total.holes < total.stranded,
        "{total:?}"
    );
}

#[test]
fn a_purge_returns_what_was_predicted() {
    for configuration in ["dirty_decay_ms:-1", "dirty_decay_ms:20000,muzzy_decay_ms:20000,narenas:2"] {
        let mut target =
            Target::start_ready(preloaded().env("MALLOC_CONF", configuration).args(["4", "24", "5"]));
        target.ask("stats");
        let predicted = look(target.pid()).1.total().trimmable;
        let rss: Vec<u64> = target.ask("purge").split(' ').map(|n| n.parse().unwrap()).collect();
        let dropped = rss[0].saturating_sub(rss[1]);
        // RSS is counted in batches of pages per processor.
        let tolerance = (dropped / 100).max(512 << 10);
        assert!(dropped > 10_000_000, "{configuration}: {dropped}");
        assert!(
            predicted.abs_diff(dropped) <= tolerance,
            "{configuration}: {predicted} predicted, {dropped} dropped"
        );
        assert_eq!(look(target.pid()).1.total().trimmable, 0, "{configuration}");
    }
}

#[test]
fn a_busy_heap_is_read_without_harm_and_nearly_all_of_it_settles() {
    let mut target = Target::start_ready(preloaded().args(["4", "8"]));
    target.ask("busy");
    let mut shares = Vec::new();
    for _ in 0..10 {
        let (_, survey) = look(target.pid());
        let total = survey.total();
        assert!(total.live > 0 && survey.arenas.len() > 1);
        shares.push(total.unsettled as f64 / total.total() as f64);
    }
    shares.sort_by(f64::total_cmp);
    assert!(shares[5] < 0.02, "{shares:?}");
    target.ask("quiet");
    assert_eq!(target.ask("live"), "intact");
    let stats = stats(&mut target);
    assert_exact(&look(target.pid()).1, &stats, "after being busy");
}

#[test]
fn an_address_inside_of_a_block_finds_the_block() {
    let mut target = Target::start_ready(preloaded().args(["2", "24"]));
    target.ask("stats");
    let (_, survey) = look(target.pid());
    struct Blocks(Vec<Range<u64>>);
    impl Listener for Blocks {
        fn block(&mut self, usable: Range<u64>, _: u64) {
            self.0.push(usable);
        }
    }
    let mut blocks = Blocks(Vec::new());
    survey.tell(&mut blocks);
    assert!(blocks.0.len() > 500);
    for block in blocks.0.iter().step_by(97) {
        assert_eq!(survey.block_at(block.start), Some(block.clone()));
        assert_eq!(survey.block_at(block.end - 1), Some(block.clone()));
    }
    let held = survey.caches.held.iter().filter(|&&(pointer, _)| survey.block_at(pointer).is_some());
    assert_eq!(held.count(), 0, "a cached block is not live");
    assert_eq!(survey.block_at(0x1000), None);
}
