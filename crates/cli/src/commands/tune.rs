//! `unbloat tune`: the best setup for a server, from one plan, with evidence.

use super::compare::follow::Follower;
use super::compare::{check_options, read_plan, variants_here};
use super::report::{Show, render, style};
use crate::arguments::interval;
use crate::exit::Exit;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use unbloat_lab::executor::RunError;
use unbloat_lab::file::Stored;
use unbloat_lab::fitness;
use unbloat_lab::plan::Plan;
use unbloat_lab::servers::{Servers, directory_of};
use unbloat_lab::tune::space::space;
use unbloat_lab::tune::{Search, SearchError};
use unbloat_lab::variant::Variant;
use unbloat_process::signal;
use unbloat_report::json::pretty;
use unbloat_report::tune::document;

/// Options of `unbloat tune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plan's file, or a built-in plan: cable, web, jobs or fragment. Its first variant is the control
    plan: String,
    /// The directory of the recordings; the same command continues it [default: PLAN's name.tune]
    #[arg(short, long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The time for search and proof; the search gets half of it
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1h")]
    within: Duration,
    /// Print the setups that would be tried, likely ones first
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    show: Show,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (text, base) = read_plan(&args.plan)?;
    let plan = Plan::parse(&text).with_context(|| format!("cannot use the plan {}", args.plan))?;
    let server_directory =
        directory_of(&base, &plan).context("cannot find the directory that server.directory names")?;
    let variants = variants_here(&plan, &server_directory)?;
    check_options(&plan)?;
    if args.dry_run {
        return dry_run(&plan, &variants);
    }
    let directory = args.output.clone().unwrap_or_else(|| directory_for(&args.plan));
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for unfit in fitness::unfit(plan.design.max_other_cpu) {
        writeln!(std::io::stderr(), "unbloat: warning: {unfit}")?;
    }
    let executors = Servers {
        directory: server_directory.clone(),
        unbloat: std::env::current_exe().context("cannot find this program's own file")?,
        interrupted: signal::interruptible()?,
    };
    let mut search = Search {
        plan: &plan,
        variants: &variants,
        server_directory: &server_directory,
        directory: &directory,
        executors,
        follow: Follower::new(args.quiet),
    };
    let end = search.conduct(Some(args.within));
    search.follow.finish();
    match end {
        Ok(found) => {
            let recording = found.recording.clone();
            let page = args.show.html.clone().unwrap_or_else(|| recording.with_extension("html"));
            let stored = Stored::read(&recording)?;
            let printed =
                render(&stored, &recording, &page, Some(found.clone()), |last| match args.show.json {
                    true => pretty(&document(&found, last, Path::new("unbloat"))) + "\n",
                    false => unbloat_report::tune::text(&found, last, &style()),
                })?;
            let mut out = std::io::stdout().lock();
            write!(out, "{printed}")?;
            if !args.show.json {
                writeln!(out, "\nreport      {}\nrecordings  {}", page.display(), directory.display())?;
            }
            Ok(Exit::Done)
        }
        Err(SearchError::Run(RunError::Interrupted)) => {
            let again = format!("stopped; the same command goes on with {}", directory.display());
            writeln!(std::io::stderr(), "unbloat: {again}")?;
            Ok(Exit::Status(130))
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints the setups of a search. The server's Ruby is known only when it runs, so settings that need a newer
/// one are not listed.
fn dry_run(plan: &Plan, variants: &[Variant]) -> anyhow::Result<Exit> {
    let (control, own) = variants.split_first().context("the plan has no control")?;
    let is_installed = |library: &str| unbloat_lab::library::find(library).is_some();
    let space = space(plan, control, own, None, is_installed);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: {} setups against {}", plan.title, space.candidates.len(), control.name)?;
    for variant in &space.candidates {
        let words = variant.words(Path::new("unbloat")).join(" ");
        let start = variant.start.as_ref().filter(|_| variant.start != control.start);
        let start = start.map_or(String::new(), |start| format!("  starts {}", start.join(" ")));
        writeln!(out, "  {:28} {words}{start}", variant.name)?;
    }
    for left in &space.left_out {
        writeln!(out, "  not {:24} {}", left.what, left.why)?;
    }
    Ok(Exit::Done)
}

/// Returns the directory of a search: `shop.tune` in the current directory for `plans/shop.toml`.
fn directory_for(plan: &str) -> PathBuf {
    let stem = Path::new(plan).file_stem().map_or("plan".into(), |stem| stem.to_string_lossy().into_owned());
    PathBuf::from(format!("{stem}.tune"))
}
