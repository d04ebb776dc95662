//! The time of a search: the number of setups that it can try, and the length of its runs.

use crate::plan::{Load, Plan};
use std::time::Duration;
use unbloat_stats::halving::{Round, rounds};

/// Number of setups to compare in full.
pub const FINALISTS: usize = 2;

/// The search's share of the whole time; the rest is for the final comparison.
const SEARCH: f64 = 0.5;

/// The longest measured time of a run of the search at a rate.
const SHORT_RUN: Duration = Duration::from_secs(12);
/// The longest idle tail of a run of the search.
const SHORT_TAIL: Duration = Duration::from_secs(2);
/// The longest warm-up of a run of the search.
const SHORT_WARM_UP: Duration = Duration::from_secs(4);

/// Returns the plan with shorter runs. A load without a rate keeps its length.
#[must_use]
pub fn short(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if plan.load.rate().is_some()
        && let Load::Cable(bench) | Load::Http(bench) | Load::Jobs(bench) = &mut plan.load
        && !matches!(bench.rate, Some(crate::plan::Rate::Closed))
    {
        bench.run_length = Some(bench.run_length.map_or(SHORT_RUN, |time| time.min(SHORT_RUN)));
    }
    let warm_up = plan.warm_up().min(SHORT_WARM_UP);
    plan.design.warm_up =
        plan.design.warm_up.or((!warm_up.is_zero()).then_some(warm_up)).map(|time| time.min(SHORT_WARM_UP));
    plan.design.idle_tail = plan.design.idle_tail.min(SHORT_TAIL);
    plan
}

/// Returns the number of setups that a search of at most this time can try, given the duration of a run. At
/// least as many as are compared in full.
#[must_use]
pub fn affordable(all: usize, run: Duration, within: Option<Duration>) -> usize {
    let Some(within) = within else { return all };
    let time = within.mul_f64(SEARCH).as_secs_f64();
    let fits = |count: &usize| runs(*count) as f64 * run.as_secs_f64() <= time;
    (1..=all).rev().find(fits).unwrap_or(0).max(FINALISTS.min(all))
}

/// Returns the rounds of a search among this many setups.
#[must_use]
pub fn search_rounds(candidates: usize) -> Vec<Round> {
    rounds(candidates, FINALISTS, 1)
}

/// Returns the number of runs of a search among this many setups: each block has the control twice.
#[must_use]
pub fn runs(candidates: usize) -> usize {
    search_rounds(candidates).iter().map(|round| round.blocks * (round.candidates + 2)).sum()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RUN: Duration = Duration::from_secs(20);

    #[test]
    fn time_decides_how_many_are_tried() {
        // Eight: 10 runs, then four for two blocks, 12.
        assert_eq!((runs(8), runs(2), runs(3)), (22, 0, 5));
        let within = |minutes: u64| affordable(24, RUN, Some(Duration::from_secs(60 * minutes)));
        assert_eq!((affordable(24, RUN, None), within(0), within(1_000)), (24, 2, 24));
        assert!(
            within(10) < within(20) && within(20) < within(60),
            "{} {} {}",
            within(10),
            within(20),
            within(60)
        );
        assert!(runs(within(20)) as u64 * 20 <= 600);
        assert_eq!(affordable(1, RUN, Some(RUN)), 1);
    }

    #[test]
    fn runs_of_a_search_are_short_and_stay_what_they_measure() {
        let plan = |load: &str| {
            Plan::parse(&format!(
                "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"a\"]\nready = {{ line = \"r\" }}\n[load]\n{load}\n"
            ))
            .unwrap()
        };
        let auto = short(&plan("driver = \"http\"\nrate = \"auto\""));
        assert_eq!(auto.load.bench().unwrap().1.run_length, Some(SHORT_RUN));
        assert_eq!((auto.warm_up(), auto.design.idle_tail), (SHORT_WARM_UP, SHORT_TAIL));
        let shorter = short(&plan("driver = \"jobs\"\nrate = 20\nrun-length = \"5s\""));
        assert_eq!(shorter.load.bench().unwrap().1.run_length, Some(Duration::from_secs(5)));
        let own = short(&plan("driver = \"own\""));
        assert_eq!((own.load, own.design.warm_up), (plan("driver = \"own\"").load, None));
        // The written plan can be parsed again.
        assert!(Plan::parse(&toml::to_string(&auto).unwrap()).is_ok());
    }
}
