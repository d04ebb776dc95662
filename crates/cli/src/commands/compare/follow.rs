//! Shows how far an experiment is.

use crate::follow::Show;
use indicatif::HumanDuration;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::experiment::{Progress, Standing};
use unbloat_lab::metric::Metric;
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule::Slot;
use unbloat_lab::variant::Variant;
use unbloat_report::Iec;

/// Follows an experiment on stderr.
pub(super) struct Follower(Show);

impl Follower {
    pub(super) fn new(quiet: bool) -> Self {
        Follower(Show::new(quiet, "{wide_bar:.cyan/blue} {pos}/{len} {elapsed} {msg}"))
    }

    pub(super) fn finish(&self) {
        self.0.finish();
    }
}

impl Progress for Follower {
    fn calibrates(&mut self, control: &Variant) {
        self.0.say(&format!("calibration: how much {} sustains", control.name));
    }

    fn calibrated(&mut self, calibration: &Calibration) {
        let Calibration { sustained_per_s, utilization, rate_per_s, run_s } = calibration;
        let share = sustained_per_s.zip(*utilization).map_or(String::new(), |(sustained, share)| {
            format!(", {:.0} % of the {sustained} that the control sustains", share * 100.0)
        });
        self.0
            .say(&format!("open loop: {rate_per_s} a second{share}; each run is measured for {run_s:.0} s"));
    }

    fn begins(&mut self, variant: &Variant, slot: Slot, standing: &Standing) {
        let Standing { done, total, repeat, remaining } = *standing;
        let left = remaining.map_or(String::new(), |left| format!(", about {} left", HumanDuration(left)));
        let again = if repeat > 0 { ", again" } else { "" };
        let what = format!("{} (block {}{again}){left}", variant.name, slot.block + 1);
        match &self.0 {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
                bar.set_message(what);
            }
            Show::Lines => self.0.say(&format!("run {} of {total}: {what}", (done + 1).min(total))),
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
}
