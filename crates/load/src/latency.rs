//! A latency distribution: an HdrHistogram in nanoseconds, and the figures derived from it.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// The shortest time distinguished from zero. Anything finer would be noise of the clock reads.
const FINEST_NS: u64 = 1_000;
/// The longest time kept; longer ones are recorded as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Number of significant decimal digits of every recorded value (0.1 %).
const DIGITS: u8 = 3;

/// A distribution of times, exact to 0.1 % from 1 ms up and to about a microsecond below.
#[derive(Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// The common figures of a [`Latency`], in nanoseconds. They are absent (`None`) if nothing was measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of recorded times.
    pub count: u64,
    /// Minimum.
    pub min_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Maximum.
    pub max_ns: Option<u64>,
}

/// A [`Summary`] with a measure of the tail, as in `unbloat bench --json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// The percentiles.
    #[serde(flatten)]
    pub summary: Summary,
    /// The mean of the slowest tenth. It moves less than a percentile when a single event, such as a full
    /// collection, falls into a run or not.
    pub mean_above_p90_ns: Option<u64>,
}

/// Prints the figures rather than thousands of buckets.
impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.summary().serialize(serializer)
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// Creates an empty distribution.
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS);
        Self { histogram: histogram.expect("the bounds are constants that HdrHistogram accepts") }
    }

    /// Adds one time, in nanoseconds.
    pub fn record_ns(&mut self, ns: u64) {
        self.histogram.saturating_record(ns);
    }

    /// Adds everything from `other`.
    pub fn merge(&mut self, other: &Self) {
        // Fails only for values beyond this histogram's range, and both have the same range.
        self.histogram.add(&other.histogram).expect("two latencies have the same bounds");
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the time that a `quantile` (0 to 1) of all recorded times do not exceed; `None` if nothing was
    /// recorded.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        (self.count() > 0).then(|| self.histogram.value_at_quantile(quantile).min(self.histogram.max()))
    }

    /// Returns the mean of the times beyond `quantile`, weighting the time at that rank by the share of it
    /// that lies beyond; `None` if nothing was recorded.
    fn mean_above_ns(&self, quantile: f64) -> Option<u64> {
        let wanted = self.count() as f64 * (1.0 - quantile);
        let (mut left, mut sum) = (wanted, 0.0);
        let mut slowest: Vec<_> = self.histogram.iter_recorded().collect();
        while let Some(value) = slowest.pop()
            && left > 0.0
        {
            let taken = left.min(value.count_at_value() as f64);
            sum += taken * self.histogram.median_equivalent(value.value_iterated_to()) as f64;
            left -= taken;
        }
        (wanted > 0.0).then(|| (sum / wanted) as u64)
    }

    /// Returns the mean; `None` if nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        (self.count() > 0).then(|| Duration::from_nanos(self.histogram.mean() as u64))
    }

    /// Returns the mean in nanoseconds; `None` if nothing was recorded.
    pub fn mean_ns(&self) -> Option<u64> {
        self.mean().map(|mean| u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the common figures.
    pub fn summary(&self) -> Summary {
        let any = self.count() > 0;
        Summary {
            count: self.count(),
            min_ns: any.then(|| self.histogram.min()),
            p50_ns: self.quantile_ns(0.50),
            p95_ns: self.quantile_ns(0.95),
            p99_ns: self.quantile_ns(0.99),
            max_ns: any.then(|| self.histogram.max()),
        }
    }

    /// Returns the figures for documents.
    pub fn times(&self) -> Times {
        Times { summary: self.summary(), mean_above_p90_ns: self.mean_above_ns(0.90) }
    }

    /// Encodes the whole distribution in HdrHistogram's V2 encoding (uncompressed), as stored in recording
    /// files.
    pub fn to_v2(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.histogram, &mut bytes).expect("writing to a Vec does not fail");
        bytes
    }
}

impl Summary {
    /// Decodes a distribution from a recording file ([`Latency::to_v2`]), whatever its bounds are; `None` if
    /// the bytes are not an HdrHistogram.
    pub fn of_v2(mut bytes: &[u8]) -> Option<Self> {
        let histogram = hdrhistogram::serialization::Deserializer::new().deserialize(&mut bytes).ok()?;
        Some(Latency { histogram }.summary())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hdrhistogram::serialization::Deserializer;

    #[test]
    fn nothing_recorded_is_absent_and_not_zero() {
        let summary = Latency::new().summary();
        assert_eq!(summary.count, 0);
        assert_eq!((summary.min_ns, summary.p50_ns, summary.max_ns), (None, None, None));
    }

    #[test]
    fn quantiles_are_exact_to_a_thousandth() {
        let mut latency = Latency::new();
        for ms in 1..=1000u64 {
            latency.record_ns(ms * 1_000_000);
        }
        let summary = latency.summary();
        for (got, want) in [
            (summary.p50_ns, 500.0),
            (summary.p95_ns, 950.0),
            (summary.p99_ns, 990.0),
            (summary.max_ns, 1000.0),
        ] {
            let ratio = got.unwrap() as f64 / (want * 1e6);
            assert!((ratio - 1.0).abs() < 0.001_1, "{got:?} is not {want} ms");
        }
    }

    #[test]
    fn the_mean_of_the_slowest_tenth_is_exact_to_a_thousandth() {
        let mut latency = Latency::new();
        for ms in 1..=95u64 {
            latency.record_ns(ms * 1_000_000);
        }
        // Nine and a half of 95: 87 to 95 whole, and half of 86.
        let expected = ((87..=95).sum::<u64>() as f64 + 43.0) / 9.5 * 1e6;
        let ratio = latency.times().mean_above_p90_ns.unwrap() as f64 / expected;
        assert!((ratio - 1.0).abs() < 0.001_1, "{ratio}");
        assert_eq!(Latency::new().times().mean_above_p90_ns, None);
    }

    #[test]
    fn a_time_beyond_the_range_counts_as_the_longest() {
        let mut latency = Latency::new();
        latency.record_ns(u64::MAX);
        assert!(latency.summary().max_ns.unwrap() >= LONGEST_NS);
    }

    #[test]
    fn the_encoding_can_be_read_back_by_hdrhistogram() {
        let mut latency = Latency::new();
        latency.record_ns(5_000_000);
        latency.record_ns(7_000_000);
        let bytes = latency.to_v2();
        let back: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!(back, latency.histogram);
        assert_eq!(Summary::of_v2(&bytes), Some(latency.summary()));
        for cut in 0..bytes.len() {
            assert_eq!(Summary::of_v2(&bytes[..cut]), None);
        }
        assert_eq!(Summary::of_v2(&[1, 2]), None);
    }
}
