//! `unbloat version`: prints the version and build.

use crate::exit::Exit;
use std::io::Write as _;
use unbloat_bundle::{Library, contents};

/// Options of `unbloat version`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON document (docs/reference/version.schema.json).
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout();
    if args.json {
        writeln!(out, "{:#}", document())?;
    } else {
        writeln!(out, "unbloat {}", env!("CARGO_PKG_VERSION"))?;
    }
    Ok(Exit::Done)
}

fn document() -> serde_json::Value {
    let libraries = Library::ALL.into_iter();
    let libraries = libraries.map(
        |library| serde_json::json!({ "name": library.file_name(), "file_bytes": contents(library).len() }),
    );
    serde_json::json!({
        "schema": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "platform": format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        "libraries": libraries.collect::<Vec<_>>(),
    })
}
