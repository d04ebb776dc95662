//! A measure of the tail that does not jump: the mean of the slowest observations.
//!
//! A percentile jumps when the share of slow observations crosses it: p95 is 60 or 110 ms depending on
//! whether four or seven of 120 broadcasts fall into a full collection. The mean of the slowest tenth
//! ("expected shortfall", P. Artzner et al., *Mathematical Finance* 9, 1999) moves in proportion to that
//! share instead. `tests/calibration` shows how much less it varies between equal runs.

/// The share of observations that the tail mean covers.
pub const SLOWEST: f64 = 0.1;

/// Returns the mean of the largest `share` of all observations, from a histogram of (value, count) in any
/// order. The bucket at the border counts in part. `None` without observations, or if `share` is not within 0
/// to 1.
#[must_use]
pub fn tail_mean(buckets: impl IntoIterator<Item = (f64, u64)>, share: f64) -> Option<f64> {
    let mut buckets: Vec<(f64, u64)> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
    buckets.sort_by(|a, b| b.0.total_cmp(&a.0));
    let all: f64 = buckets.iter().map(|(_, count)| *count as f64).sum();
    let wanted = all * share;
    if !(share > 0.0 && share <= 1.0 && wanted > 0.0) {
        return None;
    }
    let mut missing = wanted;
    let mut sum = 0.0;
    for (value, count) in buckets {
        let taken = missing.min(count as f64);
        sum += value * taken;
        missing -= taken;
    }
    Some(sum / wanted)
}

#[cfg(test)]
mod tests {
    use super::tail_mean;

    #[test]
    fn the_slowest_tenth_is_averaged() {
        let values = (1..=100).map(|value| (f64::from(value), 1));
        assert_eq!(tail_mean(values.rev(), 0.1), Some(95.5));
        assert_eq!(tail_mean([(1.0, 90), (3.0, 10)], 0.1), Some(3.0));
        assert_eq!(tail_mean([(7.0, 5)], 1.0), Some(7.0));
    }

    #[test]
    fn the_bucket_at_the_border_counts_in_part() {
        // Five of twenty: two at 9, three of those at 1.
        assert_eq!(tail_mean([(1.0, 18), (9.0, 2)], 0.25), Some((2.0 * 9.0 + 3.0) / 5.0));
        // Less than one observation.
        assert_eq!(tail_mean([(1.0, 1), (9.0, 1)], 0.1), Some(9.0));
    }

    #[test]
    fn nothing_has_no_tail() {
        assert_eq!(tail_mean([], 0.1), None);
        assert_eq!(tail_mean([(1.0, 0)], 0.1), None);
        assert_eq!([0.0, -1.0, 1.5, f64::NAN].map(|share| tail_mean([(1.0, 1)], share)), [None; 4]);
    }
}
