//! Shows the progress of an experiment.

use crate::follow::Show;
use indicatif::HumanDuration;
use unbloat_lab::budget::{FEWEST, Until};
use unbloat_lab::calibration::Calibration;
use unbloat_lab::experiment::{BlockEnd, Place, Progress};
use unbloat_lab::metric::Metric;
use unbloat_lab::plan::Plan;
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule::Slot;
use unbloat_lab::tune::{Follow, Round};
use unbloat_lab::variant::Variant;
use unbloat_report::Iec;

/// Follows an experiment on stderr.
pub(in crate::commands) struct Follower(Show);

impl Follower {
    pub(in crate::commands) fn new(quiet: bool) -> Self {
        Follower(Show::new(quiet, "{wide_bar:.cyan/blue} {pos}/{len} {elapsed} {msg}"))
    }

    pub(in crate::commands) fn finish(&self) {
        self.0.finish();
    }

    /// Announces how long the experiment takes.
    pub(super) fn promise(&self, plan: &Plan, until: Until) {
        let first = FEWEST - 1;
        self.0.say(&match until {
            Until::Blocks(blocks) => format!("{blocks} blocks, looked at once at the end"),
            Until::Decided { within } => {
                let within = within.map_or(String::new(), |time| format!(" within {}", HumanDuration(time)));
                let most = plan.design.max_blocks;
                format!(
                    "until the rule has an answer: from block {first} on it may, up to block {most}{within}"
                )
            }
        });
    }
}

impl Progress for Follower {
    fn calibrates(&mut self, control: &Variant) {
        self.0.say(&format!("calibration: measuring the throughput that {} sustains", control.name));
    }

    fn calibrated(&mut self, calibration: &Calibration) {
        let Calibration { sustained_per_s, utilization, rate_per_s, run_s } = calibration;
        let share = sustained_per_s.zip(*utilization).map_or(String::new(), |(sustained, share)| {
            format!(", {:.0} % of the {sustained} that the control sustains", share * 100.0)
        });
        self.0
            .say(&format!("open loop: {rate_per_s} a second{share}; each run is measured for {run_s:.0} s"));
    }

    fn begins(&mut self, variant: &Variant, slot: Slot, place: &Place) {
        let Place { done, most, repeat, remaining, chance } = *place;
        let chance = chance.map_or(String::new(), |chance| format!(", {}", likely(chance)));
        let again = if repeat > 0 { ", again" } else { "" };
        let left = HumanDuration(remaining);
        let what = format!("{} (block {}{again}), about {left} left{chance}", variant.name, slot.block + 1);
        match &self.0 {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.set_length(most as u64);
                bar.set_position(done as u64);
                bar.set_message(what);
            }
            Show::Lines => self.0.say(&format!("run {} of at most {most}: {what}", (done + 1).min(most))),
        }
    }

    fn ended(&mut self, variant: &Variant, result: &RunResult) {
        let memory =
            result.metrics.get(&Metric::PssEnd).map_or(String::new(), |b| Iec(*b as u64).to_string());
        match &result.excluded {
            Some(why) => self.0.say(&format!("  {}: left out: {why}", variant.name)),
            None => self.0.say(&format!("  {}: {memory} in {:.1} s", variant.name, result.wall_s)),
        }
    }

    fn looked(&mut self, end: &BlockEnd) {
        for name in &end.dropped {
            self.0.say(&format!("  {name} cannot win any more and is not run again"));
        }
        if end.is_over {
            return;
        }
        if let Some(forecast) = &end.forecast {
            self.0.say(&format!(
                "after block {}: no answer yet; {} by block {}, about {} left",
                end.blocks,
                likely(forecast.chance),
                end.last,
                HumanDuration(end.remaining)
            ));
        }
    }
}

impl Follow for Follower {
    fn round(&mut self, number: usize, of: usize, round: &Round) {
        let Round { candidates, blocks, kept } = *round;
        let blocks = if blocks == 1 { "one short run".to_owned() } else { format!("{blocks} short runs") };
        self.0.say(&format!("round {number} of {of}: {candidates} setups, {blocks} each; {kept} are kept"));
    }

    fn finals(&mut self, finalists: &[Variant]) {
        let names: Vec<&str> = finalists.iter().map(|variant| variant.name.as_str()).collect();
        self.0.say(&format!("in full, on fresh runs: {} against the control", names.join(" and ")));
    }
}

/// Describes the chance of an answer, which comes from 400 futures and so is not more exact than 1 %.
fn likely(chance: f64) -> String {
    match (chance * 100.0).round() {
        percent if percent < 1.0 => "an answer is unlikely".to_owned(),
        percent if percent > 99.0 => "an answer is almost certain".to_owned(),
        percent => format!("a chance of {percent:.0} % for an answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::likely;

    #[test]
    fn a_chance_is_not_said_to_be_more_certain_than_it_is() {
        assert_eq!(
            [0.0, 0.42, 1.0].map(likely),
            ["an answer is unlikely", "a chance of 42 % for an answer", "an answer is almost certain"]
        );
    }
}
