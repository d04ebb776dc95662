//! `unbloat trim`: returns freed memory of running processes to the system.

use crate::arguments::duration;
use crate::exit::{self, Exit};
use crate::targets::Targets;
use crate::terminal;
use std::io::Write as _;
use std::time::Duration;
use unbloat_heap::trim::{Options, Outcome, Trim, trim};
use unbloat_process::{Error, Pid};
use unbloat_report::trim as render;

/// Options of `unbloat trim`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "One thread that is blocked in a system call is borrowed for the allocator's own release \
                        call; no other thread is stopped. docs/method/trim.md explains the procedure, and \
                        what happens if unbloat is killed meanwhile.\n\nExample: unbloat trim --name puma"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Predict the returned memory, and touch nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document (docs/reference/trim.schema.json).
    #[arg(long)]
    json: bool,
    /// Time limit for finding a safe moment in each process.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// Also trim processes that are otherwise refused, at your own risk: PID 1 of the host, and processes
    /// under an unknown seccomp filter.
    #[arg(long)]
    yes: bool,
    /// Print only errors to stderr.
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let roots = args.targets.roots()?;
    let options = Options { dry_run: args.dry_run, timeout: args.timeout, trusted: args.yes };
    let style = terminal::style();
    let mut trims = Vec::new();
    let mut failed = false;
    for pid in args.targets.processes(&roots)? {
        match trim(pid, &options) {
            Ok(trim) => {
                if !args.json {
                    write!(std::io::stdout(), "{}", render::text(&trim, &style))?;
                }
                failed |= !is_this(pid, &roots)
                    && matches!(trim.outcome, Some(Outcome::Refused | Outcome::LeftAlone));
                trims.push(trim);
            }
            // A descendant of a requested process that has ended is not an error.
            Err(Error::Gone { .. }) if !roots.contains(&pid) => {}
            Err(error) => {
                exit::report(&anyhow::Error::from(error));
                failed = true;
            }
        }
    }
    if args.json {
        writeln!(std::io::stdout(), "{}", render::json(&trims))?;
    } else if trims.len() > 1 && !args.quiet {
        write!(std::io::stdout(), "{}", render::total(&trims, &style))?;
    }
    report_refusals(args, &trims);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

/// Returns whether a process is Unbloat itself, found below a requested process such as the shell it runs in.
fn is_this(pid: Pid, roots: &[Pid]) -> bool {
    pid == Pid::this() && !roots.contains(&pid)
}

/// Reports refusals on stderr with JSON; in text the reasons are part of the output.
fn report_refusals(args: &Args, trims: &[Trim]) {
    for trim in trims.iter().filter(|_| args.json) {
        let what = match trim.outcome {
            Some(Outcome::Refused) => "was not trimmed",
            Some(Outcome::LeftAlone) => "was left alone in the middle of the call",
            Some(Outcome::Trimmed | Outcome::NothingToTrim | Outcome::Unsupported) | None => continue,
        };
        let reason = trim.reason.as_deref().unwrap_or_default();
        exit::report(&anyhow::anyhow!("{} ({}) {what}: {reason}", trim.pid, trim.command));
    }
}
