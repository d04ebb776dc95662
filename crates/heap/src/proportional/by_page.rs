//! Page by page: what one process alone has counts in full, and what others have, too, counts in part.
//!
//! The kernel tells of each page whether one process alone has it, but not how many others do, and of the whole process
//! the proportional size of its anonymous memory and of the rest (`smaps_rollup`). So each shared anonymous page counts
//! the same, just so that their sum is what the kernel says; memory of files likewise.

use crate::model::{BackedBy, Census, HeapMap, OnMap, PageUse, ProcessReport};
use unbloat_process::{Backing, Maps, PAGE_SIZE, PageMap, Residency, Result, Rollup};

/// What one question to the page map covers at most, to bound memory.
const WINDOW_BYTES: u64 = 256 << 20;

/// Bytes on pages that one process alone has, and on pages that others have, too.
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

    /// What a byte counts on average when a shared one counts `factor`.
    fn weight(self, factor: f64) -> f64 {
        let all = self.exclusive + self.shared;
        if all == 0 { 1.0 } else { (self.exclusive as f64 + self.shared as f64 * factor) / all as f64 }
    }
}

/// How the anonymous memory of a process is shared.
#[derive(Debug, Clone, Copy, Default)]
struct Shares {
    /// By use of the map's pages, in the order of [`PageUse::ALL`].
    uses: [Split; PageUse::ALL.len()],
    /// Overhead on the map's pages.
    overhead: Split,
    /// Anonymous memory that the map does not show.
    rest: Split,
}

/// The proportional census of a process whose heap map was drawn. `None` where the kernel (before 5.4) does not tell
/// anonymous memory apart.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn census(report: &ProcessReport, map: &HeapMap) -> Result<Option<Census>> {
    let rollup = Rollup::of(report.pid)?;
    let Some(pss_anonymous) = rollup.pss_parts.map(|parts| parts.anonymous_bytes) else { return Ok(None) };
    let pages = PageMap::of(report.pid)?;
    let mut all = Split::default();
    // The kernel's own pages (vsyscall lies outside of what can be asked about) are not the process's.
    let maps = Maps::of(report.pid)?;
    for mapping in maps.iter().filter(|mapping| !matches!(mapping.backing, Backing::Kernel(_))) {
        each_window(&pages, mapping.start, mapping.end, |residency, page| {
            if !residency.is_file(page) {
                all.add(PAGE_SIZE, residency.is_exclusive(page));
            }
        })?;
    }
    let mut shares = Shares::default();
    for region in &map.regions {
        let end = region.start + region.pages.len() as u64 * PAGE_SIZE;
        each_window(&pages, region.start, end, |residency, page| {
            let fill = &region.pages[((page - region.start) / PAGE_SIZE) as usize];
            let exclusive = residency.is_exclusive(page);
            let mut left = PAGE_SIZE;
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

/// What a shared anonymous byte and what a byte of a file counts.
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
fn each_window(pages: &PageMap, start: u64, end: u64, mut visit: impl FnMut(&Residency, u64)) -> Result<()> {
    let mut at = start;
    while at < end {
        let len = (end - at).min(WINDOW_BYTES);
        let residency = pages.residency_with_sharing(at, len)?;
        for run in residency.resident_runs() {
            run.step_by(PAGE_SIZE as usize).for_each(|page| visit(&residency, page));
        }
        at += len;
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
