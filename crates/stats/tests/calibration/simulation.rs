//! A sequential experiment, simulated with the functions of `unbloat_stats::decision`.

use crate::noise::{Shape, normal};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use unbloat_stats::contrast::{Block, Summary, contrast};
use unbloat_stats::decision::{Answer, Demand, Requirement, Rule, Standing, answer};
use unbloat_stats::forecast::{Course, FUTILE, forecast};
use unbloat_stats::looks::{FIRST_LOOK, Looks};
use unbloat_stats::power::ALPHA;

/// The gain in memory that is worth having.
pub(crate) const WORTH: f64 = 1.0 / 1.05;
/// The margins of CPU per unit of work and of p95.
pub(crate) const LIMITS: [f64; 2] = [1.05, 1.10];

/// What a variant truly does to memory, CPU and p95.
pub(crate) type Effects = [f64; 3];

/// No effect.
pub(crate) const NONE: Effects = [1.0; 3];

/// An experiment as a plan makes it.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) variants: Vec<Effects>,
    /// Of the log ratio to a block's control, for memory, CPU and p95.
    pub(crate) log_sd: [f64; 3],
    pub(crate) shape: Shape,
    /// How much noisier the variants are than the control.
    pub(crate) noisier: f64,
    /// The share of runs that something disturbs. They are noticed and repeated once; what is disturbed again is lost.
    pub(crate) disturbed: f64,
    pub(crate) last: usize,
    /// Whether variants that can hardly win are dropped.
    pub(crate) drops: bool,
}

impl Setup {
    /// Noise of memory and p95 as measured in an open loop at half of a server's capacity. That of CPU is an assumption: 0.07
    /// was measured in short runs.
    pub(crate) fn usual(variants: &[Effects]) -> Self {
        Setup {
            variants: variants.to_vec(),
            log_sd: [0.03, 0.05, 0.08],
            shape: Shape::Normal,
            noisier: 1.0,
            disturbed: 0.0,
            last: 20,
            drops: false,
        }
    }

    fn rule(&self) -> Rule {
        let looks = Looks::every_block(self.last, 3 * self.variants.len(), ALPHA);
        Rule { alpha: ALPHA, looks, variants: self.variants.len(), requirements: 3 }
    }

    /// One run's value, unless it was lost.
    fn run(&self, effect: f64, spread: f64, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let is_lost = random.random_bool(self.disturbed) && random.random_bool(self.disturbed);
        let value = effect * (spread * self.shape.draw(random)).exp();
        (!is_lost).then_some(value)
    }

    /// One block's runs of one metric: of each variant that takes part. What a block has in common varies far more than
    /// the runs within it.
    fn block(&self, metric: usize, running: &[bool], random: &mut Xoshiro256PlusPlus) -> Vec<Option<Block>> {
        let spread = self.log_sd[metric] / 1.5f64.sqrt();
        let common = 200.0 * (0.3 * normal(random)).exp();
        let controls: Vec<f64> = (0..2).filter_map(|_| self.run(common, spread, random)).collect();
        self.variants
            .iter()
            .zip(running)
            .map(|(effects, is_running)| {
                let run = self.run(common * effects[metric], self.noisier * spread, random);
                let variant = run.filter(|_| *is_running)?;
                Some(Block { controls: controls.clone(), variant })
            })
            .collect()
    }

    /// Runs an experiment to its answer, or to the last block.
    pub(crate) fn experiment(&self, rule: &Rule, random: &mut Xoshiro256PlusPlus) -> Outcome {
        let requirements = [
            Requirement::Smaller { worth: WORTH },
            Requirement::AtMost { limit: LIMITS[0] },
            Requirement::AtMost { limit: LIMITS[1] },
        ];
        let demand = |requirement: &Requirement| Demand { requirement: *requirement, blocks: Vec::new() };
        let mut variants: Vec<Vec<Demand>> =
            self.variants.iter().map(|_| requirements.iter().map(demand).collect()).collect();
        let mut running = vec![true; variants.len()];
        let mut runs = 0;
        for blocks in 1..=self.last {
            for metric in 0..3 {
                let made = self.block(metric, &running, random);
                for (demands, block) in variants.iter_mut().zip(made) {
                    demands[metric].blocks.extend(block);
                }
            }
            runs += 2 + running.iter().filter(|is_running| **is_running).count();
            if blocks < FIRST_LOOK {
                continue;
            }
            let mut standings = rule.standings(&variants, 1);
            self.drop(rule, &variants, &mut standings, &mut running, self.last - blocks, blocks);
            let answer = answer(&standings, &ratios(&variants), WORTH);
            if answer != Answer::GoOn || blocks == self.last {
                return Outcome { answer, blocks, runs, variants };
            }
        }
        unreachable!("the last block ends every experiment");
    }

    /// Takes out of the race what is ruled out, and what can hardly win.
    fn drop(
        &self,
        rule: &Rule,
        variants: &[Vec<Demand>],
        standings: &mut [Standing],
        running: &mut [bool],
        left: usize,
        seed: usize,
    ) {
        for (is_running, standing) in running.iter_mut().zip(standings.iter()) {
            *is_running &= !matches!(standing, Standing::RuledOut(_));
        }
        let courses = self.drops.then(|| courses(variants, running)).flatten();
        let forecast = courses.and_then(|courses| forecast(rule, &courses, left, WORTH, seed as u64));
        for (index, chance) in forecast.iter().flat_map(|forecast| forecast.passing.iter().enumerate()) {
            running[index] &= standings[index] == Standing::Passes || *chance >= FUTILE;
        }
        for (standing, is_running) in standings.iter_mut().zip(running.iter()) {
            if let (Standing::Open(requirement), false) = (*standing, is_running) {
                *standing = Standing::Futile(requirement);
            }
        }
    }
}

fn ratios(variants: &[Vec<Demand>]) -> Vec<f64> {
    let ratio = |demands: &Vec<Demand>| Summary::of(&demands[0].blocks).map(|summary| summary.log_mean.exp());
    variants.iter().map(|demands| ratio(demands).unwrap_or(f64::INFINITY)).collect()
}

/// The variants as a forecast sees them.
pub(crate) fn courses(variants: &[Vec<Demand>], running: &[bool]) -> Option<Vec<Course>> {
    let course = |(demands, is_running): (&Vec<Demand>, &bool)| {
        let summed = |demand: &Demand| Some((demand.requirement, Summary::of(&demand.blocks)?));
        let requirements = demands.iter().map(summed).collect::<Option<_>>()?;
        Some(Course { requirements, is_running: *is_running })
    };
    variants.iter().zip(running).map(course).collect()
}

/// The end of an experiment.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) blocks: usize,
    pub(crate) runs: usize,
    pub(crate) variants: Vec<Vec<Demand>>,
}

/// What came of many experiments.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    experiments: usize,
    /// How often any variant was to be used.
    used: usize,
    kept: usize,
    blocks: usize,
    runs: usize,
    /// How often variant 0 is called different in CPU or p95, and looks worse.
    costs_found: usize,
    /// Intervals that cover their effect, and all.
    covered: [usize; 2],
}

impl Tally {
    /// Simulates `count` experiments; of every so many of them the intervals are made.
    pub(crate) fn of(setup: &Setup, count: usize, intervals_every: usize, seed: u64) -> Self {
        let rule = setup.rule();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut tally = Tally { experiments: count, ..Tally::default() };
        for number in 0..count {
            let outcome = setup.experiment(&rule, &mut random);
            match outcome.answer {
                Answer::Use(_) => tally.used += 1,
                Answer::Keep => tally.kept += 1,
                Answer::GoOn | Answer::Undecided => {}
            }
            tally.blocks += outcome.blocks;
            let is_different = &rule.differences(&outcome.variants, 1)[0];
            let is_cost = |metric: usize| {
                let looks_worse = Summary::of(&outcome.variants[0][metric].blocks).unwrap().log_mean > 0.0;
                is_different[metric] && looks_worse
            };
            tally.costs_found += usize::from(is_cost(1) || is_cost(2));
            tally.runs += outcome.runs;
            if number % intervals_every == 0 {
                tally.intervals(setup, &rule, &outcome, random.random());
            }
        }
        tally
    }

    fn intervals(&mut self, setup: &Setup, rule: &Rule, outcome: &Outcome, seed: u64) {
        for (demands, effects) in outcome.variants.iter().zip(&setup.variants) {
            for (demand, effect) in demands.iter().zip(effects) {
                let contrast = contrast(&demand.blocks, rule.interval_alpha(), seed).unwrap();
                let Some((low, high)) = contrast.interval else { continue };
                self.covered[0] += usize::from(low <= *effect && *effect <= high);
                self.covered[1] += 1;
            }
        }
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.experiments as f64
    }

    pub(crate) fn uses(&self) -> f64 {
        self.share(self.used)
    }

    pub(crate) fn keeps(&self) -> f64 {
        self.share(self.kept)
    }

    pub(crate) fn blocks(&self) -> f64 {
        self.blocks as f64 / self.experiments as f64
    }

    pub(crate) fn runs(&self) -> f64 {
        self.runs as f64 / self.experiments as f64
    }

    pub(crate) fn coverage(&self) -> f64 {
        self.covered[0] as f64 / self.covered[1] as f64
    }

    /// Whether the coverage lies within 94 to 96 %, but for twice the error of so many simulated intervals.
    pub(crate) fn covers(&self) -> bool {
        let doubt = 2.0 * (0.05 * 0.95 / self.covered[1] as f64).sqrt();
        (0.94 - doubt..=0.96 + doubt).contains(&self.coverage())
    }

    /// How often variant 0 is shown to be worse in CPU or p95.
    pub(crate) fn finds_cost(&self) -> f64 {
        self.share(self.costs_found)
    }

    /// One line of the table in docs/method/compare.md.
    pub(crate) fn print(&self, name: &str) {
        println!(
            "{name:44} use {:5.1} %  keep {:5.1} %  blocks {:4.1}  runs {:5.1}  coverage {:5.1} %",
            100.0 * self.uses(),
            100.0 * self.keeps(),
            self.blocks(),
            self.runs(),
            100.0 * self.coverage(),
        );
    }
}
