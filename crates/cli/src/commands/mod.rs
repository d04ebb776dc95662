//! The commands: one file each, thin. A command parses its options, calls the library crates and renders.

mod bench;
mod version;

use crate::exit::Exit;
use clap::Subcommand;

/// What the user asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Put load on a server and measure what its users feel.
    Bench(bench::Args),
    /// Print the version with what it was built from.
    Version(version::Args),
}

/// Runs a command and says with which status to leave.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Bench(args) => bench::run(&args),
        Command::Version(args) => version::run(&args),
    }
}
