//! Does a quantity grow, and how: not at all, linearly (a leak), or towards a limit (fragmentation, caches)?
//!
//! Memory over time is not a line with white noise. Garbage collection draws saw-teeth, so that neighbors are alike;
//! the load has its day; a deploy moves the level; the start is a warm-up of its own. So:
//!
//! 1. The series is averaged over [`BUCKETS`] equal spans of time.
//! 2. Each model is a linear regression with AR(1) errors (Prais and Winsten 1954, as iterated by Cochrane and Orcutt
//!    1949): what neighbors share is not counted as evidence twice.
//! 3. Each model may spend parameters on what is not growth: level steps where the series jumps, a daily wave if more
//!    than a day was seen, and a warm-up that is left out at the price of one parameter a bucket. Several steps must not
//!    all go one way: a staircase would explain any growth away, and any bend.
//! 4. The Bayesian information criterion (Schwarz 1978) chooses. A model with growth must beat the one without by
//!    [`STRONG`] (beyond "very strong" after Kass and Raftery 1995), and its growth must be worth mentioning.
//!
//! A limit that is approached so slowly that none of the bend was seen is linear as far as the data go; one that is
//! reached within the first tenth is a warm-up.

mod fit;

use fit::{Fit, Series};

/// Spans of time that a series is averaged over.
pub const BUCKETS: usize = 96;

/// How much better (in BIC) a model with growth must be than the one without. "Very strong" begins at 10; twice that,
/// because the best of several warm-ups and steps was chosen.
pub const STRONG: f64 = 20.0;

/// How much better a bend must be than a straight line.
const BEND: f64 = 6.0;

/// Growth over the whole series, as a share of its level, below which it is not worth mentioning.
const WORTH: f64 = 0.02;

/// Buckets with data below which nothing is said.
const FEWEST: usize = 24;

/// Seconds below which nothing is said.
const SHORTEST_S: f64 = 60.0;

/// A number with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The best value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What the data support.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "model")]
pub enum Verdict {
    /// No growth that could be told from noise, or none worth mentioning. The rate is by how much it could still grow.
    None {
        /// Units a second.
        rate: Estimate,
        /// The level.
        level: f64,
    },
    /// Growth without an end in sight.
    Linear {
        /// Units a second.
        rate: Estimate,
    },
    /// Growth towards a limit.
    Saturating {
        /// The limit.
        limit: Estimate,
        /// Seconds in which 63 % of the way are made.
        time_constant_s: f64,
        /// What was left to go when the series ended, in units.
        left: f64,
    },
    /// Too short, too few, or too noisy to say.
    NotEnough {
        /// Which of them.
        reason: Lack,
    },
}

/// What data lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Fewer than [`FEWEST`] spans of time have a value.
    Points,
    /// Shorter than a minute.
    Time,
    /// Noise hides growth that would matter.
    Precision,
}

/// The answer for one series.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Growth {
    /// What the data support.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Seconds at the start that were taken for a warm-up.
    pub warm_up_s: f64,
    /// Level steps that were found.
    pub steps: usize,
    /// By how much BIC prefers the verdict to no growth (or, for none, no growth to growth).
    pub evidence: f64,
}

/// Judges a series of (seconds, value), ascending in time.
#[must_use]
pub fn judge(points: &[(f64, f64)]) -> Growth {
    let lack =
        |reason| Growth { verdict: Verdict::NotEnough { reason }, warm_up_s: 0.0, steps: 0, evidence: 0.0 };
    let Some(series) = Series::of(points, BUCKETS) else { return lack(Lack::Points) };
    if series.span_s < SHORTEST_S {
        return lack(Lack::Time);
    }
    if series.values.len() < FEWEST {
        return lack(Lack::Points);
    }
    if series.is_constant() {
        let rate = Estimate { value: 0.0, low: 0.0, high: 0.0 };
        let verdict = Verdict::None { rate, level: series.level() };
        return Growth { verdict, warm_up_s: 0.0, steps: 0, evidence: f64::MAX };
    }
    let none = series.best(None);
    let linear = series.best(Some(fit::Trend::Linear));
    let bends = series.bends();
    let saturating = bends.iter().min_by(|a, b| a.bic.total_cmp(&b.bic));
    let (Some(none), Some(linear), Some(saturating)) = (none, linear, saturating) else {
        return lack(Lack::Points);
    };
    decide(&series, &none, &linear, saturating, &bends)
}

fn decide(series: &Series, none: &Fit, linear: &Fit, saturating: &Fit, bends: &[Fit]) -> Growth {
    let growth = |fit: &Fit, verdict, evidence| Growth {
        verdict,
        warm_up_s: series.time_of(fit.warm_up),
        steps: fit.steps.len(),
        evidence,
    };
    let matters = |fit: &Fit| fit.risen(series).abs() > WORTH * series.level().abs();
    let bend_wins = saturating.bic + BEND < linear.bic && !saturating.is_straight();
    let best = if bend_wins { saturating } else { linear };
    if best.bic + STRONG < none.bic && matters(best) {
        let evidence = none.bic - best.bic;
        if !bend_wins {
            return growth(linear, Verdict::Linear { rate: linear.slope(series) }, evidence);
        }
        if !saturating.is_warm_up() {
            let limit = saturating.limit(bends);
            let (time_constant_s, left) = (saturating.time_constant(series), saturating.left());
            return growth(saturating, Verdict::Saturating { limit, time_constant_s, left }, evidence);
        }
        // The rise was over after the first tenth: what came after it decides, once more and without it.
        let mut flat =
            growth(saturating, Verdict::None { rate: linear.slope(series), level: series.level() }, evidence);
        flat.warm_up_s = 3.0 * saturating.time_constant(series);
        let rest = series.after(flat.warm_up_s);
        if rest.values.len() >= FEWEST {
            let again = (rest.best(None), rest.best(Some(fit::Trend::Linear)));
            if let (Some(none), Some(linear)) = again {
                let grows =
                    linear.bic + STRONG < none.bic && linear.risen(&rest).abs() > WORTH * rest.level().abs();
                let rate = linear.slope(&rest);
                flat.verdict = if grows {
                    Verdict::Linear { rate }
                } else {
                    Verdict::None { rate, level: rest.level() }
                };
                flat.evidence = (none.bic - linear.bic).abs();
            }
        }
        return flat;
    }
    let rate = linear.slope(series);
    let hidden = (rate.high - rate.low) / 2.0 * series.span_s;
    if hidden > 0.5 * series.level().abs() {
        return growth(none, Verdict::NotEnough { reason: Lack::Precision }, 0.0);
    }
    growth(none, Verdict::None { rate, level: series.level() }, best.bic - none.bic)
}

#[cfg(test)]
mod tests;
