//! Determines which classes of objects, and whose code, grow steadily.
//!
//! Every look at a Ruby counts garbage that waits for a collection, too. The analysis is that of [`crate::growth`]: it
//! tells the saw-teeth of collections from growth, and needs as many looks.

use crate::looks::Points;
use crate::rubies::{Amount, Label, REST, Rubies, RubyMoment};
use std::collections::BTreeMap;
use unbloat_stats::growth::{Growth, Shape, judge};

/// Maximum number of series to analyze: those that rose most.
const MOST: usize = 40;
/// Maximum number of reported ones.
const NAMED: usize = 12;
/// Minimum rise worth an analysis, in bytes.
const LEAST_BYTES: f64 = 16384.0;

/// A class, or an origin of code, that grows steadily.
#[derive(Debug, Clone, PartialEq)]
pub struct Rising {
    /// Its name.
    pub label: Label,
    /// The growth of its bytes; always linear.
    pub growth: Growth,
    /// Bytes per second.
    pub rate: f64,
    /// Objects (or instruction sequences) and bytes at the first look that has it.
    pub first: Amount,
    /// The same at the last look.
    pub last: Amount,
    /// Its bytes over time.
    pub points: Points,
}

/// Everything that grows steadily in the Rubies of a recording.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RisingAll {
    /// The number of looks.
    pub looks: usize,
    /// Classes of objects, the fastest first.
    pub classes: Vec<Rising>,
    /// Origins of code, the fastest first.
    pub code: Vec<Rising>,
}

impl RisingAll {
    /// Analyzes a recording's Rubies.
    #[must_use]
    pub fn of(rubies: &Rubies) -> Self {
        RisingAll {
            looks: rubies.classes.len().max(rubies.code.len()),
            classes: rising(&rubies.classes),
            code: rising(&rubies.code),
        }
    }
}

/// Returns the series of each label, without looks at which it was among the rest.
#[must_use]
pub fn series(moments: &[RubyMoment]) -> BTreeMap<&Label, Vec<(f64, Amount)>> {
    let mut series: BTreeMap<&Label, Vec<(f64, Amount)>> = BTreeMap::new();
    for moment in moments {
        for (label, &amount) in &moment.sums {
            series.entry(label).or_default().push((moment.time_s, amount));
        }
    }
    series
}

fn rising(moments: &[RubyMoment]) -> Vec<Rising> {
    let all = series(moments).into_iter().filter(|(label, _)| label.kind != *REST);
    let mut risen: Vec<_> = all.map(|(label, points)| (rise(&points), label, points)).collect();
    risen.retain(|(rise, _, _)| *rise >= LEAST_BYTES);
    risen.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut rising: Vec<Rising> =
        risen.into_iter().take(MOST).filter_map(|(_, label, points)| steady(label, &points)).collect();
    rising.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    rising.truncate(NAMED);
    rising
}

/// Returns the difference between the averages of the last and the first quarter.
fn rise(points: &[(f64, Amount)]) -> f64 {
    let quarter = points.len().div_ceil(4);
    let mean = |points: &[(f64, Amount)]| {
        points.iter().map(|(_, amount)| amount.bytes as f64).sum::<f64>() / points.len().max(1) as f64
    };
    mean(&points[points.len() - quarter..]) - mean(&points[..quarter])
}

fn steady(label: &Label, amounts: &[(f64, Amount)]) -> Option<Rising> {
    let points: Points = amounts.iter().map(|&(at, amount)| (at, amount.bytes as f64)).collect();
    let growth = judge(&points);
    let Shape::Linear { rate } = growth.shape else { return None };
    (rate.low > 0.0).then_some(Rising {
        label: label.clone(),
        growth,
        rate: rate.value,
        first: amounts.first()?.1,
        last: amounts.last()?.1,
        points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(kind: &str, name: &str) -> Label {
        Label { kind: kind.into(), name: name.into(), version: None }
    }

    /// An hour with a leak, churn that collections clear, a cache that fills, and a rest that grows.
    fn moments() -> Vec<RubyMoment> {
        let amount = |bytes: f64| Amount { objects: (bytes / 40.0) as u64, bytes: bytes as u64 };
        let noise = |i: u32| f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
        let moment = |i: u32| {
            let t = f64::from(i) / 120.0;
            let sums = [
                (label("class", "Leak"), 2e6 + 5e6 * t + 2e4 * noise(i)),
                (label("class", "Churn"), 1e6 + 4e6 * f64::from(i % 7) / 7.0 + 1e5 * noise(i + 500)),
                (label("class", "Cache"), 6e6 * (1.0 - (-t / 0.15).exp()) + 2e4 * noise(i + 900)),
                (label("class", "Steady"), 3e6 + 1e4 * noise(i + 1300)),
                (label(REST, ""), 9e6 + 9e6 * t),
            ];
            let sums = sums.into_iter().map(|(label, bytes)| (label, amount(bytes))).collect();
            RubyMoment { time_s: f64::from(i) * 30.0, sums }
        };
        (0..120).map(moment).collect()
    }

    #[test]
    fn only_steady_growth_is_named() {
        let rubies = Rubies { classes: moments(), ..Rubies::default() };
        let all = RisingAll::of(&rubies);
        let [leak] = &all.classes[..] else { panic!("{:#?}", all.classes) };
        assert_eq!((all.looks, leak.label.name.raw()), (120, "Leak"));
        assert!((leak.rate * 3600.0 / 5e6 - 1.0).abs() < 0.02, "{}", leak.rate);
        assert!(leak.last.bytes > leak.first.bytes + 4_000_000 && leak.points.len() == 120);
    }

    #[test]
    fn a_few_looks_name_nothing() {
        let rubies = Rubies { classes: moments()[..12].to_vec(), ..Rubies::default() };
        assert_eq!(RisingAll::of(&rubies).classes, []);
        assert_eq!(RisingAll::of(&Rubies::default()), RisingAll::default());
    }
}
