//! `unbloat doctor`: checks the machine, the container and a process, and prints the line that fixes each
//! problem.
//!
//! A check is a row in one of the three tables: a code, a place, and a function that looks.
//!
//! | module | concept |
//! |---|---|
//! | `machine` | the kernel's settings |
//! | `container` | the permissions and limits under which we run |
//! | `process` | one server: its allocator, its policy, its swap |

mod container;
mod machine;
mod process;

use crate::exit::Exit;
use serde::Serialize;
use std::io::{self, Write};
use unbloat_process::Pid;
use unbloat_untrusted::Untrusted;

/// Options of `unbloat doctor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The exit status is 3 if a check finds a problem, and 0 if there is only advice.")]
pub(crate) struct Args {
    /// A server to check in addition.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Print one JSON document (docs/reference/doctor.schema.json).
    #[arg(long)]
    json: bool,
}

/// A check: a row of a table.
struct Check<Subject> {
    /// The name for scripts.
    code: &'static str,
    examine: fn(&Subject) -> Verdict,
}

/// The result of a check.
enum Verdict {
    /// Everything is fine; holds the observation.
    Fine(String),
    /// The state is unknown.
    Unknown(String),
    /// It could be better; holds the observation and the line that improves it.
    Advice(String, String),
    /// It does not work; holds the observation and the line that fixes it.
    Problem(String, String),
}

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Machine,
    Container,
    Process,
}

/// A check's result in the format of `docs/reference/doctor.schema.json`.
#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    place: Place,
    state: &'static str,
    what: Untrusted,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<Untrusted>,
}

impl Finding {
    fn new(check: &'static str, place: Place, verdict: Verdict) -> Self {
        let (state, what, fix) = match verdict {
            Verdict::Fine(what) => ("fine", what, None),
            Verdict::Unknown(what) => ("unknown", what, None),
            Verdict::Advice(what, fix) => ("advice", what, Some(fix)),
            Verdict::Problem(what, fix) => ("problem", what, Some(fix)),
        };
        Self { check, place, state, what: what.into(), fix: fix.map(Untrusted::from) }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut findings = examine(&machine::CHECKS, Place::Machine, &());
    findings.extend(examine(&container::CHECKS, Place::Container, &()));
    if let Some(pid) = args.pid {
        let server = process::Server::of(Pid(pid))?;
        findings.extend(examine(&process::CHECKS, Place::Process, &server));
    }
    let mut out = io::stdout();
    if args.json {
        writeln!(out, "{:#}", serde_json::json!({ "schema": 1, "checks": findings }))?;
    } else {
        findings.iter().try_for_each(|finding| tell(&mut out, finding))?;
    }
    let problem = findings.iter().any(|finding| finding.state == "problem");
    Ok(if problem { Exit::No } else { Exit::Done })
}

fn examine<Subject>(checks: &[Check<Subject>], place: Place, subject: &Subject) -> Vec<Finding> {
    checks.iter().map(|check| Finding::new(check.code, place, (check.examine)(subject))).collect()
}

fn tell(out: &mut impl Write, finding: &Finding) -> io::Result<()> {
    writeln!(out, "{:<9}{:<15}{}", finding.state, finding.check, finding.what)?;
    match &finding.fix {
        Some(fix) => writeln!(out, "{:24}→ {fix}", ""),
        None => Ok(()),
    }
}

/// Returns a file's text without the end of its line, or `None` if it is unreadable.
fn text_of(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim_end().to_owned())
}
