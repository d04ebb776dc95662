//! Determines the growth of a quantity: none, linear (a leak), or towards a limit (fragmentation, caches).
//!
//! Memory over time is not a line with white noise. Garbage collection produces saw-teeth, so neighboring
//! samples are alike; load varies over the day; a deploy shifts the level; the start is a warm-up. So:
//!
//! 1. The series is averaged over [`BUCKETS`] equal spans of time.
//! 2. Each model is a linear regression with AR(1) errors (Prais & Winsten 1954, iterated as by Cochrane &
//!    Orcutt 1949), so that information shared by neighbors does not count as evidence twice.
//! 3. Each model may spend parameters on changes other than growth: level steps where the series jumps, a
//!    daily wave if more than a day was seen, and a warm-up that is left out at the price of one parameter
//!    per bucket. Several steps must not all go the same way: a staircase would explain any growth away, and
//!    any bend.
//! 4. The Bayesian information criterion (Schwarz 1978) chooses. A model with growth must beat the one
//!    without by [`STRONG`] (beyond "very strong" after Kass & Raftery 1995), and its growth must be worth
//!    mentioning.
//!
//! An approach to a limit so slow that none of the bend is visible counts as linear. One that is over within
//! the first tenth counts as a warm-up.

mod fit;

use fit::{Fit, Series};

/// Number of time spans that a series is averaged over.
pub const BUCKETS: usize = 96;

/// Minimum BIC advantage of a model with growth over one without. "Very strong" begins at 10; this is twice
/// that, because each model is the best of several warm-ups and steps.
pub const STRONG: f64 = 20.0;

/// Minimum BIC advantage of a bend over a straight line.
const BEND: f64 = 6.0;

/// Growth over the whole series, as a share of its level, below which it is not worth mentioning.
const WORTH: f64 = 0.02;

/// Minimum number of buckets with data.
const FEWEST: usize = 24;

/// Minimum length of a series, in seconds.
const SHORTEST_S: f64 = 60.0;

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The best value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The shape of growth supported by the data.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case", tag = "model")]
pub enum Shape {
    /// No growth beyond noise, or none worth mentioning. The rate's interval bounds the growth that may be
    /// hidden.
    None {
        /// Units per second.
        rate: Estimate,
        /// The level.
        level: f64,
    },
    /// Steady growth with no end in sight.
    Linear {
        /// Units per second.
        rate: Estimate,
    },
    /// Growth towards a limit.
    Saturating {
        /// The limit.
        limit: Estimate,
        /// Time in seconds to cover 63 % of the distance.
        time_constant_s: f64,
        /// The remaining distance at the end of the series, in units.
        left: f64,
    },
    /// Too short, too sparse, or too noisy to say.
    NotEnough {
        /// The deficiency.
        reason: Shortfall,
    },
}

/// The reason why the data do not suffice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortfall {
    /// Fewer than [`FEWEST`] spans of time have a value.
    Points,
    /// Shorter than a minute.
    Time,
    /// Noise could hide growth that matters.
    Precision,
}

/// The result for one series.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Growth {
    /// The shape of growth supported by the data.
    #[serde(flatten)]
    pub shape: Shape,
    /// Seconds at the start that count as warm-up.
    pub warm_up_s: f64,
    /// Number of level steps.
    pub steps: usize,
    /// The margin by which BIC prefers this shape to no growth (or, for none, no growth to growth).
    pub evidence: f64,
}

/// Analyzes a series of (seconds, value), in chronological order.
#[must_use]
pub fn judge(points: &[(f64, f64)]) -> Growth {
    let Some(series) = Series::of(points, BUCKETS) else { return undetermined(Shortfall::Points) };
    if series.span_s < SHORTEST_S {
        return undetermined(Shortfall::Time);
    }
    if series.values.len() < FEWEST {
        return undetermined(Shortfall::Points);
    }
    if series.is_constant() {
        let rate = Estimate { value: 0.0, low: 0.0, high: 0.0 };
        let shape = Shape::None { rate, level: series.level() };
        return Growth { shape, warm_up_s: 0.0, steps: 0, evidence: f64::MAX };
    }
    Candidates::of(&series).map_or(undetermined(Shortfall::Points), |candidates| candidates.decide(&series))
}

fn undetermined(reason: Shortfall) -> Growth {
    Growth { shape: Shape::NotEnough { reason }, warm_up_s: 0.0, steps: 0, evidence: 0.0 }
}

/// The best model of each shape.
struct Candidates {
    none: Fit,
    linear: Fit,
    saturating: Fit,
    /// The best saturating model for each time constant.
    bends: Vec<Fit>,
}

impl Candidates {
    fn of(series: &Series) -> Option<Self> {
        let bends = series.bends();
        let saturating = bends.iter().min_by(|a, b| a.bic.total_cmp(&b.bic))?.clone();
        let (none, linear) = (series.best(None)?, series.best(Some(fit::Trend::Linear))?);
        Some(Candidates { none, linear, saturating, bends })
    }

    fn decide(&self, series: &Series) -> Growth {
        let Candidates { none, linear, saturating, bends } = self;
        let bend_wins = saturating.bic + BEND < linear.bic && !saturating.is_straight();
        let best = if bend_wins { saturating } else { linear };
        if !grows(best, none, series) {
            return self.without_growth(series, best);
        }
        let evidence = none.bic - best.bic;
        if !bend_wins {
            return growth(series, linear, Shape::Linear { rate: linear.slope(series) }, evidence);
        }
        if saturating.is_warm_up() {
            return self.after_warm_up(series, evidence);
        }
        let limit = saturating.limit(bends);
        let (time_constant_s, left) = (saturating.time_constant(series), saturating.left());
        growth(series, saturating, Shape::Saturating { limit, time_constant_s, left }, evidence)
    }

    fn without_growth(&self, series: &Series, best: &Fit) -> Growth {
        let rate = self.linear.slope(series);
        let hidden = (rate.high - rate.low) / 2.0 * series.span_s;
        if hidden > 0.5 * series.level().abs() {
            let shape = Shape::NotEnough { reason: Shortfall::Precision };
            return growth(series, &self.none, shape, 0.0);
        }
        let shape = Shape::None { rate, level: series.level() };
        growth(series, &self.none, shape, best.bic - self.none.bic)
    }

    /// Analyzes the series without its first tenth, in which the whole rise lies.
    fn after_warm_up(&self, series: &Series, evidence: f64) -> Growth {
        let shape = Shape::None { rate: self.linear.slope(series), level: series.level() };
        let mut flat = growth(series, &self.saturating, shape, evidence);
        flat.warm_up_s = 3.0 * self.saturating.time_constant(series);
        let steady = series.after(flat.warm_up_s);
        let fits = (steady.best(None), steady.best(Some(fit::Trend::Linear)));
        let (Some(none), Some(linear)) = fits else { return flat };
        if steady.values.len() < FEWEST {
            return flat;
        }
        let rate = linear.slope(&steady);
        let is_rising = grows(&linear, &none, &steady);
        flat.shape =
            if is_rising { Shape::Linear { rate } } else { Shape::None { rate, level: steady.level() } };
        flat.evidence = (none.bic - linear.bic).abs();
        flat
    }
}

/// Returns whether the model with growth is clearly better than the one without, and its growth is worth
/// mentioning.
fn grows(fit: &Fit, none: &Fit, series: &Series) -> bool {
    fit.bic + STRONG < none.bic && fit.risen(series).abs() > WORTH * series.level().abs()
}

fn growth(series: &Series, fit: &Fit, shape: Shape, evidence: f64) -> Growth {
    Growth { shape, warm_up_s: series.time_of(fit.warm_up), steps: fit.steps.len(), evidence }
}

#[cfg(test)]
mod tests;
