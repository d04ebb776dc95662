//! Showing how far an experiment is.

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::experiment::{Progress, Standing};
use unbloat_lab::metric::Metric;
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule::Slot;
use unbloat_lab::variant::Variant;
use unbloat_report::Iec;

/// Follows an experiment on stderr.
pub(super) enum Follower {
    Nothing,
    Bar(ProgressBar),
    Lines,
}

impl Follower {
    pub(super) fn new(quiet: bool) -> Self {
        if quiet {
            Follower::Nothing
        } else if std::io::stderr().is_terminal() {
            let template = "{wide_bar:.cyan/blue} {pos}/{len} {elapsed} {msg}";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::no_length().with_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
            Follower::Bar(bar)
        } else {
            Follower::Lines
        }
    }

    pub(super) fn finish(&self) {
        if let Follower::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        // A closed stderr is nobody's problem.
        let print = || drop(writeln!(std::io::stderr(), "{line}"));
        match self {
            Follower::Nothing => {}
            Follower::Bar(bar) => bar.suspend(print),
            Follower::Lines => print(),
        }
    }
}

impl Progress for Follower {
    fn calibrates(&mut self, control: &Variant) {
        self.say(&format!("calibration: how much {} sustains", control.name));
    }

    fn calibrated(&mut self, calibration: &Calibration) {
        let Calibration { sustained_per_s, utilization, rate_per_s, run_s } = calibration;
        let share = sustained_per_s.zip(*utilization).map_or(String::new(), |(sustained, share)| {
            format!(", {:.0} % of the {sustained} that the control sustains", share * 100.0)
        });
        self.say(&format!("open loop: {rate_per_s} a second{share}; each run is measured for {run_s:.0} s"));
    }

    fn begins(&mut self, variant: &Variant, slot: Slot, standing: &Standing) {
        let Standing { done, total, repeat, remaining } = *standing;
        let left = remaining.map_or(String::new(), |left| format!(", about {} left", HumanDuration(left)));
        let again = if repeat > 0 { ", again" } else { "" };
        let what = format!("{} (block {}{again}){left}", variant.name, slot.block + 1);
        match self {
            Follower::Nothing => {}
            Follower::Bar(bar) => {
                bar.set_length(total as u64);
                bar.set_position(done as u64);
                bar.set_message(what);
            }
            Follower::Lines => self.say(&format!("run {} of {total}: {what}", (done + 1).min(total))),
        }
    }

    fn ended(&mut self, variant: &Variant, result: &RunResult) {
        let memory =
            result.metrics.get(&Metric::PssEnd).map_or(String::new(), |b| Iec(*b as u64).to_string());
        match &result.excluded {
            Some(why) => self.say(&format!("  {}: left out: {why}", variant.name)),
            None => self.say(&format!("  {}: {memory} in {:.1} s", variant.name, result.wall_s)),
        }
    }
}
