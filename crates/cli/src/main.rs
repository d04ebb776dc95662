//! `unbloat`: finds and removes memory bloat in Ruby servers.
//!
//! This file only parses the arguments, dispatches to one file per command under [`commands`], and turns the
//! result into an exit status: 0 done, 1 failed, 2 usage, 3 done but the answer is no.

mod arguments;
mod clock;
mod commands;
mod exit;
mod follow;
mod in_place;
mod targets;
mod terminal;
mod watched;

use clap::Parser;
use exit::Exit;

/// Finds and removes memory bloat in Ruby servers.
#[derive(Debug, Parser)]
#[command(name = "unbloat", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    match commands::run(cli.command) {
        Ok(exit) => exit.into(),
        // The reader has seen enough: `unbloat … | head`.
        Err(error) if exit::is_broken_pipe(&error) => Exit::Done.into(),
        Err(error) => {
            exit::report(&error);
            Exit::Failed.into()
        }
    }
}
