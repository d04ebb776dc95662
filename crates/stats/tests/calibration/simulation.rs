//! A sequential experiment, simulated with the functions of `unbloat_stats::decision`.

use crate::doubt;
use crate::noise::{Shape, normal};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};
use unbloat_stats::contrast::{Block, Summary, bounds};
use unbloat_stats::decision::{Answer, Demand, Requirement, Rule};
use unbloat_stats::looks::{FIRST_LOOK, Looks};
use unbloat_stats::power::ALPHA;
use unbloat_stats::race::Race;

/// The worthwhile gain in memory.
pub(crate) const WORTH: f64 = 1.0 / 1.05;
/// The margins of CPU per unit of work and of p95.
pub(crate) const LIMITS: [f64; 2] = [1.05, 1.10];

/// The true effects of a variant on memory, CPU and p95.
pub(crate) type Effects = [f64; 3];

/// No effect.
pub(crate) const NONE: Effects = [1.0; 3];

/// An experiment according to a plan.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) variants: Vec<Effects>,
    /// Standard deviation of the log ratio to a block's control, for memory, CPU and p95.
    pub(crate) log_sd: [f64; 3],
    pub(crate) shape: Shape,
    /// Noise of the variants relative to the control.
    pub(crate) noisier: f64,
    /// Share of disturbed runs. They are detected and repeated once; runs disturbed again are lost.
    pub(crate) disturbed: f64,
    pub(crate) last: usize,
    /// Variants that can hardly win are dropped.
    pub(crate) drops: bool,
}

impl Setup {
    /// Creates a setup with the noise of memory and p95 as measured in an open loop at half of a server's
    /// capacity. That of CPU is an assumption: 0.07 was measured in short runs.
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

    /// The chance that the first variant passes at the last look, by normal theory: each requirement's estimate lies so many
    /// standard errors from its limit, and Student's *t* must reach the level of that look. Earlier looks only add to it.
    pub(crate) fn power_of_the_last_look(&self) -> f64 {
        let (rule, blocks) = (self.rule(), self.last);
        let degrees = blocks as f64 - 1.0;
        let passes = |metric: usize| {
            let (limit, alpha) = match metric {
                0 => (1.0, rule.difference_alpha(blocks) / (3 * self.variants.len()) as f64),
                cost => (LIMITS[cost - 1], rule.met_alpha(blocks)),
            };
            let error = self.log_sd[metric] / (blocks as f64).sqrt();
            let away = (limit / self.variants[0][metric]).ln() / error;
            let student = StudentsT::new(0.0, 1.0, degrees).unwrap();
            let reach = student.inverse_cdf(1.0 - alpha / 2.0);
            // The normal approximation of the noncentral t (Johnson & Welch, Biometrika 31, 1940).
            let z = (away * (1.0 - 0.25 / degrees) - reach) / (1.0 + reach * reach / (2.0 * degrees)).sqrt();
            Normal::standard().cdf(z)
        };
        (0..3).map(passes).product()
    }

    fn rule(&self) -> Rule {
        let looks = Looks::every_block(self.last, 3 * self.variants.len(), ALPHA);
        Rule { alpha: ALPHA, looks, variants: self.variants.len(), requirements: 3 }
    }

    /// Returns one run's value, unless it was lost.
    fn run(&self, effect: f64, spread: f64, random: &mut Xoshiro256PlusPlus) -> Option<f64> {
        let is_lost = random.random_bool(self.disturbed) && random.random_bool(self.disturbed);
        let value = effect * (spread * self.shape.draw(random)).exp();
        (!is_lost).then_some(value)
    }

    /// Returns one block's runs of one metric, for each participating variant. The conditions of a block vary
    /// far more than the runs within it.
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
    pub(crate) fn experiment(&self, rule: &Rule, random: &mut Xoshiro256PlusPlus) -> Ended {
        let requirements = [
            Requirement::Smaller { worth: WORTH },
            Requirement::AtMost { limit: LIMITS[0] },
            Requirement::AtMost { limit: LIMITS[1] },
        ];
        let demand = |requirement: &Requirement| Demand { requirement: *requirement, blocks: Vec::new() };
        let mut variants: Vec<Vec<Demand>> =
            self.variants.iter().map(|_| requirements.iter().map(demand).collect()).collect();
        let mut race = Race { drops: self.drops, ..Race::new(rule.clone(), WORTH, self.last) };
        let barred = vec![false; variants.len()];
        let mut runs = 0;
        for blocks in 1..=self.last {
            for metric in 0..3 {
                let made = self.block(metric, &race.running, random);
                for (demands, block) in variants.iter_mut().zip(made) {
                    demands[metric].blocks.extend(block);
                }
            }
            runs += 2 + race.running.iter().filter(|is_running| **is_running).count();
            if blocks < FIRST_LOOK {
                continue;
            }
            let answer = race.look(&variants, &barred, blocks, 1).answer;
            if answer != Answer::GoOn || blocks == self.last {
                return Ended { answer, blocks, runs, variants };
            }
        }
        unreachable!("the last block ends every experiment");
    }
}

/// The end of an experiment.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) answer: Answer,
    pub(crate) blocks: usize,
    pub(crate) runs: usize,
    pub(crate) variants: Vec<Vec<Demand>>,
}

/// The outcomes of many experiments.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    experiments: usize,
    /// Number of times any variant was to be used.
    used: usize,
    kept: usize,
    blocks: usize,
    runs: usize,
    /// Number of times variant 0 is called different in CPU or p95, and looks worse.
    costs_found: usize,
    /// Number of intervals that cover their effect, and of all intervals.
    covered: [usize; 2],
}

impl Tally {
    /// Simulates `count` experiments, computing intervals only for every `intervals_every`th.
    pub(crate) fn of(setup: &Setup, count: usize, intervals_every: usize, seed: u64) -> Self {
        let rule = setup.rule();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut tally = Tally { experiments: count, ..Tally::default() };
        for number in 0..count {
            let ended = setup.experiment(&rule, &mut random);
            match ended.answer {
                Answer::Use(_) => tally.used += 1,
                Answer::Keep => tally.kept += 1,
                Answer::GoOn | Answer::Undecided => {}
            }
            tally.blocks += ended.blocks;
            let is_different = &rule.differences(&ended.variants, 1)[0];
            let is_cost = |metric: usize| {
                let looks_worse = Summary::of(&ended.variants[0][metric].blocks).unwrap().log_mean > 0.0;
                is_different[metric] && looks_worse
            };
            tally.costs_found += usize::from(is_cost(1) || is_cost(2));
            tally.runs += ended.runs;
            if number % intervals_every == 0 {
                tally.intervals(setup, &rule, &ended);
            }
        }
        tally
    }

    fn intervals(&mut self, setup: &Setup, rule: &Rule, ended: &Ended) {
        for (demands, effects) in ended.variants.iter().zip(&setup.variants) {
            for (demand, effect) in demands.iter().zip(effects) {
                let Some((low, high)) = bounds(&demand.blocks, rule.alpha) else { continue };
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

    /// Returns whether the coverage lies within 94 to 96 %, allowing for twice the error of this number of
    /// simulated intervals.
    pub(crate) fn covers(&self) -> bool {
        let doubt = doubt(ALPHA, self.covered[1]);
        (0.94 - doubt..=0.96 + doubt).contains(&self.coverage())
    }

    /// Returns the share of experiments in which variant 0 is shown to be worse in CPU or p95.
    pub(crate) fn finds_cost(&self) -> f64 {
        self.share(self.costs_found)
    }

    /// Prints one line of the table in docs/method/compare.md.
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
