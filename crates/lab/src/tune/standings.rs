//! The figures of a search's rounds, and the survivors.

use crate::analysis::Settings;
use crate::demands::{Bar, Demands};
use crate::metric::Metric;
use crate::result::RunResult;
use crate::variant::Variant;
use unbloat_stats::contrast::{Block, Summary};
use unbloat_stats::decision::Requirement;
use unbloat_stats::halving::best;

/// A setup that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// The setup.
    pub variant: Variant,
    /// Its end.
    pub fate: Fate,
    /// Number of blocks of its rounds.
    pub blocks: usize,
    /// Its estimates in these blocks, as ratios to the control, in the rule's metrics. They are first
    /// impressions: the best of many is flattered by them.
    pub ratios: Vec<(Metric, f64)>,
}

/// The fate of a setup in a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// Compared with the control in full.
    Final,
    /// Dropped after this round, because others looked better.
    Dropped(usize),
    /// Dropped after this round, because it has no figures: its runs failed.
    Failed(usize, String),
}

/// All setups of a search, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct Standings {
    candidates: Vec<Candidate>,
    /// Indices of the remaining setups, best first.
    left: Vec<usize>,
    rounds: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Candidate {
    variant: Variant,
    fate: Fate,
    /// Each metric's requirement and blocks.
    demands: Vec<(Metric, Requirement, Vec<Block>)>,
}

impl Standings {
    /// Creates standings in which all setups remain.
    #[must_use]
    pub fn new(variants: Vec<Variant>) -> Self {
        let left = (0..variants.len()).collect();
        let candidate = |variant| Candidate { variant, fate: Fate::Final, demands: Vec::new() };
        Standings { candidates: variants.into_iter().map(candidate).collect(), left, rounds: 0 }
    }

    /// Returns the remaining setups, best first.
    #[must_use]
    pub fn left(&self) -> Vec<Variant> {
        self.left.iter().map(|&index| self.candidates[index].variant.clone()).collect()
    }

    /// Returns the setups to compare in full.
    #[must_use]
    pub fn finalists(&self) -> Vec<Variant> {
        self.left()
    }

    /// Adds the runs of a round, whose variants are the control and the remaining setups, and keeps the best
    /// of them.
    pub fn add(&mut self, results: &[RunResult], settings: &Settings, kept: usize) {
        self.rounds += 1;
        let demands = Demands::of(self.left.len() + 1, results, settings);
        for (place, &index) in self.left.iter().enumerate() {
            self.candidates[index].add(&demands, place);
            if let Some(why) = failure(&demands, results, place) {
                self.candidates[index].fate = Fate::Failed(self.rounds, why);
            }
        }
        let works = |index: &usize| self.candidates[*index].fate == Fate::Final;
        let (works, _): (Vec<usize>, Vec<usize>) = self.left.iter().copied().partition(works);
        let (known, unknown): (Vec<usize>, Vec<usize>) =
            works.into_iter().partition(|index| self.candidates[*index].summaries().is_some());
        let summaries: Vec<_> =
            known.iter().filter_map(|index| self.candidates[*index].summaries()).collect();
        // A setup without a block that counts is unknown, which is no reason to drop it.
        let ranked =
            unknown.into_iter().chain(best(&summaries, known.len()).into_iter().map(|place| known[place]));
        let (kept, dropped): (Vec<_>, Vec<_>) = ranked.enumerate().partition(|(rank, _)| *rank < kept);
        for (_, index) in dropped {
            self.candidates[index].fate = Fate::Dropped(self.rounds);
        }
        self.left = kept.into_iter().map(|(_, index)| index).collect();
    }

    /// Returns all setups, those kept longest first; among those dropped in one round, the smallest first.
    #[must_use]
    pub fn tried(&self) -> Vec<Tried> {
        let mut tried: Vec<Tried> = self.candidates.iter().map(Candidate::tried).collect();
        let round = |tried: &Tried| match &tried.fate {
            Fate::Final => 0,
            Fate::Dropped(round) => self.rounds + 1 - round,
            Fate::Failed(..) => usize::MAX,
        };
        let gain = |tried: &Tried| tried.ratios.first().map_or(f64::INFINITY, |(_, ratio)| *ratio);
        tried.sort_by(|a, b| round(a).cmp(&round(b)).then(gain(a).total_cmp(&gain(b))));
        tried
    }

    /// Returns the first reason for which a setup failed.
    #[must_use]
    pub fn first_failure(&self) -> String {
        let failures = self.candidates.iter().find_map(|candidate| match &candidate.fate {
            Fate::Failed(_, why) => Some(format!("{}: {why}", candidate.variant.name)),
            Fate::Final | Fate::Dropped(_) => None,
        });
        failures.unwrap_or_else(|| "there is nothing to try".to_owned())
    }
}

impl Candidate {
    fn add(&mut self, demands: &Demands, place: usize) {
        let of_round = demands.metrics.iter().zip(&demands.variants[place]);
        for (metric, demand) in of_round {
            match self.demands.iter_mut().find(|(known, ..)| known == metric) {
                Some((.., blocks)) => blocks.extend(demand.blocks.iter().cloned()),
                None => self.demands.push((*metric, demand.requirement, demand.blocks.clone())),
            }
        }
    }

    /// Returns the summaries; `None` as long as a metric has no block.
    fn summaries(&self) -> Option<Vec<(Requirement, Summary)>> {
        let summary = |(_, requirement, blocks): &(_, Requirement, Vec<Block>)| {
            Some((*requirement, Summary::of(blocks)?))
        };
        let summaries: Vec<_> = self.demands.iter().map(summary).collect::<Option<_>>()?;
        (!summaries.is_empty()).then_some(summaries)
    }

    fn tried(&self) -> Tried {
        let summaries = self.demands.iter().filter_map(|(metric, _, blocks)| {
            let ratio = Summary::of(blocks)?.log_mean.exp();
            Some((*metric, if metric.less_is_better() { ratio } else { 1.0 / ratio }))
        });
        Tried {
            variant: self.variant.clone(),
            fate: self.fate.clone(),
            blocks: self.demands.iter().map(|(.., blocks)| blocks.len()).max().unwrap_or(0),
            ratios: summaries.collect(),
        }
    }
}

/// Returns the reason that excludes a setup whatever its figures: its server died, or no run of a complete
/// round counts.
fn failure(demands: &Demands, results: &[RunResult], place: usize) -> Option<String> {
    match demands.barred[place] {
        Some(Bar::Died(runs)) => return Some(format!("its server ended by itself in {runs} of its runs")),
        Some(Bar::NotMeasured(metric)) => return Some(format!("it yields no {}", metric.words())),
        None => {}
    }
    let mut runs = results.iter().filter(|run| run.slot.variant == place + 1).peekable();
    let first = runs.peek()?.excluded.clone()?;
    let is_broken = |run: &RunResult| {
        run.excluded.as_ref().is_some_and(|why| !matches!(why, crate::result::Exclusion::Disturbed(_)))
    };
    runs.all(is_broken).then(|| first.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::{runs, settings};
    use crate::result::Exclusion;

    fn named(names: &[&str]) -> Standings {
        let variant = |name: &&str| Variant { name: (*name).to_owned(), ..Variant::default() };
        Standings::new(names.iter().map(variant).collect())
    }

    fn names(variants: &[Variant]) -> Vec<&str> {
        variants.iter().map(|variant| variant.name.as_str()).collect()
    }

    #[test]
    fn the_small_ones_are_kept_and_those_that_cost_or_fail_go_first() {
        let mut standings = named(&["large", "small", "costly", "broken", "middle"]);
        let effects = [(1.0, 1.0), (0.95, 1.0), (0.6, 1.0), (0.5, 1.5), (0.4, 1.0), (0.8, 1.0)];
        let mut results = runs(1, &effects);
        for run in results.iter_mut().filter(|run| run.slot.variant == 4) {
            run.excluded = Some(Exclusion::NotReady("no such option".into()));
        }
        standings.add(&results, &settings(), 2);
        assert_eq!(names(&standings.left()), ["small", "middle"]);
        let tried = standings.tried();
        assert_eq!(
            tried.iter().map(|t| t.variant.name.as_str()).collect::<Vec<_>>(),
            ["small", "middle", "costly", "large", "broken"]
        );
        assert_eq!(tried[2].fate, Fate::Dropped(1));
        assert!(
            matches!(&tried[4].fate, Fate::Failed(1, why) if why.contains("no such option")),
            "{tried:?}"
        );
        assert!((tried[0].ratios[0].1 - 0.6).abs() < 0.02 && tried[0].blocks == 1, "{tried:?}");
        // Rounds add up: the next one's variants are the remaining ones, in their order.
        standings.add(&runs(2, &[(1.0, 1.0), (0.9, 1.0), (0.7, 1.0)]), &settings(), 1);
        assert_eq!(
            names(&standings.finalists()),
            ["middle"],
            "0.8 and twice 0.7 is less than 0.6 and twice 0.9"
        );
        assert_eq!(standings.tried()[0].blocks, 3);
    }

    #[test]
    fn what_was_only_disturbed_stays() {
        let mut standings = named(&["a", "b"]);
        let mut results = runs(1, &[(1.0, 1.0), (0.9, 1.0), (0.8, 1.0)]);
        results.iter_mut().for_each(|run| run.excluded = Some(Exclusion::Disturbed("loud".into())));
        standings.add(&results, &settings(), 1);
        assert_eq!(names(&standings.left()), ["a"], "in the order of promise");
        assert_eq!(standings.tried()[0].ratios, []);
    }
}
