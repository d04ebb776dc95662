//! Forecasts the probability of an answer within the remaining blocks, and the variants that can no longer
//! win.
//!
//! Futures are drawn according to the data: each comparison's mean and spread from their posterior under a
//! flat prior (so that five blocks promise less than fifteen with the same figures), then the blocks to come,
//! examined as the rule will examine them ("predictive power": D. J. Spiegelhalter, L. S. Freedman & P. R.
//! Blackburn, *Controlled Clinical Trials* 7, 1986). Decisions are approximated by Student's *t* alone, and
//! comparisons are drawn independently of each other.
//!
//! A variant that is dropped because it can hardly win any more cannot be recommended by mistake. So dropping
//! never increases the probability of a false answer.

use crate::contrast::Summary;
use crate::decision::{Answer, Finding, Requirement, Rule, Standing, answer, standing};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Number of futures drawn. A probability of 1 % is then known to about 0.5 %.
const FUTURES: usize = 400;

/// Probability of passing below which a variant is not worth further runs.
pub const FUTILE: f64 = 0.01;

/// The chance of passing from which on a variant counts as the answer.
const CERTAIN: f64 = 0.9;

/// One variant so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// Its requirements, with the metric to minimize first, and a summary of its blocks for each.
    pub requirements: Vec<(Requirement, Summary)>,
    /// The variant gets further runs.
    pub is_running: bool,
}

/// A forecast.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// The probability of an answer within the remaining blocks.
    pub chance: f64,
    /// Further blocks until the answer, or until none are left; the mean over all futures.
    pub blocks: f64,
    /// Each variant's probability of passing within them, if no other variant ends the experiment earlier.
    pub passing: Vec<f64>,
    /// Each variant's chance of passing or being ruled out within them, likewise.
    pub settled: Vec<f64>,
}

impl Forecast {
    /// Returns whether a variant is not worth further runs: it can hardly pass, and ruling it out is useless,
    /// because that can hardly be done either or because another variant will almost certainly be the answer.
    #[must_use]
    pub fn is_futile(&self, variant: usize) -> bool {
        let others = self.passing.iter().enumerate().filter(|(other, _)| *other != variant);
        let is_other_certain = others.map(|(_, chance)| *chance).fold(0.0, f64::max) >= CERTAIN;
        self.passing[variant] < FUTILE && (self.settled[variant] < FUTILE || is_other_certain)
    }
}

/// Draws the futures of an experiment that may continue for `left` blocks. `worth` is the ratio from which a
/// gain is worthwhile. `None` if a comparison has fewer than two blocks, which say nothing about the spread.
#[must_use]
pub fn forecast(rule: &Rule, courses: &[Course], left: usize, worth: f64, seed: u64) -> Option<Forecast> {
    let summaries = || courses.iter().flat_map(|course| &course.requirements).map(|(_, summary)| summary);
    let (fewest, most) = (summaries().map(|s| s.blocks).min()?, summaries().map(|s| s.blocks).max()?);
    if fewest < 2 {
        return None;
    }
    let criteria: Vec<Criteria> = (fewest..=most + left).map(|blocks| Criteria::of(rule, blocks)).collect();
    let drawing = Drawing { courses, criteria: &criteria, fewest, left, worth };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let none = vec![0.0; courses.len()];
    let mut sum = Forecast { chance: 0.0, blocks: 0.0, passing: none.clone(), settled: none };
    for _ in 0..FUTURES {
        let future = drawing.draw(&mut random);
        sum.chance += f64::from(u8::from(future.is_answered)) / FUTURES as f64;
        sum.blocks += future.blocks as f64 / FUTURES as f64;
        for (chances, came) in [(&mut sum.passing, &future.passing), (&mut sum.settled, &future.settled)] {
            for (chance, came) in chances.iter_mut().zip(came) {
                *chance += f64::from(u8::from(*came)) / FUTURES as f64;
            }
        }
    }
    Some(sum)
}

/// Critical values of *t* after a number of blocks; infinite before the first look.
#[derive(Debug, Clone, Copy)]
struct Criteria {
    difference: f64,
    met: f64,
    gain_refuted: f64,
    cost_refuted: f64,
}

impl Criteria {
    fn of(rule: &Rule, blocks: usize) -> Self {
        let comparisons = (rule.variants * rule.requirements).max(1) as f64;
        let critical = |alpha: f64| match StudentsT::new(0.0, 1.0, blocks as f64 - 1.0) {
            Ok(law) if alpha > 0.0 => law.inverse_cdf(1.0 - alpha / 2.0),
            _ => f64::INFINITY,
        };
        Criteria {
            difference: critical(rule.difference_alpha(blocks) / comparisons),
            met: critical(rule.met_alpha(blocks)),
            gain_refuted: critical(rule.refuted_alpha(Requirement::Smaller { worth: 1.0 }, blocks)),
            cost_refuted: critical(rule.refuted_alpha(Requirement::AtMost { limit: 1.0 }, blocks)),
        }
    }

    fn finding(self, requirement: Requirement, sums: &Sums) -> Finding {
        let (center, error) = (sums.mean(), sums.error());
        let (is_met, is_refuted) = match requirement {
            Requirement::Smaller { worth } => {
                (center < -self.difference * error, center - self.gain_refuted * error > worth.ln())
            }
            Requirement::AtMost { limit } => {
                (center + self.met * error <= limit.ln(), center - self.cost_refuted * error > limit.ln())
            }
        };
        match (is_met, is_refuted) {
            (true, _) => Finding::Met,
            (false, true) => Finding::Refuted,
            (false, false) => Finding::Open,
        }
    }
}

/// Running sums of one comparison.
#[derive(Debug, Clone, Copy)]
struct Sums {
    blocks: usize,
    sum: f64,
    squares: f64,
    /// The true values in this future.
    truth: (f64, f64),
}

impl Sums {
    fn draw(summary: &Summary, random: &mut Xoshiro256PlusPlus) -> Self {
        let count = summary.blocks as f64;
        let chi_square: f64 = (1..summary.blocks).map(|_| normal(random).powi(2)).sum();
        let spread = summary.log_sd * ((count - 1.0) / chi_square).sqrt();
        let center = summary.log_mean + spread / count.sqrt() * normal(random);
        let squares = summary.log_sd.powi(2) * (count - 1.0) + count * summary.log_mean.powi(2);
        Sums { blocks: summary.blocks, sum: count * summary.log_mean, squares, truth: (center, spread) }
    }

    fn add_block(&mut self, random: &mut Xoshiro256PlusPlus) {
        let log_ratio = self.truth.0 + self.truth.1 * normal(random);
        self.blocks += 1;
        self.sum += log_ratio;
        self.squares += log_ratio * log_ratio;
    }

    fn mean(&self) -> f64 {
        self.sum / self.blocks as f64
    }

    fn error(&self) -> f64 {
        let count = self.blocks as f64;
        let squares = (self.squares - self.sum * self.sum / count).max(0.0);
        (squares / (count - 1.0) / count).sqrt()
    }
}

struct Drawing<'a> {
    courses: &'a [Course],
    /// Starting at `fewest` blocks.
    criteria: &'a [Criteria],
    fewest: usize,
    left: usize,
    worth: f64,
}

struct Future {
    is_answered: bool,
    /// Further blocks until the answer, or until it is clear that there is none.
    blocks: usize,
    /// The variants that pass at some look, if they get that far.
    passing: Vec<bool>,
    /// The variants that pass or are ruled out.
    settled: Vec<bool>,
}

impl Drawing<'_> {
    /// Continues to the last block even after an answer: a variant is not hopeless because another one wins
    /// first.
    fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Future {
        let draw = |course: &Course, random: &mut Xoshiro256PlusPlus| -> Vec<Sums> {
            course.requirements.iter().map(|(_, summary)| Sums::draw(summary, random)).collect()
        };
        let mut sums: Vec<Vec<Sums>> = self.courses.iter().map(|course| draw(course, random)).collect();
        let (mut passing, mut settled) = (vec![false; sums.len()], vec![false; sums.len()]);
        let mut end = None;
        for blocks in 1..=self.left {
            for (_, sums) in self.courses.iter().zip(&mut sums).filter(|(course, _)| course.is_running) {
                sums.iter_mut().for_each(|sums| sums.add_block(random));
            }
            let standings = self.standings(&sums);
            for ((passes, settles), standing) in passing.iter_mut().zip(&mut settled).zip(&standings) {
                *passes |= *standing == Standing::Passes;
                *settles |= matches!(standing, Standing::Passes | Standing::RuledOut(_));
            }
            end = end.or_else(|| match answer(&standings, &ratios(&sums), self.worth) {
                Answer::Use(_) | Answer::Keep => Some((true, blocks)),
                Answer::Undecided => Some((false, blocks)),
                Answer::GoOn => None,
            });
        }
        let (is_answered, blocks) = end.unwrap_or((false, self.left));
        Future { is_answered, blocks, passing, settled }
    }

    /// Returns the standings. A variant without further runs stays undecided.
    fn standings(&self, sums: &[Vec<Sums>]) -> Vec<Standing> {
        let of_course = |(course, sums): (&Course, &Vec<Sums>)| {
            let found = course.requirements.iter().zip(sums).map(|((requirement, _), sums)| {
                self.criteria[sums.blocks - self.fewest].finding(*requirement, sums)
            });
            match standing(&found.collect::<Vec<_>>()) {
                Standing::Open(requirement) if !course.is_running => Standing::Futile(requirement),
                standing => standing,
            }
        };
        self.courses.iter().zip(sums).map(of_course).collect()
    }
}

fn ratios(sums: &[Vec<Sums>]) -> Vec<f64> {
    sums.iter().map(|sums| sums.first().map_or(f64::INFINITY, |gain| gain.mean().exp())).collect()
}

/// Draws a standard normal deviate (Box & Muller 1958).
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (radius, angle): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::looks::Looks;

    const WORTH: f64 = 1.0 / 1.05;

    fn course(blocks: usize, gain: f64, cost: f64, log_sd: f64) -> Course {
        let summary = |ratio: f64| Summary { blocks, log_mean: ratio.ln(), log_sd };
        let requirements = vec![
            (Requirement::Smaller { worth: WORTH }, summary(gain)),
            (Requirement::AtMost { limit: 1.05 }, summary(cost)),
        ];
        Course { requirements, is_running: true }
    }

    fn of(courses: &[Course], left: usize) -> Forecast {
        let looks = Looks::every_block(20, 2 * courses.len(), 0.05);
        let rule = Rule { alpha: 0.05, looks, variants: courses.len(), requirements: 2 };
        forecast(&rule, courses, left, WORTH, 1).unwrap()
    }

    #[test]
    fn a_clear_case_is_answered_soon_and_a_noisy_one_is_not() {
        let (clear, noisy) = (of(&[course(6, 0.7, 1.0, 0.015)], 14), of(&[course(6, 0.7, 1.04, 0.15)], 14));
        assert!(clear.chance > 0.95 && clear.blocks < 3.0 && clear.passing[0] > 0.95, "{clear:?}");
        assert!(noisy.chance < 0.4 && noisy.blocks > 8.0, "{noisy:?}");
    }

    #[test]
    fn more_blocks_left_mean_a_better_chance() {
        let chances: Vec<f64> = [1, 4, 14].map(|left| of(&[course(6, 0.8, 1.0, 0.05)], left).chance).to_vec();
        assert!(chances[0] < chances[1] && chances[1] < chances[2], "{chances:?}");
        assert_eq!(of(&[course(6, 0.8, 1.0, 0.05)], 0).chance, 0.0);
    }

    #[test]
    fn a_variant_far_beyond_the_margin_is_futile() {
        let forecast = of(&[course(10, 0.8, 1.12, 0.05), course(10, 0.8, 1.0, 0.03)], 10);
        assert!(forecast.passing[0] < FUTILE && forecast.passing[1] > 0.9, "{forecast:?}");
        assert!(forecast.is_futile(0) && !forecast.is_futile(1));
    }

    #[test]
    fn a_variant_without_effect_is_run_until_it_is_ruled_out() {
        let forecast = of(&[course(6, 1.0, 1.0, 0.03)], 14);
        assert!(
            forecast.passing[0] < 0.05 && forecast.settled[0] > 0.9 && !forecast.is_futile(0),
            "{forecast:?}"
        );
        // A variant at its margin will be neither.
        let at_the_limit = of(&[course(18, 0.7, 1.05, 0.05)], 2);
        assert!(at_the_limit.is_futile(0), "{at_the_limit:?}");
    }

    #[test]
    fn a_variant_that_is_not_run_holds_nothing_up() {
        let mut open = course(7, 0.6, 1.04, 0.08);
        open.is_running = false;
        let forecast = of(&[open, course(8, 0.8, 1.0, 0.01)], 5);
        assert!(forecast.chance > 0.95 && forecast.passing[0] == 0.0, "{forecast:?}");
    }
}
