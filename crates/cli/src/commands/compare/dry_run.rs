//! `unbloat compare --dry-run`: what would run, in which order, and how long that takes.

use std::fmt;
use std::path::Path;
use std::time::Duration;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::driver::{Pace, command_line};
use unbloat_lab::plan::{Load, Plan, Rate};
use unbloat_lab::result::RunResult;
use unbloat_lab::schedule;
use unbloat_lab::variant::Variant;

/// An experiment that is not run.
pub(super) struct DryRun<'a> {
    pub(super) plan: &'a Plan,
    pub(super) variants: &'a [Variant],
    /// Where the server is started.
    pub(super) directory: &'a Path,
    /// Runs that are in the recording already.
    pub(super) made: &'a [RunResult],
    /// The open loop, if it is found already.
    pub(super) calibration: Option<&'a Calibration>,
    /// After how many blocks the data are looked at.
    pub(super) looks: &'a [usize],
}

impl fmt::Display for DryRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DryRun { plan, made, .. } = self;
        let runs = plan.design.blocks * (self.variants.len() + 1);
        writeln!(f, "{}: {runs} runs in {} blocks", plan.title, plan.design.blocks)?;
        self.variants(f)?;
        writeln!(f, "  {:16} {}", "server", plan.server.start.join(" "))?;
        writeln!(f, "  {:16} {}", "in", self.directory.display())?;
        writeln!(f, "  {:16} {}", "load", self.load())?;
        let left = self.blocks(f)?;
        if !made.is_empty() {
            writeln!(f, "{} runs are made already", made.len())?;
        }
        self.time(f, left)?;
        if let [_, .., _] = self.looks {
            writeln!(f, "more blocks, looked at after {:?} blocks, if nothing is decided", self.looks)?;
        }
        Ok(())
    }
}

impl DryRun<'_> {
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

    /// The order; how many runs are left.
    fn blocks(&self, f: &mut fmt::Formatter<'_>) -> Result<usize, fmt::Error> {
        let mut left = 0;
        for block in 0..self.plan.design.blocks {
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

    /// By the runs that are made; without any, by what the plan expects of one.
    fn time(&self, f: &mut fmt::Formatter<'_>, left: usize) -> fmt::Result {
        let (plan, design) = (self.plan, &self.plan.design);
        if left == 0 {
            return writeln!(f, "nothing is left to be run");
        }
        if !self.made.is_empty() {
            let each = self.made.iter().map(|run| run.wall_s).sum::<f64>() / self.made.len() as f64;
            let rest = Duration::try_from_secs_f64(each * left as f64).unwrap_or(Duration::MAX);
            return writeln!(
                f,
                "about {} for the {left} that are left, as those took {each:.0} s each",
                rounded(rest)
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
