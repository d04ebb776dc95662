//! `unbloat bench`: load on a server, with honest latency. One file per driver.

mod cable;
mod follow;
mod http;
mod jobs;
mod record;
mod run;

use crate::exit::Exit;
use std::path::PathBuf;
use unbloat_load::Trust;

/// Options of `unbloat bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    driver: Driver,
}

/// The load drivers.
#[derive(Debug, clap::Subcommand)]
enum Driver {
    /// Broadcast over WebSockets (Action Cable, AnyCable, Phoenix) and time until the last subscriber has it.
    Cable(Box<cable::Args>),
    /// Request a weighted mix of pages over HTTP, in a closed or an open loop.
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

/// Options common to all drivers.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Print one JSON document instead of text (docs/reference/bench.schema.json)
    #[arg(long)]
    json: bool,
    /// Also write the result into this recording file (a new one, or one that `unbloat record` is writing)
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print only errors to stderr
    #[arg(long, short)]
    quiet: bool,
}

/// The server certificates to trust.
#[derive(Debug, clap::Args)]
struct Certificates {
    /// Trust server certificates signed by one in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Trust any certificate
    #[arg(long)]
    insecure: bool,
}

impl Certificates {
    fn trust(&self) -> Trust {
        match &self.ca {
            Some(path) => Trust::File(path.clone()),
            None if self.insecure => Trust::Anything,
            None => Trust::System,
        }
    }
}

/// Parses `Name: value`, the form in which curl takes headers.
fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("'{text}' is not a header: write 'Name: value'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
