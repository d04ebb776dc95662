//! The statistics of a jemalloc heap: our values beside jemalloc's own.

use serde_json::Value;
use std::collections::BTreeMap;
use unbloat_heap::allocators::jemalloc::extent::Purpose;
use unbloat_heap::allocators::jemalloc::{Context, Jemalloc, Search, Survey};
use unbloat_process::{LiveMemory, Maps, Pid};
use unbloat_test_support::Target;

/// Surveys the only jemalloc of a process.
pub(crate) fn look(pid: i32) -> (Jemalloc, Survey) {
    let pid = Pid(pid);
    let maps = Maps::of(pid).unwrap();
    let memory = LiveMemory::of(pid).unwrap();
    let search = Search::of(pid, &maps, &memory).unwrap();
    assert_eq!(search.jemallocs.len(), 1, "{:?}", search.jemallocs);
    let threads = unbloat_process::threads(pid).unwrap();
    let context = Context { maps: &maps, threads: &threads, claims: &[] };
    let survey = Survey::take(&search.jemallocs[0], &search.blocks, &memory, context).unwrap();
    (search.jemallocs[0].clone(), survey)
}

/// The name of a statistic, our value and jemalloc's.
type Figure = (String, Option<u64>, Option<u64>);

fn figures(survey: &Survey, stats: &Value) -> Vec<Figure> {
    let total = survey.counts();
    let muzzy = if stats["version"].as_str().unwrap().starts_with("5.2.") { total.muzzy } else { 0 };
    let mut figures: Vec<Figure> = [
        ("stats.allocated", total.allocated),
        ("stats.active", total.active),
        ("stats.retained", total.retained),
        ("stats.metadata", total.base + total.internal),
        // 5.2 counts muzzy pages as resident.
        ("stats.resident", total.base_resident + total.active + total.dirty + muzzy),
        ("opt.narenas", survey.settings.arena_limit.unwrap_or(0)),
    ]
    .map(|(name, ours)| (name.to_owned(), Some(ours), stats[name].as_u64()))
    .into();
    // Without caches nothing reveals their limit.
    let tcache_max = survey.settings.tcache_max_bytes.filter(|_| !survey.caches.list.is_empty());
    figures.extend(
        tcache_max.map(|max| ("tcache_max".to_owned(), Some(max), stats["arenas.tcache_max"].as_u64())),
    );
    let arenas = stats["arenas"].as_array().unwrap();
    let page_bytes = stats["arenas.page"].as_u64().unwrap();
    figures.push(("arenas".to_owned(), Some(survey.arenas.len() as u64), Some(arenas.len() as u64)));
    arenas.iter().for_each(|arena| figures.extend(arena_figures(survey, arena, page_bytes)));
    figures
}

fn arena_figures(survey: &Survey, arena: &Value, page_bytes: u64) -> Vec<Figure> {
    let index = arena["index"].as_u64().unwrap() as u32;
    let name = |what: &str| format!("arena {index} {what}");
    let Some(ours) = survey.arenas.get(&index) else { return vec![(name("found"), None, Some(1))] };
    let (counts, facts) = (&ours.counts, ours.facts.as_ref().unwrap());
    let its = |key: &str| arena[key].as_u64();
    let pages = |key: &str| its(key).map(|pages| pages * page_bytes);
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
pub(crate) fn assert_exact(survey: &Survey, stats: &Value, what: &str) {
    assert_exact_except(survey, stats, what, |_| false);
}

/// As [`assert_exact`], without the statistics of certain names.
pub(crate) fn assert_exact_except(survey: &Survey, stats: &Value, what: &str, other: fn(&str) -> bool) {
    let figures = figures(survey, stats);
    let wrong =
        |figure: &&Figure| figure.1 != figure.2 && !is_known_to_differ(stats, figure) && !other(&figure.0);
    let wrong: Vec<_> = figures.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{what}: {} of {} differ: {wrong:?}", wrong.len(), figures.len());
    let total = survey.total();
    assert_eq!(total.unsettled, 0, "{what}");
}

/// All figures of jemalloc's own.
pub(crate) fn stats(target: &mut Target) -> Value {
    serde_json::from_str(&target.ask("stats")).unwrap()
}
