//! `unbloat run`: becomes the server's command, with the environment of a policy.

use super::policy::{self, PolicyOption, variable};
use crate::exit::Exit;
use anyhow::Context as _;
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use unbloat_policy::{Changes, Note, Policy, Program, program};
use unbloat_process::exec;

/// Options of `unbloat run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyOption,
    /// Suppress warnings about conflicts with existing settings.
    #[arg(long, short)]
    quiet: bool,
    /// Command that starts the server, with its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A shell's exit statuses for a command that does not exist, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let policy = match args.policy.policy() {
        Ok(policy) => policy,
        Err(error) => return usage(&error),
    };
    let Some(name) = args.command.first() else { return Ok(Exit::Usage) };
    let path = std::env::var_os("PATH").unwrap_or_else(|| program::DEFAULT_PATH.into());
    let path = path.to_string_lossy();
    let Some(file) = program::find(&name.to_string_lossy(), &path) else {
        return fail(NOT_FOUND, name, "command not found", "Check its spelling and PATH");
    };
    let program = Program::examine(&file, &path);
    let changes = changes_for(&policy, &program)?;
    if !args.quiet {
        for note in &changes.notes {
            writeln!(io::stderr(), "unbloat: {note}").ok();
        }
    }
    let error = exec::become_program(&file, &c_strings(&args.command)?, &environment(&changes)?);
    match error.kind() {
        io::ErrorKind::NotFound => fail(NOT_FOUND, name, &error.to_string(), "Its interpreter is missing"),
        _ => fail(NOT_EXECUTABLE, name, &error.to_string(), "Check its permissions and its format"),
    }
}

/// Returns the changes that can work in this program, with notes on the rest.
fn changes_for(policy: &Policy, program: &Program) -> anyhow::Result<Changes> {
    if *policy == Policy::OFF {
        return Ok(unbloat_policy::changes(policy, Path::new(""), variable));
    }
    let policy = policy.clone().within(program);
    let libraries = policy::libraries(&policy).context("cannot start a server lean")?;
    let mut changes = unbloat_policy::changes(&policy, &libraries, variable);
    let missing = policy.missing_allocator().map(|path| Note::NoAllocator { path: path.clone() });
    changes.notes.splice(0..0, program.notes().chain(missing));
    Ok(changes)
}

/// Returns our own environment with the changes applied.
fn environment(changes: &Changes) -> anyhow::Result<Vec<CString>> {
    let mut variables: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for name in &changes.unset {
        variables.remove(std::ffi::OsStr::new(name));
    }
    for (name, value) in &changes.set {
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
    strings.collect::<Result<_, _>>().context("an argument contains a zero byte")
}

fn usage(error: &dyn std::error::Error) -> anyhow::Result<Exit> {
    writeln!(io::stderr(), "unbloat: {error}").ok();
    Ok(Exit::Usage)
}

fn fail(status: u8, command: &OsString, cause: &str, next: &str) -> anyhow::Result<Exit> {
    writeln!(io::stderr(), "unbloat: cannot run {}: {cause}. {next}.", Path::new(command).display()).ok();
    Ok(Exit::Status(status))
}
