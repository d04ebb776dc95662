//! `unbloat compare`: finds the best configuration for an application, with evidence.

mod built_in;
mod dry_run;
pub(super) mod follow;

use super::report::{Show, show};
use crate::arguments::interval;
use crate::exit::Exit;
use anyhow::Context as _;
use dry_run::DryRun;
use follow::Follower;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unbloat_lab::budget::{Until, takes};
use unbloat_lab::calibration::Calibration;
use unbloat_lab::driver::{Pace, command_line};
use unbloat_lab::executor::RunError;
use unbloat_lab::experiment::Experiment;
use unbloat_lab::file::{ExperimentFile, Stored};
use unbloat_lab::plan::{Plan, Rate};
use unbloat_lab::servers::{ServerExecutor, directory_of};
use unbloat_lab::variant::Variant;
use unbloat_lab::{disk_space, fitness, init};
use unbloat_process::signal;

/// Options of `unbloat compare`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// Plan file, or a built-in plan: fragment, cable, web or jobs
    #[arg(required = true)]
    plan: Option<String>,
    /// Recording file; the same command resumes it [default: PLAN's name.unbloat]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print the planned runs, their order, and their duration
    #[arg(long)]
    dry_run: bool,
    /// Exactly this many blocks, instead of continuing until the rule has an answer
    #[arg(long, value_name = "N", conflicts_with = "within")]
    blocks: Option<usize>,
    /// Continue until the rule has an answer, but begin no block that would not end within this time
    /// [default: the plan's]
    #[arg(long, value_name = "TIME", value_parser = interval)]
    within: Option<Duration>,
    #[command(flatten)]
    show: Show,
    /// Show no progress on stderr
    #[arg(short, long)]
    quiet: bool,
    #[command(subcommand)]
    command: Option<Sub>,
}

/// The other subcommands of `compare`.
#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Write a commented plan for an application directory
    Init {
        /// Application directory
        #[arg(default_value = ".")]
        directory: PathBuf,
        /// Output file
        #[arg(short, long, default_value = "unbloat.toml")]
        output: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match (&args.command, &args.plan) {
        (Some(Sub::Init { directory, output }), _) => write_plan(directory, output),
        (None, Some(plan)) => compare(args, plan),
        (None, None) => Ok(Exit::Usage),
    }
}

/// Returns the plan's variants on this machine.
pub(super) fn variants_here(plan: &Plan, directory: &Path) -> anyhow::Result<Vec<Variant>> {
    let here = |variant: Variant| {
        let name = variant.name.clone();
        let spelled = variant.here(directory).spelled();
        spelled.with_context(|| format!("cannot use the variant '{name}'"))
    };
    plan.variants()?.into_iter().map(here).collect()
}

fn compare(args: &Args, name: &str) -> anyhow::Result<Exit> {
    let (text, base) = read_plan(name)?;
    let plan = Plan::parse(&text).with_context(|| format!("cannot use the plan {name}"))?;
    let until = Until::of(&plan.design, args.blocks, args.within);
    let directory =
        directory_of(&base, &plan).context("cannot find the directory that server.directory names")?;
    let variants = variants_here(&plan, &directory)?;
    check_options(&plan)?;
    let output = args.output.clone().unwrap_or_else(|| recording_of(name));
    if args.dry_run {
        let stored = ExperimentFile::peek(&output, &text)?;
        let made = stored.as_ref().map_or(Vec::new(), Stored::results);
        let given = plan.load.bench().and_then(|(_, bench)| match bench.rate {
            Some(Rate::PerSecond(rate)) => Some(Calibration::given(rate, bench)),
            Some(Rate::Auto | Rate::Closed) | None => None,
        });
        let calibration = stored.and_then(|stored| stored.calibration).or(given);
        let dry = DryRun {
            plan: &plan,
            variants: &variants,
            directory: &directory,
            made: &made,
            calibration: calibration.as_ref(),
            until,
        };
        write!(std::io::stdout(), "{dry}")?;
        return Ok(Exit::Done);
    }
    let runs_of_a_block = variants.len() + 1;
    let block = takes(&plan, None, &[], runs_of_a_block as f64);
    disk_space::check(&plan, until.last(&plan.design, block) * runs_of_a_block, &output)?;
    for unfit in fitness::unfit(plan.design.max_other_cpu) {
        writeln!(std::io::stderr(), "unbloat: warning: {unfit}")?;
    }
    let (mut file, stored) = ExperimentFile::open(&output, &plan, &text, &variants)?;
    for (what, then, now) in stored.changed() {
        let file = output.display();
        writeln!(
            std::io::stderr(),
            "unbloat: warning: the runs in {file} were made with another {what} ({then}; now {now}). The \
             experiment continues anyway, and the report says so; -o with another file starts over"
        )?;
    }
    // A second Ctrl-C ends us at once; the next start then cleans up.
    let executor = ServerExecutor {
        plan: &plan,
        directory,
        unbloat: std::env::current_exe().context("cannot find this program's own file")?,
        interrupted: signal::interruptible()?,
    };
    let mut results = stored.results();
    let mut experiment = Experiment {
        plan: &plan,
        variants: &variants,
        executor,
        file: &mut file,
        progress: Follower::new(args.quiet),
    };
    experiment.progress.promise(&plan, until);
    let end = experiment.conduct(&mut results, stored.calibration, until);
    experiment.progress.finish();
    match end {
        Ok(()) => file.finish("the plan is done")?,
        Err(RunError::Interrupted) => {
            let again = format!("stopped; the same command continues {}", output.display());
            writeln!(std::io::stderr(), "unbloat: {again}")?;
            return Ok(Exit::Status(130));
        }
        Err(error) => return Err(error.into()),
    }
    // The output shows the contents of the file.
    let stored = Stored::read(&output)?;
    show(&stored, &args.show, &output)?;
    Ok(Exit::Done)
}

/// Checks the options of `unbloat bench` in a plan before a server is started.
pub(super) fn check_options(plan: &Plan) -> anyhow::Result<()> {
    use clap::Parser as _;
    let Some((_, bench)) = plan.load.bench() else { return Ok(()) };
    let pace = match bench.rate {
        Some(Rate::Auto | Rate::PerSecond(_)) => Pace::Open { per_second: 1.0, time: Duration::from_secs(1) },
        Some(Rate::Closed) | None => Pace::AsWritten,
    };
    let words = command_line(&plan.load, Path::new("unbloat"), pace).unwrap_or_default();
    let parsed = crate::Cli::try_parse_from(&words);
    parsed.map(drop).with_context(|| format!("cannot use the plan's load.options: `{}`", words.join(" ")))
}

/// Reads a plan's text, and the file to which its relative paths are relative.
pub(super) fn read_plan(name: &str) -> anyhow::Result<(String, PathBuf)> {
    if let Some(plan) = built_in::find(name) {
        return Ok((plan.text.to_owned(), built_in::root()?.join("plans").join(name)));
    }
    let text = std::fs::read_to_string(name).with_context(|| {
        format!(
            "cannot read the plan {name}. Built in are {}; `unbloat compare init` writes one",
            built_in::names()
        )
    })?;
    Ok((text, PathBuf::from(name)))
}

/// Returns the default recording: `shop.unbloat` in the current directory for `shop.toml`.
fn recording_of(plan: &str) -> PathBuf {
    let stem =
        Path::new(plan).file_stem().map_or("compare".into(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{stem}.unbloat"))
}

fn write_plan(directory: &Path, output: &Path) -> anyhow::Result<Exit> {
    anyhow::ensure!(directory.is_dir(), "{} is not a directory", directory.display());
    let directory = directory.canonicalize()?;
    let mut file = std::fs::File::create_new(output)
        .with_context(|| format!("cannot create {}. Give another name with -o", output.display()))?;
    let beside = output.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_here = beside.canonicalize().is_ok_and(|beside| beside == directory);
    let from_here = if is_here { Path::new(".") } else { directory.as_path() };
    file.write_all(init::plan(&directory, from_here).as_bytes())?;
    let found = init::ApplicationKind::look(&directory).describe();
    writeln!(std::io::stdout(), "{}: found {found}. Edit the lines marked <-, then:", output.display())?;
    writeln!(std::io::stdout(), "  unbloat compare {} --dry-run", output.display())?;
    Ok(Exit::Done)
}
