//! `unbloat compare --dry-run`: the planned runs, their order, and their duration.

use std::fmt;
use std::path::Path;
use std::time::Duration;
use unbloat_lab::budget::{FEWEST, Until, takes};
use unbloat_lab::calibration::Calibration;
use unbloat_lab::driver::{Pace, command_line};
use unbloat_lab::plan::{Load, Plan, Rate};
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule;
use unbloat_lab::variant::Variant;

/// An experiment that is only described.
pub(super) struct DryRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) variants: &'a [Variant],
    /// Working directory of the server.
    pub(super) directory: &'a Path,
    /// Runs already in the recording.
    pub(super) made: &'a [RunResult],
    /// The open loop, if already determined.
    pub(super) calibration: Option<&'a Calibration>,
    /// The end of the experiment.
    pub(super) until: Until,
}

impl fmt::Display for DryRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DryRun { plan, made, .. } = self;
        let (blocks, most) = (self.blocks_shown(), self.most());
        let runs = |blocks: usize| blocks * (self.variants.len() + 1);
        match self.until {
            Until::Blocks(_) => writeln!(f, "{}: {} runs in {blocks} blocks", plan.title, runs(blocks))?,
            Until::Decided { .. } => writeln!(
                f,
                "{}: until the rule has an answer, after {blocks} to {most} blocks, {} to {} runs",
                plan.title,
                runs(blocks),
                runs(most)
            )?,
        }
        self.variants(f)?;
        writeln!(f, "  {:16} {}", "server", plan.server.start.join(" "))?;
        writeln!(f, "  {:16} {}", "in", self.directory.display())?;
        writeln!(f, "  {:16} {}", "load", self.load())?;
        let left = self.blocks(f)?;
        if !made.is_empty() {
            writeln!(f, "{} runs are made already", made.len())?;
        }
        self.time(f, left)?;
        if most > blocks {
            let further = takes(plan, self.calibration, made, runs(most - blocks) as f64);
            writeln!(
                f,
                "and up to {} more if that does not decide it; variants that cannot win are dropped",
                rounded(further)
            )?;
        }
        Ok(())
    }
}

impl DryRun<'_> {
    /// Returns the largest number of blocks.
    fn most(&self) -> usize {
        let block = takes(self.plan, self.calibration, self.made, (self.variants.len() + 1) as f64);
        self.until.last(&self.plan.design, block)
    }

    /// Returns the number of blocks that are made in any case.
    fn blocks_shown(&self) -> usize {
        match self.until {
            Until::Blocks(blocks) => blocks,
            Until::Decided { .. } => FEWEST - 1,
        }
    }

    fn variants(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, variant) in self.variants.iter().enumerate() {
            let words = variant.words(Path::new("unbloat")).join(" ");
            let words = if words.is_empty() { "(nothing in front)".to_owned() } else { words };
            let control = if index == 0 { "   control, twice a block" } else { "" };
            writeln!(f, "  {:16} {words}{control}", variant.name)?;
            if let Some(start) = &variant.start {
                writeln!(f, "  {:16}   starts {}", "", start.join(" "))?;
            }
        }
        Ok(())
    }

    fn load(&self) -> String {
        match (&self.plan.load, command_line(&self.plan.load, Path::new("unbloat"), self.pace())) {
            (load, Some(words)) => match (load.rate(), self.calibration) {
                (Some(Rate::Auto), None) => format!("{} (a calibration finds the rate)", words.join(" ")),
                (Some(Rate::Closed), _) => format!("{} (closed loop)", words.join(" ")),
                (Some(Rate::Auto | Rate::PerSecond(_)) | None, _) => words.join(" "),
            },
            (Load::Own { done, .. }, _) => format!("the server's own work, until it prints {done:?}"),
            (_, None) => String::new(),
        }
    }

    fn pace(&self) -> Pace {
        self.calibration.map_or(Pace::AsWritten, Calibration::pace)
    }

    /// Prints the order and returns the number of remaining runs.
    fn blocks(&self, f: &mut fmt::Formatter<'_>) -> Result<usize, fmt::Error> {
        let mut left = 0;
        for block in 0..self.blocks_shown() {
            let order = schedule::block(self.plan.design.seed, block, self.variants.len());
            let names: Vec<String> = order
                .iter()
                .filter_map(|slot| {
                    let name = &self.variants.get(slot.variant)?.name;
                    let is_made = self.made.iter().any(|run| run.slot == *slot);
                    left += usize::from(!is_made);
                    Some(if is_made { format!("({name})") } else { name.clone() })
                })
                .collect();
            writeln!(f, "  block {:2}: {}", block + 1, names.join(", "))?;
        }
        Ok(left)
    }

    /// Prints the duration, estimated from existing runs or else from the plan's expectation.
    fn time(&self, f: &mut fmt::Formatter<'_>, left: usize) -> fmt::Result {
        let (plan, design) = (self.plan, &self.plan.design);
        if left == 0 {
            return writeln!(f, "nothing is left to run");
        }
        if !self.made.is_empty() {
            let each = self.made.iter().map(|run| run.wall_s).sum::<f64>() / self.made.len() as f64;
            let remaining = Duration::try_from_secs_f64(each * left as f64).unwrap_or(Duration::MAX);
            return writeln!(
                f,
                "about {} for the remaining {left}, since each took {each:.0} s so far",
                rounded(remaining)
            );
        }
        let each = plan.run_takes(self.calibration);
        let total = each * u32::try_from(left).unwrap_or(u32::MAX);
        writeln!(
            f,
            "about {}, if a run takes {} (design.run-takes) and idles {}",
            rounded(total),
            rounded(design.run_takes),
            rounded(design.idle_tail)
        )
    }
}

fn rounded(duration: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}
