//! `unbloat show`: summarizes a recording in a few lines.

use crate::exit::Exit;
use crate::terminal;
use std::io::Write as _;
use std::path::PathBuf;
use unbloat_report::recording::summary;
use unbloat_store::Reader;

/// Options of `unbloat show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recording to summarize; it may still be running.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let reader = Reader::open(&args.file)?;
    let recording = reader.load()?;
    let writing = reader.live_owner().map(|owner| owner.pid);
    let text = if args.json {
        let document = summary::json(&recording, writing);
        format!("{}\n", unbloat_report::json::pretty(&document))
    } else {
        summary::text(&recording, writing, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}
