//! `unbloat trim`: freed memory of running processes goes back to the system.

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
    after_help = "One thread that is blocked in a system call is borrowed for the allocator's own release call; \
                        no other thread is stopped. docs/method/trim.md says what is done, and what if unbloat is \
                        killed meanwhile.\n\nExample: unbloat trim --name puma"
)]
pub(crate) struct Args {
    #[command(flatten)]
    targets: Targets,
    /// Predict what would be returned, and touch nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON document (docs/reference/trim.schema.json).
    #[arg(long)]
    json: bool,
    /// How long to look for a safe moment in each process.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    timeout: Duration,
    /// Vouch for what is otherwise refused: PID 1 of the host, and processes under a seccomp filter that is not known.
    #[arg(long)]
    yes: bool,
    /// Say nothing on stderr but errors.
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
            // What ended below a process that was asked for is not missed.
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

/// Whether it is Unbloat itself that was met below a process that was asked for, such as the shell it runs in.
fn is_this(pid: Pid, roots: &[Pid]) -> bool {
    pid == Pid::this() && !roots.contains(&pid)
}

/// In text the reasons stand with the processes; beside JSON they are told on stderr.
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
