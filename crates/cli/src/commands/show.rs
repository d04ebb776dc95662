//! `unbloat show`: a recording in a few lines.

use crate::exit::Exit;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use unbloat_report::recording::{series::Loaded, summary};
use unbloat_report::style::Style;
use unbloat_store::Reader;

/// Options of `unbloat show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording; it may still be running.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let reader = Reader::open(&args.file)?;
    let (loaded, cost) = (Loaded::read(&reader)?, reader.cost()?);
    let writing = reader.live_owner().map(|owner| owner.pid);
    let text = if args.json {
        let document = summary::json(&loaded, cost.as_ref(), writing);
        format!("{}\n", serde_json::to_string_pretty(&document)?)
    } else {
        summary::text(&loaded, cost.as_ref(), writing, &terminal_style())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// What stdout can show.
pub(crate) fn terminal_style() -> Style {
    if !std::io::stdout().is_terminal() {
        return Style::PLAIN;
    }
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns)).clamp(40, 140);
    Style { width, color: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) }
}
