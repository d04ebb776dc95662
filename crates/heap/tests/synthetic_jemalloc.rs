//! Synthetic jemalloc heaps: intact ones must be reported exactly, damaged ones must end and account for
//! every byte once.
#![allow(clippy::unwrap_used, clippy::single_range_in_vec_init, missing_docs)]

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use unbloat_heap::allocators::jemalloc::blocks::Blocks;
use unbloat_heap::allocators::jemalloc::layout::{BASES, CACHES, EXTENTS, ExtentLayout, RTREES, RtreeLayout};
use unbloat_heap::allocators::jemalloc::locate::ImageData;
use unbloat_heap::allocators::jemalloc::reader::Reader;
use unbloat_heap::allocators::jemalloc::sizes::SizeClass;
use unbloat_heap::allocators::jemalloc::{Context, Listener, Search, Survey};
use unbloat_heap::model::Category;
use unbloat_process::{Maps, Memory as _, Pid, SyntheticMemory, page_size};

const DATA: u64 = 0x5600_0000_0000;
const META: u64 = 0x7f00_0000_0000;
const META_BYTES: u64 = 16 << 20;
const HEAP: u64 = 0x7f80_0000_0000;
/// Address of the extents' descriptions.
const DESCRIPTIONS: u64 = META + (8 << 20);

/// The kind of a synthetic extent.
#[derive(Debug, Clone)]
enum Kind {
    /// A slab of a class with these free regions (taken modulo).
    Slab {
        class: u64,
        free: Vec<u8>,
    },
    /// A large object of this many pages, not counting its pad.
    Large {
        pages: u64,
    },
    Dirty {
        pages: u64,
    },
    Muzzy {
        pages: u64,
    },
    Retained {
        pages: u64,
    },
}

/// The expected bytes by use.
#[derive(Debug, Default, PartialEq, Eq)]
struct Expected {
    live: u64,
    trimmable: u64,
    free: u64,
    retained: u64,
}

/// A synthetic process with one jemalloc.
struct World {
    memory: SyntheticMemory,
    maps: Maps,
    image: ImageData,
    rtree: &'static RtreeLayout,
    extents: &'static ExtentLayout,
    expected: Expected,
    heap_end: u64,
}

impl World {
    fn new(shape: usize, kinds: &[Kind]) -> Self {
        let rtree = &RTREES[shape % RTREES.len()];
        let extents = rtree.extents().find(|layout| layout.leaf_has_state).unwrap();
        let page_bytes = rtree.page_bytes();
        let heap_bytes: u64 = kinds.iter().map(|kind| kind.pages(page_bytes) * page_bytes).sum();
        let heap_end = HEAP + heap_bytes + page_bytes;
        let text = format!(
            "{DATA:x}-{:x} rw-p 00000000 00:00 0\n{META:x}-{:x} rw-p 00000000 00:00 0\n{HEAP:x}-{heap_end:x} rw-p 00000000 00:00 0\n",
            DATA + (4 << 20),
            META + META_BYTES,
        );
        let mut world = World {
            memory: SyntheticMemory::default(),
            maps: Maps::parse(Pid(0), &text).unwrap(),
            image: ImageData { path: "made up".into(), writable: vec![DATA..DATA + (4 << 20)] },
            rtree,
            extents,
            expected: Expected::default(),
            heap_end,
        };
        world.metadata();
        let mut at = HEAP;
        for (i, kind) in kinds.iter().enumerate() {
            let description = DESCRIPTIONS + extents.bytes().next_multiple_of(128) as u64 * i as u64;
            world.extent(description, at, kind);
            at += kind.pages(page_bytes) * page_bytes;
        }
        world
    }

    /// Writes a block with its base and arena, `arenas[]`, and the empty tree.
    fn metadata(&mut self) {
        let put = |memory: &mut SyntheticMemory, at, word| memory.write_word(at, word);
        let memory = &mut self.memory;
        put(memory, META, META_BYTES);
        put(memory, META + 24, META + META_BYTES - 4096);
        put(memory, META + 32, 4096);
        let base = META + self.extents.base_at();
        put(memory, base + BASES[0].blocks, META);
        put(memory, base + BASES[0].allocated, 1 << 20);
        put(memory, base + BASES[0].mapped - 8, 2 << 20);
        put(memory, base + BASES[0].mapped, META_BYTES);
        // One arena with one thread, in the first of the entries.
        put(memory, DATA + 64, META + 0x4000);
        put(memory, META + 0x4000, 1);
        put(memory, META + 0x4000 + 0x2000, base);
    }

    /// Returns the address of a page's element, creating nodes and leaves as needed.
    fn element(&mut self, page: u64) -> u64 {
        let root = DATA + (1 << 20);
        let mut below = self.rtree.levels.iter().sum::<u32>();
        let mut table = root;
        let mut next = META + (1 << 20);
        for (level, bits) in self.rtree.levels.iter().enumerate() {
            below -= bits;
            let index = page >> below & ((1 << bits) - 1);
            if level + 1 == self.rtree.levels.len() {
                return table + index * self.rtree.element_bytes();
            }
            // Nodes first, then leaves; the heap is small enough for two leaves.
            let child = match self.memory.word(table + 8 * index) {
                Ok(word) if word != 0 => word,
                _ if level + 2 == self.rtree.levels.len() => {
                    META + (2 << 20) + (index & 1) * self.rtree.leaf_bytes()
                }
                _ => next,
            };
            self.memory.write_word(table + 8 * index, child);
            next += self.rtree.node_bytes();
            table = child;
        }
        unreachable!("a tree has levels")
    }

    fn extent(&mut self, description: u64, base: u64, kind: &Kind) {
        let page_bytes = self.rtree.page_bytes();
        let pages = kind.pages(page_bytes);
        let (state, class, slab) = kind.bits(page_bytes);
        let mut bits = state << 17 | class << 20 | u64::from(slab) << 12;
        if let Kind::Slab { free, .. } = kind {
            let size = SizeClass::new(class).unwrap().bytes();
            let regions = pages * page_bytes / size;
            let mut words = vec![0u64; self.extents.bitmap_words()];
            for place in free {
                let region = u64::from(*place) * 31 % regions;
                words[(region / 64) as usize] |= 1 << (region % 64);
            }
            let nfree: u32 = words.iter().map(|word| word.count_ones()).sum();
            bits |= u64::from(nfree) << 28;
            words
                .iter()
                .enumerate()
                .for_each(|(i, word)| self.memory.write_word(description + 64 + 8 * i as u64, *word));
            self.expected.free += u64::from(nfree) * size;
            self.expected.live += (regions - u64::from(nfree)) * size;
        }
        self.memory.write_word(description, bits);
        self.memory.write_word(description + 8, base);
        self.memory.write_word(description + 16, pages * page_bytes);
        let last = base / page_bytes + pages - 1;
        let step = if slab { 1 } else { (pages - 1).max(1) };
        for page in (base / page_bytes..=last).step_by(step as usize) {
            let flags = state << 2 | u64::from(slab);
            let element = self.element(page);
            if self.rtree.element_bytes() == 8 {
                self.memory.write_word(element, class << 48 | description | flags);
            } else {
                self.memory.write_word(element, description);
                self.memory.write_word(element + 8, class << 5 | flags);
            }
        }
        match kind {
            Kind::Slab { .. } => {}
            Kind::Large { pages } => self.expected.live += pages * page_bytes,
            Kind::Dirty { pages } | Kind::Muzzy { pages } => self.expected.trimmable += pages * page_bytes,
            Kind::Retained { pages } => self.expected.retained += pages * page_bytes,
        }
        if !matches!(kind, Kind::Retained { .. }) {
            (base..base + pages * page_bytes)
                .step_by(page_size() as usize)
                .for_each(|page| self.memory.write_word(page, 1));
        }
    }

    fn survey(&self) -> Option<Survey> {
        let reader = Reader::new(&self.memory);
        let blocks = Blocks::find(&reader, &self.maps).unwrap();
        let search = Search::within(vec![self.image.clone()], blocks, &reader).unwrap();
        let context = Context { maps: &self.maps, threads: &[], claims: &[] };
        let survey = |found| Survey::take(found, &search.blocks, &self.memory, context).unwrap();
        search.jemallocs.first().map(survey)
    }
}

impl Kind {
    fn pages(&self, page_bytes: u64) -> u64 {
        match self {
            // The smallest number of pages that regions fill without a remainder, as in jemalloc, or eight.
            Kind::Slab { class, .. } => {
                let size = SizeClass::new(*class).unwrap().bytes();
                (1..8).find(|pages| (pages * page_bytes).is_multiple_of(size)).unwrap_or(8)
            }
            Kind::Large { pages } => pages + 1,
            Kind::Dirty { pages } | Kind::Muzzy { pages } | Kind::Retained { pages } => *pages,
        }
    }

    /// State, class, slab.
    fn bits(&self, page_bytes: u64) -> (u64, u64, bool) {
        match self {
            Kind::Slab { class, .. } => (0, *class, true),
            Kind::Large { pages } => {
                (0, SizeClass::holding(pages * page_bytes).unwrap().index() as u64, false)
            }
            Kind::Dirty { .. } => (1, 232, false),
            Kind::Muzzy { .. } => (2, 232, false),
            Kind::Retained { .. } => (3, 232, false),
        }
    }
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let free = prop::collection::vec(any::<u8>(), 0..40);
    let kind = prop_oneof![
        4 => (1..36u64, free).prop_map(|(class, free)| Kind::Slab { class, free }),
        2 => (4..40u64).prop_map(|pages| Kind::Large { pages }),
        1 => (1..30u64).prop_map(|pages| Kind::Dirty { pages }),
        1 => (1..30u64).prop_map(|pages| Kind::Muzzy { pages }),
        1 => (1..60u64).prop_map(|pages| Kind::Retained { pages }),
    ];
    prop::collection::vec(kind, 4..120)
}

/// As many as fit into little memory: every page of theirs exists.
fn affordable(shape: usize, mut kinds: Vec<Kind>) -> Vec<Kind> {
    kinds.truncate(if RTREES[shape].page_bits > 12 { 24 } else { usize::MAX });
    kinds
}

/// Checks that ranges are disjoint and adds them up.
#[derive(Default)]
struct Told {
    end: u64,
    bytes: BTreeMap<Category, u64>,
}

impl Listener for Told {
    fn bytes(&mut self, range: Range<u64>, category: Category) {
        assert!(self.end <= range.start && range.start < range.end, "{range:x?} after {:x}", self.end);
        self.end = range.end;
        *self.bytes.entry(category).or_default() += range.end - range.start;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_whole_heap_is_told_exactly(shape in 0..RTREES.len(), kinds in kinds()) {
        let kinds = affordable(shape, kinds);
        let world = World::new(shape, &kinds);
        let survey = world.survey().unwrap();
        prop_assert_eq!(survey.extents.len(), kinds.len());
        let (total, counts) = (survey.total(), survey.counts());
        let expected = &world.expected;
        prop_assert_eq!((total.live, total.stranded), (expected.live, expected.free));
        prop_assert_eq!((total.trimmable, total.unsettled, total.cached), (expected.trimmable, 0, 0));
        prop_assert_eq!((counts.allocated, counts.retained), (expected.live, expected.retained));
        prop_assert_eq!(survey.arenas.keys().copied().collect::<Vec<_>>(), [0]);
        prop_assert_eq!(survey.arenas[&0].facts.as_ref().map(|facts| facts.threads), Some(1));
        prop_assert_eq!(counts.base, 1 << 20);
        let mut told = Told::default();
        survey.tell(&mut told);
        prop_assert_eq!(told.bytes.get(&Category::MallocLive).copied().unwrap_or(0), expected.live);
    }

    #[test]
    fn a_damaged_heap_ends_and_counts_no_byte_twice(
        shape in 0..RTREES.len(),
        kinds in kinds(),
        damage in prop::collection::vec((0..6usize, any::<u16>(), prop_oneof![
            any::<u64>(), 0..0x200u64, Just(0), Just(u64::MAX),
            (0..META_BYTES).prop_map(|at| META + at / 64 * 64),
            (0..1u64 << 20).prop_map(|at| HEAP + at),
        ]), 1..40),
    ) {
        let mut world = World::new(shape, &affordable(shape, kinds));
        let leaf = META + (2 << 20);
        let places = [DATA, DATA + (1 << 20), META, leaf, DESCRIPTIONS, META + 0x4000];
        for (place, offset, word) in damage {
            world.memory.write_word(places[place] + 8 * u64::from(offset % 2048), word);
        }
        let Some(survey) = world.survey() else { return Ok(()) };
        let mut end = 0;
        for placed in &survey.extents {
            prop_assert!(end <= placed.extent.base && placed.extent.base < placed.extent.end());
            end = placed.extent.end();
        }
        let mut told = Told::default();
        survey.tell(&mut told);
        let reader = Reader::new(&world.memory);
        let all = reader.memory().residency(HEAP, world.heap_end - HEAP).unwrap().resident_bytes()
            + reader.memory().residency(META, META_BYTES).unwrap().resident_bytes()
            + reader.memory().residency(DATA, 4 << 20).unwrap().resident_bytes();
        prop_assert!(survey.total().total() <= all, "{:?} of {all}", survey.total());
    }
}

#[test]
fn both_layouts_of_extents_are_known_for_pages_of_each_size() {
    for page_bits in [12, 14, 16] {
        let layouts = EXTENTS.iter().filter(|layout| layout.page_bits == page_bits);
        assert_eq!(layouts.map(|layout| layout.versions).collect::<Vec<_>>(), ["5.3", "5.2"]);
        assert_eq!(RTREES.iter().filter(|rtree| rtree.page_bits == page_bits).count(), 2);
    }
    // Offsets of `tcache` in builds with pages of 4 KiB, as a debugger shows them.
    let of_caches = |bits| {
        CACHES.map(|cache| cache.tcache(EXTENTS.iter().find(|layout| layout.page_bits == bits).unwrap()))
    };
    assert_eq!(of_caches(12), [168, 232]);
    // As `sizeof` says in builds with such pages.
    let of = |page_bits| EXTENTS.iter().find(|layout| layout.page_bits == page_bits).unwrap();
    assert_eq!(
        [12, 14, 16].map(|bits| (of(bits).bytes(), of(bits).base_at())),
        [(128, 192), (320, 384), (1088, 1152)]
    );
}
