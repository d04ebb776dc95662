//! `unbloat env`: prints what `unbloat run` would set, for a shell or for a file that deploys a server.

use super::policy::{self, PolicyOption, variable};
use crate::exit::Exit;
use std::io::{self, Write as _};
use std::path::PathBuf;
use unbloat_policy::deploy;

/// Options of `unbloat env`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyOption,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Shell)]
    format: Format,
    /// Where the libraries will lie (see `unbloat install`), if not in the cache of this user.
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Say nothing about conflicts with what is set already.
    #[arg(long, short)]
    quiet: bool,
}

/// The forms in which an environment can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// `export` lines, for `eval "$(unbloat env)"`.
    Shell,
    /// `ENV` lines of a Dockerfile.
    Dockerfile,
    /// `Environment=` lines of a systemd unit.
    Systemd,
    /// The words to put in front of a Procfile's command.
    Procfile,
    /// A `heroku config:set` command.
    Heroku,
    /// `env:` of a container in a Kubernetes manifest.
    Kubernetes,
}

impl Format {
    fn of_deployment(self) -> deploy::Format {
        match self {
            Format::Shell => deploy::Format::Shell,
            Format::Dockerfile => deploy::Format::Dockerfile,
            Format::Systemd => deploy::Format::Systemd,
            Format::Procfile => deploy::Format::Procfile,
            Format::Heroku => deploy::Format::Heroku,
            Format::Kubernetes => deploy::Format::Kubernetes,
        }
    }
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
    // A shell has our environment. What is written into a file goes to a server whose environment nobody knows here:
    // nothing of ours belongs into it, and nothing may be left out because it happens to be set here.
    let here = |name: &str| variable(name).filter(|_| args.format == Format::Shell);
    let changes = unbloat_policy::changes(&policy, &libraries, here);
    if !args.quiet {
        for note in &changes.notes {
            writeln!(io::stderr(), "unbloat: {note}").ok();
        }
    }
    let format = args.format.of_deployment();
    let set: Vec<(String, String)> =
        changes.set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut lines = deploy::removals(format, &changes.unset);
    lines.extend(deploy::variables(format, &set).into_iter().collect::<Result<Vec<_>, _>>()?);
    for line in lines {
        writeln!(io::stdout(), "{line}")?;
    }
    Ok(Exit::Done)
}
