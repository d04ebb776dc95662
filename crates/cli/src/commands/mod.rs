//! The commands: one file each, thin. A command parses its options, calls the library crates and renders.

mod bench;
mod compare;
mod env;
mod growth;
mod import;
mod inspect;
mod install;
mod keep;
mod mark;
mod plot;
mod policy;
mod record;
mod report;
mod run;
mod show;
mod status;
mod trim;
mod version;

use crate::exit::Exit;
use clap::Subcommand;

/// What the user asks for.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show where every resident byte of running processes is, and what to do about it.
    Inspect(inspect::Args),
    /// Put load on a server and measure what its users feel.
    Bench(bench::Args),
    /// Record the memory of a command or of running processes over time.
    Record(record::Args),
    /// Name a moment in a running recording.
    Mark(mark::Args),
    /// Summarize a recording.
    Show(show::Args),
    /// Draw a recording.
    Plot(plot::Args),
    /// Say whether a recording shows a leak, fragmentation or a plateau.
    Growth(growth::Args),
    /// Make a recording from a log of psrecord.
    Import(import::Args),
    /// Start a server so that it stays lean.
    Run(run::Args),
    /// Print the environment that `unbloat run` gives a server.
    Env(env::Args),
    /// Write the libraries into a directory, for images that have no unbloat.
    Install(install::Args),
    /// Show what the runtime does in the processes that were started with it.
    Status(status::Args),
    /// Compare configurations of a server and recommend one, with evidence.
    Compare(compare::Args),
    /// Render an experiment again from its recording, or two beside each other.
    Report(report::Args),
    /// Give freed memory of running processes back, without a restart.
    Trim(trim::Args),
    /// What `compare` starts servers and loads with; of no use by hand.
    #[command(hide = true)]
    Keep(keep::Args),
    /// Print the version with what it was built from.
    Version(version::Args),
}

/// Runs a command and says with which status to leave.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Mark(args) => mark::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Growth(args) => growth::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Env(args) => env::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Trim(args) => trim::run(&args),
        Command::Keep(args) => keep::run(&args),
        Command::Version(args) => version::run(&args),
    }
}
