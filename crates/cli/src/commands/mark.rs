//! `unbloat mark`: names a moment in a running recording, such as a deploy or a load step.

use crate::exit::Exit;
use std::path::PathBuf;
use unbloat_store::Writer;

/// Options of `unbloat mark`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recording to mark, which must be running.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Name of this moment.
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut writer = Writer::join(&args.file)?;
    let now = writer.now_ns()?;
    writer.batch(|batch| batch.mark(now, &args.text.join(" "), None))?;
    Ok(Exit::Done)
}
