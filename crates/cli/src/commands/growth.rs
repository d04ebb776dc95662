//! `unbloat growth`: tells a leak from fragmentation and a plateau.

use crate::exit::Exit;
use crate::terminal;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::PathBuf;
use unbloat_heap::model::Segment;
use unbloat_recording::growth::{Findings, Holding};
use unbloat_report::recording::growth;
use unbloat_store::Reader;

/// Options of `unbloat growth`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recording to analyze; it may still be running.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Write one self-contained page, too.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Exit with status 3 if a leak is suspected.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let recording = Reader::open(&args.file)?.load()?;
    let findings = Findings::of(&recording, holding);
    if let Some(page) = &args.html {
        std::fs::write(page, growth::html(&findings, &recording))
            .with_context(|| format!("cannot write {}", page.display()))?;
    }
    let text = if args.json {
        format!("{}\n", unbloat_report::json::pretty(&growth::json(&findings)))
    } else {
        growth::text(&findings, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if args.check && findings.leak_suspected() { Exit::No } else { Exit::Done })
}

/// Returns the sum to which a category of the census counts.
fn holding(category: &str) -> Holding {
    match Segment::named(category) {
        segment if segment.is_live() => Holding::Live,
        segment if segment.is_bloat() => Holding::Bloat,
        _ => Holding::Neither,
    }
}
