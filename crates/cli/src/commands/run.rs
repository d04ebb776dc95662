//! `unbloat run`: becomes the server's command, with the environment of a policy.

use super::policy::{self, PolicyOption, variable};
use crate::exit::Exit;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use unbloat_policy::{Plan, Policy, Target, target};
use unbloat_process::exec;

/// Options of `unbloat run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyOption,
    /// Say nothing about conflicts with what is set already.
    #[arg(long, short)]
    quiet: bool,
    /// The command that starts the server, with its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What a shell says of a command that is not there, and of one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let policy = match args.policy.policy() {
        Ok(policy) => policy,
        Err(error) => return usage(&error),
    };
    let Some(name) = args.command.first() else { return Ok(Exit::Usage) };
    let path = std::env::var_os("PATH").unwrap_or_else(|| target::DEFAULT_PATH.into());
    let path = path.to_string_lossy();
    let Some(file) = target::find(&name.to_string_lossy(), &path) else {
        return fail(NOT_FOUND, name, "command not found", "Check its spelling and PATH");
    };
    let target = Target::examine(&file, &path);
    let (plan, policy_notes) = plan_for(&policy, &target)?;
    if !args.quiet {
        for note in policy_notes.iter().chain(&plan.notes) {
            writeln!(io::stderr(), "unbloat: {note}").ok();
        }
    }
    let error = exec::become_program(&file, &c_strings(&args.command)?, &environment(&plan)?);
    match error.kind() {
        io::ErrorKind::NotFound => fail(NOT_FOUND, name, &error.to_string(), "Its interpreter is missing"),
        _ => fail(NOT_EXECUTABLE, name, &error.to_string(), "Check its permissions and its format"),
    }
}

/// The plan for what can work in this target, and what there is to say about the rest.
fn plan_for(policy: &Policy, target: &Target) -> anyhow::Result<(Plan, Vec<String>)> {
    if *policy == Policy::OFF {
        return Ok((unbloat_policy::plan(policy, Path::new(""), variable), Vec::new()));
    }
    let policy = policy.clone().within(target);
    let notes = target.notes().chain(policy.missing_allocator()).collect();
    let libraries = policy::libraries(&policy).context("cannot start a server lean")?;
    Ok((unbloat_policy::plan(&policy, &libraries, variable), notes))
}

/// Our own environment with the plan's changes.
fn environment(plan: &Plan) -> anyhow::Result<Vec<CString>> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for name in &plan.unset {
        variables.remove(std::ffi::OsStr::new(name));
    }
    for (name, value) in &plan.set {
        variables.insert(name.into(), value.into());
    }
    let pairs: Vec<OsString> = variables
        .into_iter()
        .map(|(name, value)| OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat()))
        .collect();
    c_strings(&pairs)
}

fn c_strings(words: &[OsString]) -> anyhow::Result<Vec<CString>> {
    let strings = words.iter().map(|word| CString::new(word.as_bytes()));
    strings.collect::<Result<_, _>>().context("an argument holds a zero byte")
}

fn usage(error: &dyn std::error::Error) -> anyhow::Result<Exit> {
    writeln!(io::stderr(), "unbloat: {error}").ok();
    Ok(Exit::Usage)
}

fn fail(status: u8, command: &OsString, cause: &str, next: &str) -> anyhow::Result<Exit> {
    writeln!(io::stderr(), "unbloat: cannot run {}: {cause}. {next}.", Path::new(command).display()).ok();
    Ok(Exit::Status(status))
}
