//! `unbloat keep`: starts a command for `unbloat compare`, and ends all of it when `unbloat compare` ends, by SIGKILL too.

use crate::exit::Exit;
use anyhow::Context as _;
use unbloat_lab::keep;

/// Options of `unbloat keep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The command
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let status =
        keep::serve(&args.command).context("`unbloat compare` calls this, with a socket as stdin")?;
    Ok(Exit::Status(status.clamp(0, 255) as u8))
}
