//! Predicts how long a trim would delay other threads.
//!
//! glibc's `malloc_trim` holds an arena's lock while it visits the arena's free chunks of a page or more and
//! returns their pages (`__malloc_trim` and `mtrim`, malloc/malloc.c of 2.31–2.42); threads that allocate
//! there wait. The amount of work cannot be limited, so the only option is not to start. Known beforehand
//! are:
//!
//! - the time of the last trim without the share for returned memory, because it visits the same chunks
//!   again;
//! - the growth of the process since, which is the most that has to be returned;
//! - whether there has been a full collection since: it may have freed anything, so the whole heap is
//!   assumed;
//! - the excess of earlier trims over their predicted time.
//!
//! A forked child continues with its parent's experience, because it has its parent's heap.

use core::sync::atomic::{AtomicU64, Ordering};

/// Time that returning one MiB adds to a trim, in nanoseconds. Measured on 500 MiB of blocks of 50 B to 60
/// KB, glibc 2.36, x86-64 virtual machine: 80–160 µs.
const RETURN_NS_PER_MIB: u64 = 100_000;

/// Time that one MiB of heap adds to the first trim after a full collection, in nanoseconds. Measured: 25–50
/// µs in Rails workers of 200 MiB, and 110 µs in the program of bench/stalls, which replaces freed blocks by
/// blocks of other sizes.
const AFTER_FULL_NS_PER_MIB: u64 = 50_000;

/// Experience with trims. Written by the trimming thread, one at a time.
#[derive(Debug)]
pub(crate) struct Foresight {
    /// Time of the last trim without its share for returned memory.
    visit_ns: AtomicU64,
    /// Resident set after it.
    resident_bytes: AtomicU64,
    /// Number of full collections by then.
    majors: AtomicU64,
    /// Additional time to allow for.
    surprise_ns: AtomicU64,
}

/// The relevant state of a process between two trims.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heap {
    /// Resident set in bytes.
    pub(crate) resident_bytes: u64,
    /// Full collections so far.
    pub(crate) majors: u64,
}

impl Foresight {
    /// Starts without experience: all resident memory may have to be returned.
    pub(crate) const fn new() -> Self {
        Self {
            visit_ns: AtomicU64::new(0),
            resident_bytes: AtomicU64::new(0),
            majors: AtomicU64::new(0),
            surprise_ns: AtomicU64::new(0),
        }
    }

    /// Predicts the time of a trim made now, in nanoseconds.
    pub(crate) fn trim_ns(&self, now: Heap) -> u64 {
        self.seen_coming_ns(now).saturating_add(self.surprise_ns.load(Ordering::Relaxed))
    }

    /// Learns from a trim: its time, the heap before it, and the resident set after it. An excess is
    /// remembered in full and decays by halves.
    pub(crate) fn learn(&self, took_ns: u64, before: Heap, after_bytes: u64) {
        let beyond_ns = took_ns.saturating_sub(self.seen_coming_ns(before));
        let remembered_ns = self.surprise_ns.load(Ordering::Relaxed) / 2;
        self.surprise_ns.store(beyond_ns.max(remembered_ns), Ordering::Relaxed);
        let returning_ns = cost_ns(before.resident_bytes.saturating_sub(after_bytes), RETURN_NS_PER_MIB);
        self.visit_ns.store(took_ns.saturating_sub(returning_ns), Ordering::Relaxed);
        self.resident_bytes.store(after_bytes, Ordering::Relaxed);
        self.majors.store(before.majors, Ordering::Relaxed);
    }

    fn seen_coming_ns(&self, now: Heap) -> u64 {
        let grown = now.resident_bytes.saturating_sub(self.resident_bytes.load(Ordering::Relaxed));
        let visit_ns = self.visit_ns.load(Ordering::Relaxed);
        let as_before_ns = visit_ns.saturating_add(cost_ns(grown, RETURN_NS_PER_MIB));
        let had_full = now.majors > self.majors.load(Ordering::Relaxed);
        let after_full_ns = if had_full { cost_ns(now.resident_bytes, AFTER_FULL_NS_PER_MIB) } else { 0 };
        as_before_ns.max(after_full_ns)
    }
}

fn cost_ns(bytes: u64, ns_per_mib: u64) -> u64 {
    (bytes >> 10).saturating_mul(ns_per_mib) >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MILLISECOND: u64 = 1_000_000;

    fn heap(resident_bytes: u64) -> Heap {
        Heap { resident_bytes, majors: 7 }
    }

    #[test]
    fn a_large_process_that_was_never_trimmed_would_take_long() {
        let foresight = Foresight::new();
        assert_eq!(foresight.trim_ns(heap(500 * MIB)), 50 * MILLISECOND);
        assert_eq!(foresight.trim_ns(heap(20 * MIB)), 2 * MILLISECOND);
    }

    #[test]
    fn the_visit_comes_again_and_the_returning_does_not() {
        let foresight = Foresight::new();
        foresight.learn(50 * MILLISECOND, heap(500 * MIB), 200 * MIB);
        assert_eq!(foresight.trim_ns(heap(200 * MIB)), 20 * MILLISECOND);
        assert_eq!(foresight.trim_ns(heap(210 * MIB)), 21 * MILLISECOND);
    }

    #[test]
    fn after_a_full_collection_the_whole_heap_is_reckoned_with() {
        let foresight = Foresight::new();
        foresight.learn(MILLISECOND, heap(500 * MIB), 500 * MIB);
        assert_eq!(foresight.trim_ns(heap(500 * MIB)), MILLISECOND);
        let collected = Heap { majors: 8, ..heap(500 * MIB) };
        assert_eq!(foresight.trim_ns(collected), 25 * MILLISECOND);
        foresight.learn(5 * MILLISECOND, collected, 500 * MIB);
        assert_eq!(foresight.trim_ns(collected), 5 * MILLISECOND);
    }

    #[test]
    fn a_surprise_is_reckoned_with_and_forgotten_by_halves() {
        let foresight = Foresight::new();
        foresight.learn(MILLISECOND, heap(20 * MIB), 20 * MIB);
        foresight.learn(41 * MILLISECOND, heap(20 * MIB), 20 * MIB);
        assert_eq!(foresight.trim_ns(heap(20 * MIB)), 81 * MILLISECOND);
        foresight.learn(MILLISECOND, heap(20 * MIB), 20 * MIB);
        assert_eq!(foresight.trim_ns(heap(20 * MIB)), 21 * MILLISECOND);
        for _ in 0..10 {
            foresight.learn(MILLISECOND, heap(20 * MIB), 20 * MIB);
        }
        assert!(foresight.trim_ns(heap(20 * MIB)) < 2 * MILLISECOND);
    }

    #[test]
    fn a_process_that_shrank_and_absurd_numbers_do_no_harm() {
        let foresight = Foresight::new();
        foresight.learn(u64::MAX, heap(0), u64::MAX);
        assert_eq!(foresight.trim_ns(heap(u64::MAX)), u64::MAX);
        foresight.learn(0, heap(u64::MAX), 0);
        assert!(foresight.trim_ns(heap(0)) > 0);
    }
}
