//! jemalloc heaps of real processes, held against what jemalloc says of itself.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use unbloat_heap::allocators::jemalloc::counts::Forgotten;
use unbloat_heap::allocators::jemalloc::extent::Purpose;
use unbloat_heap::allocators::jemalloc::{Context, Jemalloc, Listener, Search, Survey};
use unbloat_heap::model::Category;
use unbloat_process::{LiveMemory, Maps, Memory as _, Pid};
use unbloat_test_support::{Compiler, Program, Target, c_program, system_library};

/// A look at the only jemalloc of a process.
fn look(pid: i32) -> (Jemalloc, Survey) {
    let pid = Pid(pid);
    let maps = Maps::of(pid).unwrap();
    let memory = LiveMemory::of(pid).unwrap();
    let search = Search::of(pid, &maps, &memory).unwrap();
    assert_eq!(search.found.len(), 1, "{:?}", search.found);
    let threads = unbloat_process::threads(pid).unwrap();
    let context = Context { maps: &maps, threads: &threads, claims: &[] };
    let survey = Survey::take(&search.found[0], &search.blocks, &memory, context).unwrap();
    (search.found[0].clone(), survey)
}

/// One of jemalloc's figures, ours, and whose they are.
type Figure = (String, Option<u64>, Option<u64>);

fn figures(survey: &Survey, stats: &Value) -> Vec<Figure> {
    let total = survey.counts();
    let muzzy = if stats["version"].as_str().unwrap().starts_with("5.2.") { total.muzzy } else { 0 };
    let mut figures: Vec<Figure> = [
        ("stats.allocated", total.allocated),
        ("stats.active", total.active),
        ("stats.retained", total.retained),
        ("stats.metadata", total.base + total.internal),
        // 5.2 takes muzzy pages for resident.
        ("stats.resident", total.base_resident + total.active + total.dirty + muzzy),
        ("opt.narenas", survey.settings.arena_limit.unwrap_or(0)),
    ]
    .map(|(name, ours)| (name.to_owned(), Some(ours), stats[name].as_u64()))
    .into();
    // Without caches nothing shows their limit.
    let tcache_max = survey.settings.tcache_max_bytes.filter(|_| !survey.caches.list.is_empty());
    figures.extend(
        tcache_max.map(|max| ("tcache_max".to_owned(), Some(max), stats["arenas.tcache_max"].as_u64())),
    );
    let arenas = stats["arenas"].as_array().unwrap();
    figures.push(("arenas".to_owned(), Some(survey.arenas.len() as u64), Some(arenas.len() as u64)));
    arenas.iter().for_each(|arena| figures.extend(arena_figures(survey, arena)));
    figures
}

fn arena_figures(survey: &Survey, arena: &Value) -> Vec<Figure> {
    let index = arena["index"].as_u64().unwrap() as u32;
    let name = |what: &str| format!("arena {index} {what}");
    let Some(ours) = survey.arenas.get(&index) else { return vec![(name("found"), None, Some(1))] };
    let (counts, facts) = (&ours.counts, ours.facts.as_ref().unwrap());
    let its = |key: &str| arena[key].as_u64();
    let pages = |key: &str| its(key).map(|pages| pages * 4096);
    let cached: u64 = survey.caches.list.iter().filter(|c| c.arena == Some(index)).map(|c| c.bytes).sum();
    let milliseconds = |ms: Option<i64>| ms.map(|ms| ms as u64);
    let mut figures = vec![
        (name("active"), Some(counts.active), pages("pactive")),
        (name("dirty"), Some(counts.dirty), pages("pdirty")),
        (name("muzzy"), Some(counts.muzzy), pages("pmuzzy")),
        (name("retained"), Some(counts.retained), its("retained")),
        (name("base"), Some(counts.base), its("base")),
        (name("internal"), Some(counts.internal), its("internal")),
        (name("cached"), Some(cached), its("tcache_bytes")),
        (name("threads"), Some(u64::from(facts.threads)), its("nthreads")),
        (
            name("dirty decay"),
            milliseconds(facts.dirty_decay_ms),
            arena["dirty_decay_ms"].as_i64().map(|v| v as u64),
        ),
        (
            name("muzzy decay"),
            milliseconds(facts.muzzy_decay_ms),
            arena["muzzy_decay_ms"].as_i64().map(|v| v as u64),
        ),
    ];
    let numbers =
        |value: &Value| value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect::<Vec<_>>();
    for (class, bin) in arena["bins"].as_array().unwrap().iter().enumerate() {
        let ours =
            survey.bins.iter().find(|((a, c), _)| *a == index && c.index() == class).map(|(_, bin)| *bin);
        let (ours, its) = (ours.unwrap_or_default(), numbers(bin));
        figures.push((name(&format!("bin {class} regions")), Some(ours.used), Some(its[0])));
        figures.push((name(&format!("bin {class} slabs")), Some(ours.slabs), Some(its[1])));
    }
    let mut large: BTreeMap<u64, u64> = BTreeMap::new();
    for placed in survey.extents.iter().filter(|placed| placed.extent.arena == index) {
        if let Purpose::Object(class) = placed.extent.purpose {
            *large.entry(class.bytes()).or_default() += 1;
        }
    }
    for pair in arena["large"].as_array().unwrap() {
        let pair = numbers(pair);
        figures.push((name(&format!("large {}", pair[0])), large.get(&pair[0]).copied(), Some(pair[1])));
    }
    figures
}

/// Figures of 5.2's own that mean something else: its count of cached bytes leaves out large ones (`src/arena.c:209`), and of its
/// own blocks some bytes a thread, and after a fork what the parent's threads had, look like the program's here.
fn is_known_to_differ(stats: &Value, (name, ours, its): &Figure) -> bool {
    let less = its.zip(*ours).and_then(|(its, ours)| its.checked_sub(ours));
    let thread_data = || (name.ends_with("metadata") || name.ends_with("internal")) && less.is_some();
    stats["version"].as_str().unwrap().starts_with("5.2.") && (name.ends_with("cached") || thread_data())
}

/// Holds every figure against jemalloc's own.
fn assert_exact(survey: &Survey, stats: &Value, what: &str) {
    let figures = figures(survey, stats);
    let wrong = |figure: &&Figure| figure.1 != figure.2 && !is_known_to_differ(stats, figure);
    let wrong: Vec<_> = figures.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{what}: {} of {} differ: {wrong:?}", wrong.len(), figures.len());
    let total = survey.total();
    assert_eq!(total.unsettled, 0, "{what}");
}

fn stats(target: &mut Target) -> Value {
    serde_json::from_str(&target.ask("stats")).unwrap()
}

const CONFIGURATIONS: [&str; 11] = [
    "",
    "narenas:1",
    "narenas:2,tcache_max:1024",
    "tcache:false",
    "retain:false",
    "dirty_decay_ms:0,muzzy_decay_ms:0",
    "dirty_decay_ms:-1",
    "background_thread:true,muzzy_decay_ms:5000",
    "slab_sizes:1-4096:1",
    "slab_sizes:1-14336:17",
    "percpu_arena:percpu",
];

/// Builds the target and links it with a library of the system.
fn program(compiler: Compiler, flags: &[&str]) -> Program {
    Program::build(compiler, c_program("jemalloc"), flags)
}

/// The target with a jemalloc preloaded: the system's, or the library that `UNBLOAT_TEST_JEMALLOC` names.
fn preloaded() -> Command {
    let other = std::env::var_os("UNBLOAT_TEST_JEMALLOC").map(PathBuf::from);
    let library = other.or_else(|| system_library("libjemalloc.so.2"));
    let library = library.expect("libjemalloc.so.2 is missing: run scripts/deps test");
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
    // 5.2's structures leave nothing to be found by.
    if parents["version"].as_str().unwrap().starts_with("5.2.") {
        return;
    }
    // The caches of six threads of the parent: what they hold there is what the child has lost.
    let threads: Vec<_> = parent.caches.list.iter().filter(|cache| cache.blocks > 0).collect();
    assert!(threads.len() >= 6, "{}", threads.len());
    assert_eq!(survey.forgotten.threads, 6);
    assert!(survey.forgotten.bytes > 50_000, "{:?}", survey.forgotten);
    assert!(survey.total().forgotten > 0 && survey.total().forgotten <= survey.total().cached);
}

/// Adds up what it is told by what is resident.
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
        let pages = range.start / 4096 * 4096..range.end.next_multiple_of(4096);
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
        // RSS is counted in batches of pages a processor.
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
