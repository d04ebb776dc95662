//! Lists of address ranges.

use std::ops::Range;

/// Sorts the ranges and joins overlapping and adjacent ones.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// Returns the parts of `range` between sorted, disjoint `taken` ranges.
pub(crate) fn remaining<'a>(
    range: &Range<u64>,
    taken: &'a [Range<u64>],
) -> impl Iterator<Item = Range<u64>> + use<'a> {
    let (mut at, end) = (range.start, range.end);
    let first = taken.partition_point(|t| t.end <= at);
    let mut rest = taken[first..].iter();
    std::iter::from_fn(move || {
        while at < end {
            let (to, resume) = match rest.next() {
                Some(t) if t.start < end => (t.start, t.end),
                _ => (end, end),
            };
            let from = std::mem::replace(&mut at, resume);
            if from < to {
                return Some(from..to);
            }
        }
        None
    })
}

/// Returns the intersections of `range` with sorted, disjoint `others`.
pub(crate) fn overlaps<'a>(
    others: &'a [Range<u64>],
    range: &'a Range<u64>,
) -> impl Iterator<Item = Range<u64>> + 'a {
    let first = others.partition_point(|other| other.end <= range.start);
    let inside = others[first..].iter().take_while(|other| other.start < range.end);
    inside.map(|other| other.start.max(range.start)..other.end.min(range.end))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init)] // lists of ranges are under test
    use super::*;

    #[test]
    fn what_is_left_between_taken_ranges() {
        let taken = [10..20, 25..30, 40..50];
        let left = |range: Range<u64>| remaining(&range, &taken).collect::<Vec<_>>();
        assert_eq!(left(0..60), [0..10, 20..25, 30..40, 50..60]);
        assert_eq!(left(12..27), [20..25]);
        assert_eq!(left(13..18), []);
        assert_eq!(left(31..39), [31..39]);
    }

    #[test]
    fn what_ranges_have_in_common() {
        let others = [10..20, 25..30, 40..50];
        let common = |range: Range<u64>| overlaps(&others, &range).collect::<Vec<_>>();
        assert_eq!(common(15..45), [15..20, 25..30, 40..45]);
        assert_eq!(common(20..25), []);
    }

    #[test]
    fn overlapping_and_adjacent_ranges_are_joined() {
        assert_eq!(joined(vec![20..30, 0..5, 5..9, 25..27, 29..40]), [0..9, 20..40]);
    }
}
