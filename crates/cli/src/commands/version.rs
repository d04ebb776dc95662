//! `unbloat version`: which build this is.

use crate::exit::Exit;
use std::io::Write as _;

/// Options of `unbloat version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_args: &Args) -> anyhow::Result<Exit> {
    writeln!(std::io::stdout(), "unbloat {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Exit::Done)
}
