//! Regressions with AR(1) errors on an averaged series.

use super::Estimate;

/// Seconds per day.
const DAY_S: f64 = 86_400.0;

/// The 97.5 % quantile of the normal distribution; there are dozens of degrees of freedom.
const Z: f64 = 2.0;

/// Maximum number of level steps in a model.
const MOST_STEPS: usize = 3;

/// Number of candidate places for a step: the largest jumps.
const STEP_PLACES: usize = 4;

/// Candidate lengths of the warm-up, in buckets.
const WARM_UPS: [usize; 5] = [0, 1, 2, 4, 8];

/// Candidate time constants, as shares of the span.
const TIME_CONSTANTS: [f64; 18] =
    [0.01, 0.015, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.13, 0.17, 0.22, 0.28, 0.36, 0.46, 0.6, 0.8, 1.1, 1.6];

/// The time constant above which hardly any bend is visible.
const STRAIGHT: f64 = 1.0;

/// The course of the expected value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trend {
    /// Proportional to time.
    Linear,
    /// Proportional to 1 − exp(−t/τ), with τ as a share of the span.
    Saturating(f64),
}

/// A series averaged over equal time spans; times run from 0 to 1.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) values: Vec<f64>,
    times: Vec<f64>,
    start_s: f64,
    pub(super) span_s: f64,
}

/// A fitted model.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    trend: Option<Trend>,
    /// Number of buckets left out at the start.
    pub(super) warm_up: usize,
    /// Buckets before which the level steps.
    pub(super) steps: Vec<usize>,
    pub(super) bic: f64,
    /// Intercept, trend, then steps and daily wave.
    coefficients: Vec<f64>,
    /// Standard error of the trend's coefficient.
    error: f64,
}

impl Series {
    /// Averages points of (seconds, value); `None` without at least two different times.
    pub(super) fn of(points: &[(f64, f64)], buckets: usize) -> Option<Self> {
        let finite: Vec<_> = points.iter().filter(|(t, y)| t.is_finite() && y.is_finite()).collect();
        let (start_s, end_s) = (finite.first()?.0, finite.last()?.0);
        let span_s = end_s - start_s;
        (span_s > 0.0).then_some(())?;
        let mut sums = vec![(0.0, 0.0, 0u32); buckets];
        for (t, y) in finite {
            let bucket = (((t - start_s) / span_s) * buckets as f64) as usize;
            let sum = sums.get_mut(bucket.min(buckets - 1))?;
            *sum = (sum.0 + (t - start_s) / span_s, sum.1 + y, sum.2 + 1);
        }
        let filled = sums.iter().filter(|sum| sum.2 > 0);
        let (times, values) = filled.map(|&(t, y, n)| (t / f64::from(n), y / f64::from(n))).unzip();
        Some(Series { values, times, start_s, span_s })
    }

    /// Returns the part after this many seconds.
    pub(super) fn after(&self, seconds: f64) -> Series {
        let cut = (seconds / self.span_s).clamp(0.0, 0.9);
        let kept = self.times.iter().zip(&self.values).filter(|(t, _)| **t >= cut);
        let (times, values) = kept.map(|(t, y)| ((t - cut) / (1.0 - cut), *y)).unzip();
        Series { values, times, start_s: self.start_s + cut * self.span_s, span_s: (1.0 - cut) * self.span_s }
    }

    pub(super) fn is_constant(&self) -> bool {
        let level = self.level().abs();
        self.values.iter().all(|y| (y - self.values[0]).abs() <= 1e-9 * level.max(1e-300))
    }

    pub(super) fn level(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len().max(1) as f64
    }

    pub(super) fn time_of(&self, bucket: usize) -> f64 {
        if bucket == 0 { 0.0 } else { self.times.get(bucket).copied().unwrap_or(1.0) * self.span_s }
    }

    /// Returns the best model with this trend.
    pub(super) fn best(&self, trend: Option<Trend>) -> Option<Fit> {
        WARM_UPS
            .iter()
            .filter_map(|&warm_up| self.best_from(trend, warm_up))
            .min_by(|a, b| a.bic.total_cmp(&b.bic))
    }

    /// Returns the best saturating model for each time constant.
    pub(super) fn bends(&self) -> Vec<Fit> {
        TIME_CONSTANTS.iter().filter_map(|&tau| self.best(Some(Trend::Saturating(tau)))).collect()
    }

    /// Adds steps one by one as long as BIC improves.
    fn best_from(&self, trend: Option<Trend>, warm_up: usize) -> Option<Fit> {
        let mut best = self.fit(trend, warm_up, &[])?;
        let places = self.jumps(warm_up);
        while best.steps.len() < MOST_STEPS {
            let more = places.iter().filter(|place| !best.steps.contains(place)).filter_map(|&place| {
                let mut steps = best.steps.clone();
                steps.push(place);
                self.fit(trend, warm_up, &steps).filter(|fit| !fit.is_staircase())
            });
            match more.min_by(|a, b| a.bic.total_cmp(&b.bic)).filter(|fit| fit.bic < best.bic) {
                Some(better) => best = better,
                None => break,
            }
        }
        Some(best)
    }

    /// Returns the places where the level changes most, judged by four buckets on each side.
    fn jumps(&self, warm_up: usize) -> Vec<usize> {
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let jump = |i: usize| (mean(&self.values[i..i + 4]) - mean(&self.values[i - 4..i])).abs();
        let last = self.values.len().saturating_sub(4);
        let mut places: Vec<(usize, f64)> = (warm_up + 4..last).map(|i| (i, jump(i))).collect();
        places.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut chosen: Vec<usize> = Vec::new();
        for (place, _) in places {
            if chosen.len() < STEP_PLACES && chosen.iter().all(|other| other.abs_diff(place) > 3) {
                chosen.push(place);
            }
        }
        chosen
    }

    fn regressors(&self, trend: Option<Trend>, steps: &[usize], i: usize) -> Vec<f64> {
        let t = self.times[i];
        let mut row = vec![1.0];
        row.extend(trend.map(|trend| match trend {
            Trend::Linear => t,
            Trend::Saturating(tau) => 1.0 - (-t / tau).exp(),
        }));
        row.extend(steps.iter().map(|&step| if i >= step { 1.0 } else { 0.0 }));
        if self.span_s > 1.2 * DAY_S {
            let phase = (self.start_s + t * self.span_s) / DAY_S * std::f64::consts::TAU;
            row.extend([phase.sin(), phase.cos()]);
        }
        row
    }

    /// Fits by ordinary least squares, then repeatedly on data whitened for AR(1) errors.
    fn fit(&self, trend: Option<Trend>, warm_up: usize, steps: &[usize]) -> Option<Fit> {
        let rows: Vec<Vec<f64>> =
            (warm_up..self.values.len()).map(|i| self.regressors(trend, steps, i)).collect();
        let y = self.values.get(warm_up..)?;
        let n = y.len();
        let k = rows.first()?.len();
        (n > 2 * k + 6).then_some(())?;
        let mut solution = solve(&rows, y)?;
        let mut rho = 0.0;
        let (mut whitened, mut target) = (rows.clone(), y.to_vec());
        for _ in 0..3 {
            let residuals: Vec<f64> =
                rows.iter().zip(y).map(|(row, y)| y - dot(row, &solution.coefficients)).collect();
            rho = autocorrelation(&residuals, k);
            let first = (1.0 - rho * rho).sqrt();
            let before = |i: usize, j: usize| if i == 0 { 0.0 } else { rho * rows[i - 1][j] };
            for i in 0..n {
                let scale = if i == 0 { first } else { 1.0 };
                whitened[i] = (0..k).map(|j| scale * rows[i][j] - before(i, j)).collect();
                target[i] = scale * y[i] - if i == 0 { 0.0 } else { rho * y[i - 1] };
            }
            solution = solve(&whitened, &target)?;
        }
        let square = |(row, y): (&Vec<f64>, &f64)| (y - dot(row, &solution.coefficients)).powi(2);
        let rss: f64 = whitened.iter().zip(&target).map(square).sum();
        // A series without any noise counts as known to one part in a million.
        let floor = (self.level().abs() * 1e-6).powi(2) + f64::MIN_POSITIVE;
        let variance = (rss / n as f64).max(floor);
        // All models are compared on all buckets: one parameter each explains those of the warm-up perfectly.
        let all = self.values.len() as f64;
        // A step has a place and a height, a bend a time constant; then AR(1) and the variance.
        let bend = usize::from(matches!(trend, Some(Trend::Saturating(_))));
        let parameters = (k + steps.len() + bend + warm_up + 2) as f64;
        let bic = all * variance.ln() - (1.0 - rho * rho).ln() + parameters * all.ln();
        let error = (rss / (n - k) as f64 * solution.inverse_diagonal(1)).max(0.0).sqrt();
        Some(Fit { trend, warm_up, steps: steps.to_vec(), bic, coefficients: solution.coefficients, error })
    }
}

impl Fit {
    /// Returns whether several steps all go in one direction: growth or a bend in disguise, rather than
    /// levels shifted by deploys.
    fn is_staircase(&self) -> bool {
        let first = 1 + usize::from(self.trend.is_some());
        let heights = self.coefficients.get(first..first + self.steps.len()).unwrap_or_default();
        let up = heights.iter().filter(|height| **height > 0.0).count();
        heights.len() > 1 && (up == 0 || up == heights.len())
    }

    fn trend_coefficient(&self) -> f64 {
        self.coefficients.get(1).copied().unwrap_or(0.0)
    }

    /// Returns the rise of the trend alone over the series.
    pub(super) fn risen(&self, series: &Series) -> f64 {
        let from = series.times.get(self.warm_up).copied().unwrap_or(0.0);
        match self.trend {
            None => 0.0,
            Some(Trend::Linear) => self.trend_coefficient() * (1.0 - from),
            Some(Trend::Saturating(tau)) => {
                self.trend_coefficient() * ((-from / tau).exp() - (-1.0 / tau).exp())
            }
        }
    }

    /// Returns the slope of a linear model in units per second.
    pub(super) fn slope(&self, series: &Series) -> Estimate {
        let (value, error) = (self.trend_coefficient() / series.span_s, Z * self.error / series.span_s);
        Estimate { value, low: value - error, high: value + error }
    }

    pub(super) fn time_constant(&self, series: &Series) -> f64 {
        match self.trend {
            Some(Trend::Saturating(tau)) => tau * series.span_s,
            _ => f64::INFINITY,
        }
    }

    /// Returns whether the data show hardly any bend.
    pub(super) fn is_straight(&self) -> bool {
        matches!(self.trend, Some(Trend::Saturating(tau)) if tau >= STRAIGHT)
    }

    /// Returns whether nearly all of the rise lies in the first tenth.
    pub(super) fn is_warm_up(&self) -> bool {
        matches!(self.trend, Some(Trend::Saturating(tau)) if tau * 3.0 <= 0.1)
    }

    /// Returns the distance to the limit at the end of the series.
    pub(super) fn left(&self) -> f64 {
        match self.trend {
            Some(Trend::Saturating(tau)) => self.trend_coefficient() * (-1.0 / tau).exp(),
            _ => 0.0,
        }
    }

    /// Returns the limit, over all time constants that the data do not rule out (profile likelihood).
    pub(super) fn limit(&self, bends: &[Fit]) -> Estimate {
        const NOT_RULED_OUT: f64 = 3.84;
        let end = Fit::level_at_limit;
        let value = end(self);
        let mut estimate = Estimate { value, low: value, high: value };
        for fit in bends.iter().filter(|fit| fit.bic - self.bic <= NOT_RULED_OUT) {
            estimate.low = estimate.low.min(end(fit) - Z * fit.error);
            estimate.high = estimate.high.max(end(fit) + Z * fit.error);
        }
        estimate
    }

    /// Returns intercept, all steps and the whole rise.
    fn level_at_limit(&self) -> f64 {
        self.coefficients.iter().take(2 + self.steps.len()).sum()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the lag-1 autocorrelation of residuals, corrected for the bias of a regression with `k`
/// parameters. It is capped short of a random walk, which could show any trend.
fn autocorrelation(residuals: &[f64], k: usize) -> f64 {
    let n = residuals.len() as f64;
    let squares: f64 = residuals.iter().map(|r| r * r).sum();
    if squares <= 0.0 {
        return 0.0;
    }
    let products: f64 = residuals.windows(2).map(|w| w[0] * w[1]).sum();
    (products / squares + k as f64 / n).clamp(0.0, 0.9)
}

struct Solution {
    coefficients: Vec<f64>,
    inverse: Vec<Vec<f64>>,
}

impl Solution {
    fn inverse_diagonal(&self, j: usize) -> f64 {
        self.inverse.get(j).and_then(|row| row.get(j)).copied().unwrap_or(0.0)
    }
}

/// Solves least squares by the normal equations, inverted with pivoting; `None` if the regressors depend on
/// each other.
fn solve(rows: &[Vec<f64>], y: &[f64]) -> Option<Solution> {
    let k = rows.first()?.len();
    let mut normal = vec![vec![0.0; 2 * k]; k];
    let mut right = vec![0.0; k];
    for (row, y) in rows.iter().zip(y) {
        for i in 0..k {
            right[i] += row[i] * y;
            for j in 0..k {
                normal[i][j] += row[i] * row[j];
            }
        }
    }
    for (i, row) in normal.iter_mut().enumerate() {
        row[k + i] = 1.0;
    }
    for column in 0..k {
        let pivot =
            (column..k).max_by(|&a, &b| normal[a][column].abs().total_cmp(&normal[b][column].abs()))?;
        normal.swap(column, pivot);
        let divisor = normal[column][column];
        (divisor.abs() > 1e-10).then_some(())?;
        normal[column].iter_mut().for_each(|value| *value /= divisor);
        let eliminated = normal[column].clone();
        for (_, row) in normal.iter_mut().enumerate().filter(|(i, _)| *i != column) {
            let factor = row[column];
            row.iter_mut().zip(&eliminated).for_each(|(value, e)| *value -= factor * e);
        }
    }
    let inverse: Vec<Vec<f64>> = normal.into_iter().map(|row| row[k..].to_vec()).collect();
    let coefficients = inverse.iter().map(|row| dot(row, &right)).collect();
    Some(Solution { coefficients, inverse })
}
