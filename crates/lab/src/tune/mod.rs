//! The search for the best setup, from one plan: cheap runs drop hopeless setups by successive halving, and
//! the rest is compared with the control in full, on fresh runs.
//!
//! | module | concept |
//! |---|---|
//! | [`space`](mod@space) | the setups to try for a plan |
//! | [`puma`] | workers, threads and refork in Puma's command line |
//! | [`pace`] | the time of a search, and its shorter runs |
//! | [`standings`] | the figures of all rounds, and the survivors |
//!
//! Every round, and the final comparison, is an experiment in a recording of its own, in one directory. So a
//! stopped search continues where it was, `unbloat report` can show each recording, and luck in the rounds
//! has no part in the final comparison, whose runs are all new (`crates/stats/tests/calibration/halving.rs`).

pub mod pace;
pub mod puma;
pub mod space;
pub mod standings;

pub use unbloat_stats::halving::Round;

use crate::analysis::Settings;
use crate::budget::{Until, takes};
use crate::calibration::Calibration;
use crate::executor::{Executor, RunError};
use crate::experiment::{Experiment, Progress};
use crate::file::{ExperimentFile, FileError, Stored};
use crate::plan::{Plan, PlanError};
use crate::result::RunResult;
use crate::variant::Variant;
use pace::{FINALISTS, affordable, search_rounds, short};
use space::{LeftOut, Space, Why, space};
use standings::{Standings, Tried};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A factory of executors for a search, whose rounds and final comparison have their own plans.
pub trait Executors {
    /// The executor for one plan.
    type Of<'p>: Executor
    where
        Self: 'p;

    /// Creates the executor for a plan.
    fn of<'p>(&'p self, plan: &'p Plan) -> Self::Of<'p>;

    /// Returns the version of the server's Ruby, from a running control; `None` if it is unknown.
    ///
    /// # Errors
    /// The control does not start.
    fn ruby(&self, plan: &Plan, control: &Variant) -> Result<Option<String>, RunError>;
}

/// An observer of a search and its runs.
pub trait Follow: Progress {
    /// Reports the beginning of a round, numbered from 1, and the number of rounds.
    fn round(&mut self, number: usize, of: usize, round: &Round);
    /// Reports the beginning of the final comparison.
    fn finals(&mut self, finalists: &[Variant]);
}

/// A search.
#[derive(Debug)]
pub struct Search<'a, E, F> {
    /// The original plan.
    pub plan: &'a Plan,
    /// The plan's variants on this machine, the control first. The others are tried before all else.
    pub variants: &'a [Variant],
    /// Directory of the server.
    pub server_directory: &'a Path,
    /// The directory of the recordings.
    pub directory: &'a Path,
    /// The factory of executors.
    pub executors: E,
    /// The observer.
    pub follow: F,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// All setups tried, those kept longest first.
    pub tried: Vec<Tried>,
    /// Kinds and setups not tried.
    pub left_out: Vec<LeftOut>,
    /// The recording of the final comparison.
    pub recording: PathBuf,
}

/// The reason why a search has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A run, or the recording.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A recording that cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A setup that is not a valid variant.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan that cannot be written.
    #[error("cannot write the plan of a round: {0}. Names and values must be text (UTF-8)")]
    Text(#[from] toml::ser::Error),
    /// There is nothing to try.
    #[error(
        "no setup is left that could be compared: none of those tried has a run that counts. The first reason: {0}"
    )]
    NothingWorks(String),
}

impl<E: Executors, F: Follow> Search<'_, E, F> {
    /// Searches, within a time limit if one is given.
    ///
    /// # Errors
    /// See [`SearchError`]; what was made is in the recordings, and the same search goes on with it.
    pub fn conduct(&mut self, within: Option<Duration>) -> Result<SearchResult, SearchError> {
        let began = Instant::now();
        let first = self.directory.join("round-1.unbloat");
        let space = self.space(&first)?;
        let cheap = short(self.plan);
        let run = takes(&cheap, None, &[], 1.0);
        let count = match Stored::known(&first)? {
            // Decided when the search began.
            Some(stored) => stored.variants.len() - 1,
            None => affordable(space.candidates.len(), run, within),
        };
        let mut left_out = space.left_out;
        let untried = space.candidates.iter().skip(count);
        left_out.extend(untried.map(|variant| LeftOut { what: variant.name.clone(), why: Why::NoTime }));
        let candidates: Vec<Variant> = space.candidates.into_iter().take(count).collect();
        let (standings, calibration) = self.rounds(&cheap, candidates)?;
        let finalists = standings.finalists();
        if finalists.is_empty() {
            return Err(SearchError::NothingWorks(standings.first_failure()));
        }
        self.follow.finals(&finalists);
        let remaining = within.map(|within| within.saturating_sub(began.elapsed()));
        let recording = self.finals(&finalists, calibration, remaining)?;
        Ok(SearchResult { tried: standings.tried(), left_out, recording })
    }

    /// Returns the setups of this search: those of its first recording, or those that the control's Ruby
    /// allows.
    fn space(&self, first: &Path) -> Result<Space, SearchError> {
        let (control, own) = self.variants.split_first().ok_or(PlanError::TooFew)?;
        let ruby = match Stored::known(first)? {
            Some(stored) => stored.software(0, "ruby").first().cloned(),
            None => self.executors.ruby(self.plan, control)?,
        };
        let is_installed = |library: &str| crate::library::find(library).is_some();
        let space = space(self.plan, control, own, ruby.as_deref().and_then(version), is_installed);
        let here = |variant: Variant| variant.here(self.server_directory).spelled();
        let candidates = space.candidates.into_iter().map(here).collect::<Result<_, _>>();
        Ok(Space { candidates: candidates.map_err(|error| PlanError::Value(error.to_string()))?, ..space })
    }

    fn rounds(
        &mut self,
        cheap: &Plan,
        candidates: Vec<Variant>,
    ) -> Result<(Standings, Option<Calibration>), SearchError> {
        let rounds = search_rounds(candidates.len());
        let mut standings = Standings::new(candidates);
        let mut calibration = None;
        for (index, round) in rounds.iter().enumerate() {
            let left = standings.left();
            if left.len() <= FINALISTS {
                break;
            }
            self.follow.round(index + 1, rounds.len(), round);
            let plan =
                self.plan_of(cheap, &format!("{}: round {} of a search", cheap.title, index + 1), &left);
            let path = self.directory.join(format!("round-{}.unbloat", index + 1));
            let (results, found) = self.experiment(&path, &plan, calibration, Until::Blocks(round.blocks))?;
            calibration = found;
            let variants = plan.own.len();
            standings.add(&results, &Settings::of(&plan, variants, 1), round.kept);
        }
        Ok((standings, calibration))
    }

    /// Runs the final comparison, at the rate of the rounds, with runs as long as in the plan.
    fn finals(
        &mut self,
        finalists: &[Variant],
        calibration: Option<Calibration>,
        within: Option<Duration>,
    ) -> Result<PathBuf, SearchError> {
        let plan = self.plan_of(self.plan, &format!("{}: what a search found", self.plan.title), finalists);
        let path = self.directory.join("final.unbloat");
        let calibration = calibration.zip(plan.load.bench()).map(|(found, (_, bench))| {
            let given = Calibration::given(found.rate_per_s, bench);
            Calibration { run_s: given.run_s, ..found }
        });
        let until = Until::of(&plan.design, plan.design.blocks, within.or(plan.design.within));
        self.experiment(&path, &plan, calibration, until)?;
        Ok(path)
    }

    /// Returns the plan with the control and these variants. Its paths do not depend on its location.
    fn plan_of(&self, plan: &Plan, title: &str, variants: &[Variant]) -> Plan {
        let mut plan = plan.clone();
        plan.title = title.to_owned();
        plan.server.directory = Some(self.server_directory.to_owned());
        plan.compare = Vec::new();
        plan.own = self.variants.iter().take(1).chain(variants).cloned().collect();
        plan
    }

    fn experiment(
        &mut self,
        path: &Path,
        plan: &Plan,
        calibration: Option<Calibration>,
        until: Until,
    ) -> Result<(Vec<RunResult>, Option<Calibration>), SearchError> {
        let (text, variants) = (toml::to_string(plan)?, plan.variants()?);
        let (mut file, stored) = ExperimentFile::open(path, plan, &text, &variants)?;
        let mut results = stored.results();
        let known = stored.calibration.or(calibration);
        if let (Some(calibration), None) = (&known, &stored.calibration) {
            file.calibrated(calibration)?;
        }
        let executor = self.executors.of(plan);
        let progress = &mut self.follow;
        let mut experiment = Experiment { plan, variants: &variants, executor, file: &mut file, progress };
        let end = experiment.conduct(&mut results, known, until);
        file.finish(if end.is_ok() { "the round is done" } else { "the search was stopped" })?;
        end?;
        let calibration = Stored::read(path)?.calibration;
        Ok((results, calibration))
    }
}

/// Parses `3.1.7` as (3, 1).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', ' ']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_is_read_by_its_first_two_numbers() {
        assert_eq!(version("3.1.7"), Some((3, 1)));
        assert_eq!(version("3.4.0 and 3.3.1"), Some((3, 4)));
        assert_eq!((version("3"), version("truffleruby")), (None, None));
    }
}
