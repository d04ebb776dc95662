//! `unbloat keep`: starts a command for `unbloat compare`, and kills all of it when `unbloat compare` ends,
//! even by SIGKILL.

use crate::exit::Exit;
use anyhow::Context as _;
use std::path::PathBuf;
use unbloat_lab::keep;

/// Options of `unbloat keep`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scratch directory, removed if `unbloat compare` ends before the command
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// Command to start
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let status = keep::serve(&args.command, args.scratch.as_deref())
        .context("`unbloat compare` calls this, with a socket as stdin")?;
    Ok(Exit::Status(status.clamp(0, 255) as u8))
}
