//! Splits proportional bytes by backing: anonymous memory, files, shared memory.
//!
//! The kernel reports the proportional bytes of each of the three (`smaps_rollup`, Linux 5.4 and newer). Each
//! category belongs to one of them and gets a share of that part in proportion to its resident bytes. The sum
//! is therefore the PSS to the byte; within a part, all categories are assumed to be equally shared.

use crate::model::{BackedBy, Census};
use unbloat_process::Backed;

/// Distributes the proportional bytes. `None` if a part has bytes but the census has no category for it.
pub(crate) fn share_out(census: &Census, parts: Backed) -> Option<Census> {
    let mut shared = census.like();
    for (part, bytes) in [
        (BackedBy::Anonymous, parts.anonymous_bytes),
        (BackedBy::File, parts.file_bytes),
        (BackedBy::SharedMemory, parts.shared_memory_bytes),
    ] {
        let resident: Vec<_> =
            census.iter().filter(|(category, _)| category.facts().backed_by == part).collect();
        let mut resident_left: u64 =
            resident.iter().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
        let mut left = bytes;
        if resident_left == 0 && left > 0 {
            return None;
        }
        for (category, bytes) in resident {
            // Divides the remainder, so that rounding leaves nothing over.
            let share = (u128::from(left) * u128::from(bytes) / u128::from(resident_left.max(1))) as u64;
            shared.add(category, share);
            (left, resident_left) = (left - share, resident_left.saturating_sub(bytes));
        }
    }
    Some(shared)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::model::Category;

    #[test]
    fn nothing_is_lost_to_rounding() {
        let mut census = Census::default();
        census.add(Category::MallocLive, 1000);
        census.add(Category::MallocStranded, 333);
        census.add(Category::ThreadStacks, 7);
        census.add(Category::LibrariesShared, 4096);
        let parts = Backed { anonymous_bytes: 801, file_bytes: 5, shared_memory_bytes: 0 };
        let shared = share_out(&census, parts).unwrap();
        assert_eq!(shared.total(), 806);
        assert_eq!(shared.bytes(Category::LibrariesShared), 5);
        assert_eq!(shared.bytes(Category::MallocLive), 597);
        assert_eq!(share_out(&census, Backed { shared_memory_bytes: 1, ..parts }), None);
    }
}
