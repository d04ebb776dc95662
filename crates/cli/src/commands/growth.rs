//! `unbloat growth`: tells a leak from fragmentation and a plateau.

use crate::exit::Exit;
use crate::terminal;
use std::io::Write as _;
use std::path::PathBuf;
use unbloat_heap::model::Segment;
use unbloat_recording::growth::{Findings, Holding};
use unbloat_report::recording::growth;
use unbloat_store::Reader;

/// Options of `unbloat growth`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording; it may still be running.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Leave with status 3 when a leak is suspected.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let findings = Findings::of(&Reader::open(&args.file)?.load()?, holding);
    let text = if args.json {
        format!("{}\n", unbloat_report::json::pretty(&growth::json(&findings)))
    } else {
        growth::text(&findings, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if args.check && findings.leak_suspected() { Exit::No } else { Exit::Done })
}

/// The sum that a category of the census counts towards.
fn holding(category: &str) -> Holding {
    match Segment::named(category) {
        segment if segment.is_live() => Holding::Live,
        segment if segment.is_bloat() => Holding::Bloat,
        _ => Holding::Neither,
    }
}
