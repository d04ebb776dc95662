//! Splits proportional bytes page by page: exclusive pages count in full, shared ones in part.
//!
//! The kernel says of each page whether it is exclusive to one process, but not how many share it; of the
//! whole process it reports the proportional size of anonymous memory and of the rest (`smaps_rollup`). So
//! each shared anonymous page counts the same, such that their sum matches the kernel's figure; file memory
//! likewise.

use crate::model::{BackedBy, Census, HeapMap, OnMap, PageUse, ProcessReport};
use std::ops::Range;
use unbloat_process::{Backing, Maps, PageMap, Populated, Residency, Result, Rollup, page_size};

/// Maximum range of one page-map query, to bound memory.
const WINDOW_BYTES: u64 = 256 << 20;

/// Bytes on exclusive pages, and bytes on shared pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Split {
    exclusive: u64,
    shared: u64,
}

impl Split {
    fn add(&mut self, bytes: u64, exclusive: bool) {
        let part = if exclusive { &mut self.exclusive } else { &mut self.shared };
        *part += bytes;
    }

    fn minus(self, other: Split) -> Split {
        Split {
            exclusive: self.exclusive.saturating_sub(other.exclusive),
            shared: self.shared.saturating_sub(other.shared),
        }
    }

    /// Returns the average weight of a byte if a shared one counts `factor`.
    fn weight(self, factor: f64) -> f64 {
        let all = self.exclusive + self.shared;
        if all == 0 { 1.0 } else { (self.exclusive as f64 + self.shared as f64 * factor) / all as f64 }
    }
}

/// The sharing of a process's anonymous memory.
#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    /// By use on the map's pages, in the order of [`PageUse::ALL`].
    uses: [Split; PageUse::ALL.len()],
    /// Overhead on the map's pages.
    overhead: Split,
    /// Anonymous memory outside the map.
    rest: Split,
}

/// Returns the proportional census of a process whose heap map was drawn. `None` if the kernel (before 5.4)
/// does not report anonymous memory separately.
///
/// # Errors
/// The process is gone or access to it is denied.
pub(crate) fn census(report: &ProcessReport, map: &HeapMap) -> Result<Option<Census>> {
    let rollup = Rollup::of(report.pid)?;
    let Some(pss_anonymous) = rollup.pss_parts.map(|parts| parts.anonymous_bytes) else { return Ok(None) };
    let pages = PageMap::of(report.pid)?;
    let mut all = Split::default();
    // The kernel's own pages (vsyscall lies beyond the addresses that can be queried) do not belong to the
    // process.
    let maps = Maps::of(report.pid)?;
    let populated = Populated::of(report.pid, &pages, &maps)?;
    for mapping in maps.iter().filter(|mapping| !matches!(mapping.backing, Backing::Kernel(_))) {
        each_window((&pages, &populated), mapping.range(), |residency, page| {
            if !residency.is_file(page) {
                all.add(page_size(), residency.is_exclusive(page));
            }
        })?;
    }
    let mut shares = Shares::default();
    for region in &map.regions {
        let end = region.start + region.pages.len() as u64 * page_size();
        each_window((&pages, &populated), region.start..end, |residency, page| {
            let fill = &region.pages[((page - region.start) / page_size()) as usize];
            let exclusive = residency.is_exclusive(page);
            let mut left = page_size();
            for (split, &bytes) in shares.uses.iter_mut().zip(fill.all()) {
                split.add(bytes.into(), exclusive);
                left = left.saturating_sub(bytes.into());
            }
            shares.overhead.add(left, exclusive);
        })?;
    }
    let mapped = shares.uses.iter().chain([&shares.overhead]);
    shares.rest = mapped.fold(all, |rest, &split| rest.minus(split));
    let anonymous = all.exclusive + all.shared;
    Ok(Some(weigh(&report.census, &shares, factors(&rollup, pss_anonymous, all, anonymous))))
}

/// The weight of a shared anonymous byte, and that of a file byte.
#[derive(Debug, Clone, Copy)]
struct Factors {
    shared_anonymous: f64,
    file: f64,
}

fn factors(rollup: &Rollup, pss_anonymous: u64, all: Split, anonymous: u64) -> Factors {
    let ratio = |part: u64, whole: u64| if whole == 0 { 1.0 } else { (part as f64 / whole as f64).min(1.0) };
    Factors {
        shared_anonymous: ratio(pss_anonymous.saturating_sub(all.exclusive), all.shared),
        file: ratio(
            rollup.pss_bytes.saturating_sub(pss_anonymous),
            rollup.rss_bytes.saturating_sub(anonymous),
        ),
    }
}

fn weigh(census: &Census, shares: &Shares, factors: Factors) -> Census {
    let mut weighed = census.like();
    for (category, bytes) in census.iter() {
        let facts = category.facts();
        let weight = match (facts.backed_by, facts.on_map) {
            (BackedBy::File | BackedBy::SharedMemory, _) => factors.file,
            (BackedBy::Anonymous, OnMap::Use(page_use)) => {
                shares.uses[page_use as usize].weight(factors.shared_anonymous)
            }
            (BackedBy::Anonymous, OnMap::Overhead) => shares.overhead.weight(factors.shared_anonymous),
            (BackedBy::Anonymous, OnMap::Nowhere) => shares.rest.weight(factors.shared_anonymous),
        };
        weighed.add(category, (bytes as f64 * weight).round() as u64);
    }
    weighed
}

/// Calls `visit` for each resident page.
fn each_window(
    (pages, populated): (&PageMap, &Populated),
    range: Range<u64>,
    mut visit: impl FnMut(&Residency, u64),
) -> Result<()> {
    for window in populated.windows(&range, WINDOW_BYTES) {
        let residency = pages.residency_with_sharing(window.start, window.end - window.start)?;
        for run in residency.resident_runs() {
            run.step_by(page_size() as usize).for_each(|page| visit(&residency, page));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Category;

    #[test]
    fn what_is_exclusive_counts_in_full_and_what_is_shared_in_part() {
        let mut shares = Shares::default();
        shares.uses[PageUse::Live as usize] = Split { exclusive: 4096, shared: 4096 };
        shares.uses[PageUse::Trimmable as usize] = Split { exclusive: 8192, shared: 0 };
        let mut census = Census::default();
        census.add(Category::MallocLive, 8192);
        census.add(Category::MallocTrimmable, 8192);
        census.add(Category::LibrariesShared, 4000);
        let weighed = weigh(&census, &shares, Factors { shared_anonymous: 0.5, file: 0.25 });
        assert_eq!(weighed.bytes(Category::MallocLive), 6144);
        assert_eq!(weighed.bytes(Category::MallocTrimmable), 8192);
        assert_eq!(weighed.bytes(Category::LibrariesShared), 1000);
    }

    #[test]
    fn nothing_shared_leaves_the_sizes_as_they_are() {
        let rollup = Rollup { rss_bytes: 100, pss_bytes: 100, ..Rollup::default() };
        let factors = factors(&rollup, 60, Split { exclusive: 60, shared: 0 }, 60);
        assert!((factors.shared_anonymous - 1.0).abs() < 1e-9 && (factors.file - 1.0).abs() < 1e-9);
    }
}
