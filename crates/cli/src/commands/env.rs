//! `unbloat env`: prints the variables that `unbloat run` would set, for a shell or a deployment file.

use super::policy::{self, PolicyOption, variable};
use crate::exit::Exit;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use unbloat_policy::deploy::{self, Format};
use unbloat_policy::{Changes, Policy};

/// Options of `unbloat env`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyOption,
    /// Output format.
    #[arg(long, value_parser = formats(), default_value = "shell")]
    format: Format,
    /// Print one JSON document instead: the changes to the environment of this process, and the notes on conflicts.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Directory of the libraries on the target system (see `unbloat install`) [default: this user's cache]
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Suppress warnings about conflicts with existing settings.
    #[arg(long, short)]
    quiet: bool,
}

/// The formats by their names.
fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|format| PossibleValue::new(format.name()).help(format.describe()));
    PossibleValuesParser::new(values)
        .try_map(|name| Format::ALL.into_iter().find(|format| format.name() == name).ok_or("no such format"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let policy = match args.policy.policy() {
        Ok(policy) => policy,
        Err(error) => {
            writeln!(io::stderr(), "unbloat: {error}").ok();
            return Ok(Exit::Usage);
        }
    };
    let libraries = match &args.libraries {
        Some(directory) => directory.clone(),
        None => policy::libraries(&policy)?,
    };
    // A shell shares our environment. Lines written to a file are for a server whose environment is unknown
    // here, so nothing of ours belongs into them, and nothing may be left out because it happens to be set
    // here.
    let here = |name: &str| variable(name).filter(|_| args.json || args.format == Format::Shell);
    let changes = unbloat_policy::changes(&policy, &libraries, here);
    if args.json {
        write!(io::stdout(), "{}", document(&policy, &changes)?)?;
        return Ok(Exit::Done);
    }
    if !args.quiet {
        for note in &changes.notes {
            writeln!(io::stderr(), "unbloat: {note}").ok();
        }
    }
    let format = args.format;
    let set: Vec<(String, String)> =
        changes.set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut lines = deploy::removals(format, &changes.unset);
    lines.extend(deploy::variables(format, &set).into_iter().collect::<Result<Vec<_>, _>>()?);
    for line in lines {
        writeln!(io::stdout(), "{line}")?;
    }
    Ok(Exit::Done)
}

/// The changes as `docs/reference/env.schema.json` has them.
fn document(policy: &Policy, changes: &Changes) -> serde_json::Result<String> {
    let set: BTreeMap<&str, &str> = changes.set.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let notes: Vec<String> = changes.notes.iter().map(ToString::to_string).collect();
    let document = serde_json::json!({
        "schema": 1,
        "policy": policy.to_string(),
        "set": set,
        "unset": changes.unset,
        "notes": notes,
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
