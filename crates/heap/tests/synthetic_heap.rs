//! Walks over synthetic heaps: well-formed ones must be reported exactly, damaged ones must end without
//! losing bytes.
#![allow(clippy::unwrap_used, missing_docs)]

use proptest::prelude::*;
use std::ops::Range;
use unbloat_heap::allocators::glibc::accounting::{Knowledge, SpanTally};
use unbloat_heap::allocators::glibc::marks::Marks;
use unbloat_heap::allocators::glibc::trim::{TopRule, Use};
use unbloat_heap::allocators::glibc::walk::{Frontier, Walker};
use unbloat_heap::allocators::glibc::{Chunk, ChunkState, Observer, Span};
use unbloat_heap::model::Category;
use unbloat_process::{Error, Memory, Pid, Residency, Result, page_size};

const START: u64 = 0x7f00_0000_0000;
const FIRST: u64 = START + 0x30;

/// The kind of a synthetic chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Live,
    Cached,
    Fast,
    Free,
}

/// A synthetic heap: fully resident, except for pages that are removed.
#[derive(Debug, Clone)]
struct Heap {
    bytes: Vec<u8>,
    residency: Residency,
    top: u64,
}

impl Heap {
    /// Lays out chunks (sizes in units of 16 bytes, at least 2) and a top that fills the last page.
    fn new(chunks: &[(u64, Kind)]) -> Self {
        let used: u64 = chunks.iter().map(|(units, _)| units * 16).sum();
        let len = (0x30 + used + 0x40).next_multiple_of(page_size());
        let mut heap =
            Heap { bytes: vec![0; len as usize], residency: Residency::all(START, len), top: FIRST + used };
        let mut at = FIRST;
        let mut before_free = false;
        for &(units, kind) in chunks {
            let size = units * 16;
            heap.put(at + 8, size | u64::from(!before_free));
            before_free = kind == Kind::Free;
            if before_free {
                heap.put(at + size, size);
            }
            at += size;
        }
        heap.put(at + 8, (START + len - at) | u64::from(!before_free));
        heap
    }

    fn put(&mut self, address: u64, word: u64) {
        let at = (address - START) as usize;
        if let Some(place) = self.bytes.get_mut(at..at + 8) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn span(&self) -> Span {
        let end = START + self.bytes.len() as u64;
        Span { arena: 1, main: false, range: START..end, first_chunk: FIRST, has_top: true }
    }

    fn walk(&self, marks: &[(u64, Kind)], observer: &mut dyn Observer) -> SpanTally {
        let marked = |kind| Marks::new(marks.iter().filter(|(_, k)| *k == kind).map(|(at, _)| *at).collect());
        let (cached, fast, own) = (marked(Kind::Cached), marked(Kind::Fast), Marks::default());
        let top_rule = TopRule { merged_from: self.top, cuttable: false, unit: page_size() };
        let knowledge = Knowledge { cached: &cached, fast: &fast, own: &own, claims: &[], top_rule };
        let span = self.span();
        let mut frontier = || Some(Frontier { end: span.range.end, top: Some(self.top) });
        Walker::new(self).walk(&span, &knowledge, &mut frontier, observer).unwrap()
    }
}

impl Memory for Heap {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let unreadable = Error::Unreadable { pid: Pid(1), address, len: buffer.len() };
        let Some(at) = address.checked_sub(START).map(|at| at as usize) else { return Err(unreadable) };
        let Some(bytes) = at.checked_add(buffer.len()).and_then(|end| self.bytes.get(at..end)) else {
            return Err(unreadable);
        };
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        let mut part = Residency::none(start, len);
        for page in (start..start + len).step_by(page_size() as usize) {
            part.set_resident(page, self.residency.is_resident(page));
        }
        Ok(part)
    }
}

/// A walk that starts between two chunks, as with an arena at an odd address, ends and accounts for every
/// byte.
#[test]
fn a_walk_from_an_unaligned_address_ends() {
    let heap = Heap::new(&[(2, Kind::Live); 100]);
    for shift in [1, 4, 8, 15] {
        let span = Span { first_chunk: FIRST + shift, ..heap.span() };
        let none = Marks::default();
        let top_rule = TopRule { merged_from: heap.top, cuttable: false, unit: page_size() };
        let knowledge = Knowledge { cached: &none, fast: &none, own: &none, claims: &[], top_rule };
        let mut windows = 0;
        let mut frontier = || {
            windows += 1;
            assert!(windows < 1000, "the walk does not end");
            Some(Frontier { end: span.range.end, top: Some(heap.top) })
        };
        let tally = Walker::new(&heap).walk(&span, &knowledge, &mut frontier, &mut ()).unwrap();
        let sum: u64 = Use::ALL.iter().map(|&what| tally.resident(what)).sum();
        assert_eq!(sum, heap.bytes.len() as u64, "shifted by {shift}");
    }
}

/// Everything that was reported.
#[derive(Default)]
struct Told {
    chunks: Vec<(u64, u64, ChunkState)>,
    ranges: Vec<(Range<u64>, Category)>,
}

impl Observer for Told {
    fn chunk(&mut self, chunk: &Chunk) {
        self.chunks.push((chunk.address, chunk.size, chunk.state));
    }

    fn bytes(&mut self, range: Range<u64>, category: Category) {
        self.ranges.push((range, category));
    }
}

impl Told {
    fn assert_tiles(&self, span: &Span) {
        let mut at = span.range.start;
        for (range, category) in self.ranges.iter().filter(|(range, _)| !range.is_empty()) {
            assert_eq!(range.start, at, "{category:?} leaves a gap or overlaps");
            at = range.end;
        }
        assert_eq!(at, span.range.end);
    }
}

/// Generates chunks of all sizes; no two free ones are adjacent, as in glibc.
fn chunks() -> impl Strategy<Value = Vec<(u64, Kind)>> {
    let units = prop_oneof![10 => 2..9u64, 5 => 9..300u64, 1 => 300..100_000u64];
    let kind = prop_oneof![Just(Kind::Live), Just(Kind::Free), Just(Kind::Cached), Just(Kind::Fast)];
    prop::collection::vec((units, kind), 1..200).prop_map(|mut chunks| {
        for i in 1..chunks.len() {
            if chunks[i].1 == Kind::Free && chunks[i - 1].1 == Kind::Free {
                chunks[i].1 = Kind::Live;
            }
        }
        // The chunk before the top is never free, because it would be part of the top; here it is not merged
        // either.
        chunks.push((2, Kind::Live));
        chunks
    })
}

fn placed(chunks: &[(u64, Kind)]) -> Vec<(u64, Kind)> {
    let place = |at: &mut u64, &(units, kind): &(u64, Kind)| {
        let here = *at;
        *at += units * 16;
        Some((here, kind))
    };
    chunks.iter().scan(FIRST, place).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_well_formed_heap_is_told_exactly(chunks in chunks(), absent in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let mut heap = Heap::new(&chunks);
        // Pages in the middle of free chunks may be absent, because they were trimmed before.
        for (&(at, kind), (units, _)) in placed(&chunks).iter().zip(&chunks) {
            let inner = (at + 48).next_multiple_of(page_size())..(at + units * 16) / page_size() * page_size();
            if kind == Kind::Free && inner.start < inner.end && !absent.is_empty() {
                let pages = (inner.end - inner.start) / page_size();
                for index in &absent {
                    heap.residency.set_resident(inner.start + index.index(pages as usize) as u64 * page_size(), false);
                }
            }
        }
        let mut told = Told::default();
        let tally = heap.walk(&placed(&chunks), &mut told);
        told.assert_tiles(&heap.span());
        let state = |kind| match kind {
            Kind::Live => ChunkState::Live,
            Kind::Free => ChunkState::Free,
            Kind::Cached | Kind::Fast => ChunkState::Cached,
        };
        let expected: Vec<_> = placed(&chunks).iter().zip(&chunks).map(|(&(at, kind), (units, _))| (at, units * 16, state(kind))).collect();
        prop_assert_eq!(&told.chunks[..told.chunks.len() - 1], &expected[..]);
        let freed: u64 = chunks.iter().filter(|(_, k)| matches!(k, Kind::Free | Kind::Fast)).map(|(units, _)| units * 16).sum();
        prop_assert_eq!(tally.free_bytes, freed);
        let resident: u64 = Use::ALL.iter().map(|&what| tally.resident(what)).sum();
        prop_assert_eq!(resident, heap.residency.resident_bytes());
        prop_assert_eq!(tally.resident(Use::Unsettled), 0);
        prop_assert_eq!(tally.breaks, vec![]);
    }

    #[test]
    fn a_damaged_heap_ends_and_loses_nothing(
        chunks in chunks(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u64>(), 0..0x200u64, Just(0), Just(u64::MAX)]), 1..30),
        top: Option<u64>,
    ) {
        let mut heap = Heap::new(&chunks);
        for (place, word) in damage {
            let at = START + 8 * place.index(heap.bytes.len() / 8) as u64;
            heap.put(at, word);
        }
        if let Some(top) = top {
            heap.top = top;
        }
        let mut told = Told::default();
        let tally = heap.walk(&placed(&chunks), &mut told);
        told.assert_tiles(&heap.span());
        let resident: u64 = Use::ALL.iter().map(|&what| tally.resident(what)).sum();
        prop_assert_eq!(resident, heap.residency.resident_bytes());
    }

    #[test]
    fn noise_is_no_heap(bytes in prop::collection::vec(any::<u8>(), 8192..40_000)) {
        let len = bytes.len() as u64 / page_size() * page_size();
        let heap = Heap { bytes: bytes[..len as usize].to_vec(), residency: Residency::all(START, len), top: START + len - 64 };
        let mut told = Told::default();
        heap.walk(&[], &mut told);
        told.assert_tiles(&heap.span());
    }
}
