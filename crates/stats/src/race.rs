//! A sequential experiment: the standing of its variants after each block, the variants that get further
//! runs, and the answer.

use crate::contrast::Summary;
use crate::decision::{Answer, Demand, Rule, Standing, answer};
use crate::forecast::{Course, Forecast, forecast};
use crate::looks::FIRST_LOOK;

/// The variants of an experiment under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Race {
    /// The rule that decides it.
    pub rule: Rule,
    /// The ratio from which on a gain is worthwhile.
    pub worth: f64,
    /// The largest number of blocks.
    pub last: usize,
    /// Variants that can hardly pass are dropped, which takes a forecast at every look.
    pub drops: bool,
    /// The variants that get further runs.
    pub running: Vec<bool>,
}

/// The state of the race after a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Standing of each variant.
    pub standings: Vec<Standing>,
    /// The answer, if any.
    pub answer: Answer,
    /// Expectations of the remaining blocks; `None` with too few blocks, or if nothing is dropped.
    pub forecast: Option<Forecast>,
}

impl Race {
    /// Creates a race with all variants.
    #[must_use]
    pub fn new(rule: Rule, worth: f64, last: usize) -> Self {
        let running = vec![true; rule.variants];
        Race { rule, worth, last, drops: true, running }
    }

    /// Analyzes the data after this many blocks, and takes variants out of the race that are ruled out or can
    /// hardly pass. `barred` variants cannot be recommended whatever their figures. Before [`FIRST_LOOK`]
    /// there is only a forecast.
    #[must_use]
    pub fn look(&mut self, variants: &[Vec<Demand>], barred: &[bool], blocks: usize, seed: u64) -> Look {
        let mut standings = self.rule.standings(variants, seed);
        for (standing, barred) in standings.iter_mut().zip(barred) {
            if *barred {
                *standing = Standing::Barred;
            }
        }
        let left = self.last.saturating_sub(blocks);
        let is_time = blocks >= FIRST_LOOK;
        if is_time {
            self.leave(&standings);
        }
        let forecast = self.drops.then(|| self.forecast(variants, left, blocks as u64)).flatten();
        if let (true, true, Some(forecast)) = (is_time, left > 0, &forecast) {
            self.drop_futile(&standings, forecast);
        }
        for (standing, is_running) in standings.iter_mut().zip(&self.running) {
            if let (Standing::Open(requirement), false) = (*standing, is_running) {
                *standing = Standing::Futile(requirement);
            }
        }
        let answer = match is_time {
            true => answer(&standings, &ratios(variants), self.worth),
            false => Answer::GoOn,
        };
        Look { standings, answer, forecast }
    }

    fn leave(&mut self, standings: &[Standing]) {
        for (is_running, standing) in self.running.iter_mut().zip(standings) {
            *is_running &= !matches!(standing, Standing::RuledOut(_) | Standing::Barred);
        }
    }

    fn drop_futile(&mut self, standings: &[Standing], forecast: &Forecast) {
        for (index, (is_running, standing)) in self.running.iter_mut().zip(standings).enumerate() {
            *is_running &= *standing == Standing::Passes || !forecast.is_futile(index);
        }
    }

    /// Returns the forecast; `None` as long as a variant in the race has a comparison without blocks. A
    /// dropped variant without blocks does not count.
    fn forecast(&self, variants: &[Vec<Demand>], left: usize, seed: u64) -> Option<Forecast> {
        let (mut courses, mut indices) = (Vec::new(), Vec::new());
        for (index, demands) in variants.iter().enumerate() {
            let is_running = self.running.get(index).copied().unwrap_or(false);
            let summed = |demand: &Demand| Some((demand.requirement, Summary::of(&demand.blocks)?));
            match demands.iter().map(summed).collect::<Option<Vec<_>>>() {
                Some(requirements) => {
                    courses.push(Course { requirements, is_running });
                    indices.push(index);
                }
                None if is_running => return None,
                None => {}
            }
        }
        let of_courses = forecast(&self.rule, &courses, left, self.worth, seed)?;
        let spread = |chances: &[f64]| {
            let mut all = vec![0.0; variants.len()];
            indices.iter().zip(chances).for_each(|(&index, chance)| all[index] = *chance);
            all
        };
        let (passing, settled) = (spread(&of_courses.passing), spread(&of_courses.settled));
        Some(Forecast { passing, settled, ..of_courses })
    }
}

/// Returns the variants' estimates of the metric to minimize.
#[must_use]
pub fn ratios(variants: &[Vec<Demand>]) -> Vec<f64> {
    let gain = |demands: &Vec<Demand>| Summary::of(&demands.first()?.blocks);
    variants.iter().map(|demands| gain(demands).map_or(f64::INFINITY, |gain| gain.log_mean.exp())).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::contrast::Block;
    use crate::decision::Requirement;
    use crate::looks::Looks;

    const WORTH: f64 = 1.0 / 1.05;

    fn variant(gain: f64, cost: f64, blocks: usize) -> Vec<Demand> {
        let wobble = |i: usize| 1.0 + 0.01 * (i as f64 * 2.3).sin();
        let demand = |requirement, ratio: f64| {
            let block = |i: usize| Block { controls: vec![1.0, wobble(i + 7)], variant: ratio * wobble(i) };
            Demand { requirement, blocks: (0..blocks).map(block).collect() }
        };
        vec![
            demand(Requirement::Smaller { worth: WORTH }, gain),
            demand(Requirement::AtMost { limit: 1.05 }, cost),
        ]
    }

    fn race(variants: usize) -> Race {
        let looks = Looks::every_block(20, 2 * variants, 0.05);
        Race::new(Rule { alpha: 0.05, looks, variants, requirements: 2 }, WORTH, 20)
    }

    #[test]
    fn who_cannot_win_any_more_leaves_and_the_answer_ends_the_race() {
        let mut race = race(3);
        let variants =
            |blocks| vec![variant(0.7, 1.0, blocks), variant(0.6, 1.3, blocks), variant(1.0, 1.0, blocks)];
        let early = race.look(&variants(4), &[false; 3], 4, 1);
        assert_eq!(
            (early.answer, race.running.clone()),
            (Answer::GoOn, vec![true; 3]),
            "before the first look"
        );
        assert!(early.forecast.unwrap().chance > 0.9);
        // Six blocks have too few relabelings for the first look at six comparisons.
        let look = race.look(&variants(8), &[false; 3], 8, 1);
        assert_eq!(look.answer, Answer::Use(0));
        assert_eq!(race.running, [true, false, false]);
    }

    #[test]
    fn a_barred_variant_is_never_used_and_one_without_data_hides_no_forecast() {
        let mut race = race(2);
        let variants = [variant(0.7, 1.0, 6), variant(1.0, 1.0, 0)];
        assert_eq!(race.look(&variants, &[false; 2], 5, 1).forecast, None, "the second one may still come");
        let look = race.look(&variants, &[true, true], 6, 1);
        assert_eq!((look.standings, look.answer), (vec![Standing::Barred; 2], Answer::Keep));
        assert_eq!(race.running, [false, false]);
    }

    #[test]
    fn what_is_hopeless_is_dropped_as_undecided() {
        // Noise that no number of blocks overcomes, and a cost that looks larger than its margin.
        let noisy = |i: usize| 1.0 + 0.04 * (i as f64 * 2.3).sin();
        let blocks = |ratio: f64| {
            (0..18).map(|i| Block { controls: vec![1.0, noisy(i + 7)], variant: ratio * noisy(i) }).collect()
        };
        let demands = vec![
            Demand { requirement: Requirement::Smaller { worth: WORTH }, blocks: blocks(0.7) },
            Demand { requirement: Requirement::AtMost { limit: 1.05 }, blocks: blocks(1.052) },
        ];
        let mut race = race(1);
        let look = race.look(&[demands], &[false], 18, 1);
        assert_eq!((look.standings[0], look.answer), (Standing::Futile(1), Answer::Undecided));
    }
}
