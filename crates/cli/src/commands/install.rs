//! `unbloat install`: writes the libraries into a directory.

use crate::exit::Exit;
use std::io::{self, Write as _};
use std::path::PathBuf;
use unbloat_bundle as bundle;

/// Options of `unbloat install`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Directory for the libraries, created if necessary.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let files = bundle::install(&args.directory)?;
    for file in files {
        writeln!(io::stdout(), "{}", file.display())?;
    }
    Ok(Exit::Done)
}
