//! `unbloat bench`: load on a server, with honest latency. One file a driver.

mod cable;
mod follow;
mod http;
mod jobs;
mod record;

use crate::exit::Exit;

/// Options of `unbloat bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    driver: Driver,
}

/// Which load.
#[derive(Debug, clap::Subcommand)]
enum Driver {
    /// Broadcast over WebSockets (Action Cable, AnyCable, Phoenix) and time until the last subscriber has it.
    Cable(Box<cable::Args>),
    /// Ask for a weighted mix of pages over HTTP, in a closed or an open loop.
    Http(Box<http::Args>),
    /// Push Sidekiq jobs and time from outside how long they wait and run.
    Jobs(Box<jobs::Args>),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    match &args.driver {
        Driver::Cable(args) => cable::run(args),
        Driver::Http(args) => http::run(args),
        Driver::Jobs(args) => jobs::run(args),
    }
}

/// Options that all drivers have.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Print one JSON document instead of text (docs/reference/bench.schema.json)
    #[arg(long)]
    json: bool,
    /// Also write the result into this recording file (a new one, or one that `unbloat record` is writing)
    #[arg(long, short, value_name = "FILE")]
    output: Option<std::path::PathBuf>,
    /// Say nothing on stderr but errors
    #[arg(long, short)]
    quiet: bool,
}

/// A status for scripts: 3 when the run is not clean.
fn exit(clean: bool) -> Exit {
    if clean { Exit::Done } else { Exit::No }
}

/// `Name: value`, as curl takes headers.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("'{text}' is no header: write 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
