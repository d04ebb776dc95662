//! Synthetic Ruby heaps: well-formed ones of every shape, and damaged ones.
#![allow(clippy::unwrap_used)]

use super::layout::{PAGE_LAYOUTS, PageLayout, RVALUE_BYTES};
use super::versions::{VERSIONS, VersionFacts};
use super::{HeapPages, Ruby, RubyVersion};
use crate::model::{Category, RubyHeap, RubyType};
use proptest::prelude::*;
use unbloat_process::{Maps, Pid, SyntheticMemory};

/// Addresses of the bodies, and of malloc memory.
const BODIES: u64 = 0x7f00_0000_0000;
const MALLOC: u64 = 0x7e00_0000_0000;
const HEADER_BYTES: u64 = 2048;

fn maps() -> Maps {
    let line = |start: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0\n", start + (16 << 20));
    Maps::parse(Pid(0), &[line(MALLOC), line(BODIES)].concat()).unwrap()
}

/// Creates one page whose slots have the given flags.
fn add_page(memory: &mut SyntheticMemory, layout: &PageLayout, index: u64, slot_bytes: u64, flags: &[u64]) {
    let (body, header) = (BODIES + index * layout.page_bytes, MALLOC + index * HEADER_BYTES);
    let slots = (layout.body_bytes - RVALUE_BYTES) / slot_bytes;
    let start = body + RVALUE_BYTES;
    memory.write(body, &vec![0; layout.page_bytes as usize]);
    memory.write_word(body, header);
    memory.write(header, &vec![0; HEADER_BYTES as usize]);
    if let Some(at) = layout.slot_size {
        memory.write(header + at as u64, &(slot_bytes as u16).to_le_bytes());
    }
    memory.write(header + layout.total_slots as u64, &(slots as u16).to_le_bytes());
    memory.write_word(header + layout.start as u64, start);
    if let Some(at) = layout.body {
        memory.write_word(header + at as u64, body);
    }
    if let Some(at) = layout.pool {
        memory.write_word(header + at as u64, MALLOC + (15 << 20));
    }
    for (i, &flags) in flags.iter().enumerate().take(slots as usize) {
        memory.write_word(start + i as u64 * slot_bytes, flags);
    }
}

fn read(
    memory: &SyntheticMemory,
    layout: Option<PageLayout>,
    version: Option<RubyVersion>,
) -> Option<RubyHeap> {
    let pages = HeapPages::find(memory, &maps(), layout).unwrap();
    let data = std::iter::once(MALLOC..MALLOC + (1 << 16)).collect();
    let ruby = Ruby { version, pages, data };
    ruby.other_memory(memory, &maps()).unwrap();
    let mut claimed = 0;
    let reading = ruby.read(memory, &maps(), |range, _| claimed += range.end - range.start).unwrap();
    assert!(reading.census().total() <= claimed, "resident bytes are part of what is claimed");
    let (heap, _) = reading.finish();
    ruby.pages.is_some().then_some(heap)
}

fn version(text: &str) -> RubyVersion {
    RubyVersion::parse(text.as_bytes()).unwrap()
}

#[test]
fn every_shape_is_found_with_and_without_knowing_the_version() {
    for facts in &VERSIONS {
        let text = &format!("{}.{}.3", facts.major, facts.minor);
        let known = version(text);
        let layout = known.facts().unwrap().pages;
        let mut memory = SyntheticMemory::default();
        for index in 0..10 {
            add_page(&mut memory, &layout, index, RVALUE_BYTES, &[0x05, 0x07, 0, 0x1a, 0x05]);
        }
        for layout in [Some(layout), None] {
            let heap = read(&memory, layout, Some(known)).unwrap();
            assert_eq!((heap.pages(), heap.live_slots()), (10, 40), "{text} {heap:?}");
            let objects = [(RubyType::String, 20), (RubyType::Array, 10), (RubyType::Imemo, 10)];
            assert_eq!(heap.objects, objects, "{text}");
        }
    }
}

#[test]
fn an_unknown_version_has_its_slots_counted_and_owners_unknown() {
    let mut memory = SyntheticMemory::default();
    for index in 0..10 {
        add_page(&mut memory, &PAGE_LAYOUTS[0], index, 80, &[0x01; 100]);
    }
    let heap = read(&memory, None, None).unwrap();
    assert_eq!((heap.version.as_str(), heap.live_slots(), heap.malloc_owned), ("unknown", 1000, None));
}

#[test]
fn pages_in_no_pool_are_pages_without_slots() {
    let layout = version("3.4.1").facts().unwrap().pages;
    let mut memory = SyntheticMemory::default();
    add_page(&mut memory, &layout, 0, 160, &[0x0c]);
    add_page(&mut memory, &layout, 1, 160, &[]);
    let header = MALLOC + HEADER_BYTES;
    for at in [layout.slot_size.unwrap(), layout.total_slots, layout.pool.unwrap(), layout.start] {
        memory.write(header + at as u64, &[0, 0]);
    }
    memory.write_word(header + layout.start as u64, 0);
    memory.write_word(header + layout.pool.unwrap() as u64, 0);
    let heap = read(&memory, Some(layout), None).unwrap();
    assert_eq!((heap.pages(), heap.unassigned_pages, heap.eden_pages()), (2, 1, 1));
}

/// Creates a heap of any shape, to be damaged.
fn some_heap(layout: &PageLayout, slot_bytes: u64, flags: &[u64]) -> SyntheticMemory {
    let mut memory = SyntheticMemory::default();
    for index in 0..4 {
        add_page(&mut memory, layout, index, slot_bytes, flags);
    }
    memory
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary words anywhere cause no panic, and never yield more slots than fit.
    #[test]
    fn damage_is_survived(
        shape in 0..PAGE_LAYOUTS.len(),
        versions in 0..VERSIONS.len(),
        flags in proptest::collection::vec(0u64..0x1_0000_0000, 0..200),
        damage in proptest::collection::vec((any::<bool>(), 0u64..0x1_0000, hostile_word()), 0..60),
    ) {
        let layout = PAGE_LAYOUTS[shape];
        let mut memory = some_heap(&layout, if layout.slot_size.is_some() { 160 } else { 40 }, &flags);
        for (in_body, offset, word) in damage {
            memory.write_word(if in_body { BODIES } else { MALLOC } + offset, word);
        }
        let VersionFacts { major, minor, .. } = VERSIONS[versions];
        let known = RubyVersion { major, minor, teeny: 1 };
        for layout in [Some(layout), None] {
            if let Some(heap) = read(&memory, layout, Some(known)) {
                prop_assert!(heap.slots() * RVALUE_BYTES <= heap.pages() * heap.page_bytes);
                prop_assert!(heap.live_slots() <= heap.slots());
                prop_assert!(heap.compactable_pages <= heap.pages());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Objects by class and code by file, whatever words stand in slots and structures: no panic, and every live slot counts once.
    #[test]
    fn damage_is_survived_by_a_closer_look(
        versions in 0..VERSIONS.len(),
        flags in proptest::collection::vec(any::<u64>(), 0..200),
        damage in proptest::collection::vec((any::<bool>(), 0u64..0x1_0000, hostile_word()), 0..300),
    ) {
        let VersionFacts { major, minor, pages: layout, .. } = &VERSIONS[versions];
        let mut memory = some_heap(layout, if layout.slot_size.is_some() { 160 } else { 40 }, &flags);
        for (in_body, offset, word) in damage {
            memory.write_word(if in_body { BODIES } else { MALLOC + 4 * HEADER_BYTES } + offset / 8 * 8, word);
        }
        let known = RubyVersion { major: *major, minor: *minor, teeny: 1 };
        let ruby = || Ruby {
            version: Some(known),
            pages: HeapPages::find(&memory, &maps(), Some(*layout)).unwrap(),
            data: std::iter::once(MALLOC..MALLOC + (1 << 16)).collect(),
        };
        let heap = read(&memory, Some(*layout), Some(known));
        let objects = crate::objects::objects_of(&memory, &maps(), ruby()).unwrap();
        let objects_live = objects.map(|found| found.total().objects);
        prop_assert_eq!(heap.map(|heap| heap.live_slots()), objects_live);
        crate::code::code_of(&memory, &maps(), ruby()).unwrap();
        let blocks: Vec<_> = (0..64).map(|i| MALLOC + 4 * HEADER_BYTES + 512 * i).map(|at| at..at + 504).collect();
        let holds = crate::holds::holds_of(&memory, &maps(), ruby(), &blocks).unwrap();
        if let Some(holds) = holds {
            prop_assert_eq!(Some(holds.reached.objects + holds.waiting.objects), objects_live);
            prop_assert!(holds.holders.iter().all(|holder| holder.retained_objects <= objects_live.unwrap_or(0)));
        }
    }
}

/// Words that point at each other, lie just outside, or are large.
fn hostile_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u64..0x2_0000).prop_map(|offset| MALLOC + offset),
        (0u64..0x4_0000).prop_map(|offset| BODIES + offset),
        Just(u64::MAX),
        Just(u64::MAX - 15),
        Just(1 << 63),
        any::<u64>(),
        0u64..0x1_0000,
    ]
}

#[test]
fn claims_of_a_page_cover_its_body_without_gaps() {
    let layout = version("3.1.2").facts().unwrap().pages;
    let memory = some_heap(&layout, 40, &[0x05, 0x05, 0, 0x07]);
    let pages = HeapPages::find(&memory, &maps(), Some(layout)).unwrap();
    let ruby = Ruby { version: None, pages, data: vec![] };
    let mut claims = Vec::new();
    ruby.read(&memory, &maps(), |range, category| claims.push((range, category))).unwrap();
    assert!(claims.windows(2).all(|two| two[0].0.end <= two[1].0.start));
    let bytes: u64 = claims.iter().map(|(range, _)| range.end - range.start).sum();
    assert_eq!(bytes, 4 * layout.body_bytes);
    let kinds: Vec<_> = claims.iter().take(5).map(|&(_, category)| category).collect();
    let live = Category::RubyLive;
    assert_eq!(
        kinds,
        [
            Category::RubyPageOverhead,
            live(RubyType::String),
            Category::RubyFree,
            live(RubyType::Array),
            Category::RubyFree
        ]
    );
}
