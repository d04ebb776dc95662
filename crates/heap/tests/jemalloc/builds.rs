//! Builds of jemalloc that no Debian has: the bundled one, and those of `scripts/jemallocs`. Each is read exactly, or says why it is
//! not.

use crate::figures::{assert_exact, assert_exact_except, look, stats};
use crate::{CONFIGURATIONS, program};
use std::path::{Path, PathBuf};
use std::process::Command;
use unbloat_bundle::Library;
use unbloat_heap::allocators::jemalloc::{Context, Search, Survey};
use unbloat_process::{LiveMemory, Maps, Pid};
use unbloat_test_support::{Compiler, Target, TargetDirectory, system_library};

/// A target with one of our libraries preloaded, and what has to outlive it.
struct Preloaded {
    target: Target,
    _directory: TargetDirectory,
    _program: unbloat_test_support::Program,
}

impl Preloaded {
    fn start(library: &[u8], configuration: &str, arguments: &[&str]) -> Self {
        let directory = TargetDirectory::new();
        std::fs::write(directory.outside().join("libjemalloc.so"), library).unwrap();
        let program = program(Compiler::System, &["-ldl"]);
        let mut command = program.command();
        command.env("LD_PRELOAD", directory.inside().join("libjemalloc.so"));
        command.env("MALLOC_CONF", configuration).args(arguments);
        let target = Target::start_ready(&mut command);
        Preloaded { target, _directory: directory, _program: program }
    }
}

/// A file of one of the builds of `scripts/jemallocs`, which makes it if it is not there.
fn built(name: &str, file: &str) -> PathBuf {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let path = target.join("jemallocs").join(name).join("lib").join(file);
    if !path.exists() {
        let built = Command::new(root.join("scripts/jemallocs")).arg(name).status().unwrap();
        assert!(built.success(), "scripts/jemallocs {name}");
    }
    path
}

/// A target with the shared library of a build preloaded.
fn under(name: &str, configuration: &str, arguments: &[&str]) -> Preloaded {
    let library = std::fs::read(built(name, "libjemalloc.so.2")).unwrap();
    Preloaded::start(&library, configuration, arguments)
}

/// Programs of another root may be linked with an older libc than these builds are.
fn is_elsewhere() -> bool {
    std::env::var_os("UNBLOAT_TEST_ROOT").is_some()
}

#[test]
fn every_figure_of_the_bundled_jemalloc_is_exact() {
    let library = unbloat_bundle::contents(Library::Jemalloc);
    for configuration in CONFIGURATIONS {
        let mut target = Preloaded::start(library, configuration, &["4", "8"]);
        let stats = stats(&mut target.target);
        let (_, survey) = look(target.target.pid());
        assert_exact(&survey, &stats, configuration);
    }
}

/// With the huge-page allocator, jemalloc tells pages that are free inside of its huge pages and those in its cache of small extents
/// from active ones by structures of its own. All that is allocated is told exactly.
#[test]
fn blocks_of_the_huge_page_allocator_are_exact() {
    let system = system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let mut targets =
        vec![Preloaded::start(unbloat_bundle::contents(Library::Jemalloc), "hpa:true", &["4", "8"])];
    if !is_elsewhere() {
        targets.push(Preloaded::start(&std::fs::read(system).unwrap(), "hpa:true", &["4", "8"]));
    }
    for mut target in targets {
        let stats = stats(&mut target.target);
        let (_, survey) = look(target.target.pid());
        let of_pages = |name: &str| ["active", "resident", "dirty"].iter().any(|end| name.ends_with(end));
        assert_exact_except(&survey, &stats, "hpa", of_pages);
    }
}

#[test]
fn a_prefixed_jemalloc_inside_of_a_program_is_exact() {
    if is_elsewhere() {
        return;
    }
    let archive = built("prefixed", "libjemalloc.a");
    for compiler in [Compiler::System, Compiler::Static, Compiler::StaticPie] {
        let program = program(compiler, &["-DPREFIX", archive.to_str().unwrap(), "-lm", "-ldl"]);
        let mut target = Target::start_ready(program.command().args(["3", "8"]));
        let stats = stats(&mut target);
        let (jemalloc, survey) = look(target.pid());
        assert!(jemalloc.image.path.ends_with("program"), "{:?}", jemalloc.image);
        assert_exact(&survey, &stats, &format!("{compiler:?}"));
    }
}

#[test]
fn two_jemallocs_of_a_process_are_told_apart() {
    if is_elsewhere() {
        return;
    }
    let archive = built("prefixed", "libjemalloc.a");
    let program = program(Compiler::System, &["-DPREFIX", archive.to_str().unwrap(), "-lm", "-ldl"]);
    let library = system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let mut command = program.command();
    let mut target = Target::start_ready(command.env("LD_PRELOAD", &library).args(["3", "8"]));
    let stats = stats(&mut target);
    let pid = Pid(target.pid());
    let (maps, memory) = (Maps::of(pid).unwrap(), LiveMemory::of(pid).unwrap());
    let search = Search::of(pid, &maps, &memory).unwrap();
    let threads = unbloat_process::threads(pid).unwrap();
    let context = Context { maps: &maps, threads: &threads, claims: &[] };
    let survey = |end: &str| {
        let found = search.jemallocs.iter().find(|found| found.image.path.ends_with(end)).unwrap();
        Survey::take(found, &search.blocks, &memory, context).unwrap()
    };
    assert_eq!(search.jemallocs.len(), 2, "{:?}", search.jemallocs);
    let (own, preloaded) = (survey("program"), survey(library.file_name().unwrap().to_str().unwrap()));
    assert_exact(&own, &stats, "the program's own");
    assert!(preloaded.total().live > 0 && preloaded.total().unsettled == 0, "{:?}", preloaded.total());
    let mut both: Vec<_> = own.ranges.iter().chain(&preloaded.ranges).cloned().collect();
    both.sort_unstable_by_key(|range| range.start);
    assert!(both.windows(2).all(|pair| pair[0].end <= pair[1].start), "they share memory");
}

#[test]
fn a_profiling_build_is_exact() {
    if is_elsewhere() {
        return;
    }
    let mut target = under("profiling", "", &["4", "8"]);
    let stats = stats(&mut target.target);
    assert_exact(&look(target.target.pid()).1, &stats, "built with profiling");
}

#[test]
fn five_levels_of_page_tables_are_read_exactly() {
    if is_elsewhere() {
        return;
    }
    for configuration in ["", "narenas:1,tcache_max:1024", "dirty_decay_ms:-1"] {
        let mut target = under("wide", configuration, &["4", "8"]);
        let stats = stats(&mut target.target);
        let (jemalloc, survey) = look(target.target.pid());
        assert_eq!(jemalloc.rtree.address_bits, 57);
        assert_exact(&survey, &stats, configuration);
    }
}

/// Without statistics there is nothing to compare with but the purge, and what each cache holds.
#[test]
fn a_build_without_statistics_is_read_and_its_caches_are_found() {
    if is_elsewhere() {
        return;
    }
    let mut target = under("no-statistics", "dirty_decay_ms:-1", &["4", "24", "5"]);
    let arenas = stats(&mut target.target)["arenas"].as_array().unwrap().len();
    let (_, survey) = look(target.target.pid());
    assert_eq!((survey.arenas.len(), survey.total().unsettled), (arenas, 0));
    // The four threads' and the main one's.
    assert_eq!(survey.caches.list.len(), 5);
    assert!(survey.total().cached > 0);
    let predicted = survey.total().trimmable;
    let rss: Vec<u64> = target.target.ask("purge").split(' ').map(|n| n.parse().unwrap()).collect();
    let dropped = rss[0].saturating_sub(rss[1]);
    assert!(dropped > 10_000_000, "{dropped}");
    assert!(predicted.abs_diff(dropped) <= (dropped / 100).max(512 << 10), "{predicted}, {dropped}");
    assert_eq!(target.target.ask("live"), "intact");
}

#[test]
fn larger_pages_of_jemallocs_are_read_exactly() {
    if is_elsewhere() {
        return;
    }
    for (name, page_bits) in [("pages-16k", 14), ("pages-64k", 16)] {
        for configuration in ["", "narenas:1,tcache_max:1024", "dirty_decay_ms:-1", "slab_sizes:513-4096:1"] {
            let mut target = under(name, configuration, &["4", "8"]);
            let stats = stats(&mut target.target);
            let (jemalloc, survey) = look(target.target.pid());
            assert_eq!(jemalloc.rtree.page_bits, page_bits);
            assert_exact(&survey, &stats, &format!("{name}, {configuration}"));
        }
    }
}
