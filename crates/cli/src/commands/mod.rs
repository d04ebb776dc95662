//! The commands: one file each, thin. A command parses its options, calls the library crates and renders.

mod bench;
mod code;
mod compare;
mod diff;
mod doctor;
mod env;
mod export;
mod generate;
mod growth;
mod holds;
mod import;
mod inspect;
mod install;
mod keep;
mod looks;
mod mark;
mod objects;
mod plot;
mod policy;
mod record;
mod report;
mod run;
mod show;
mod status;
mod top;
mod trim;
mod tune;
mod unshared;
mod version;

use crate::exit::Exit;
use clap::Subcommand;

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show where every resident byte of running processes is, and what to do about it.
    Inspect(inspect::Args),
    /// Show the live objects of running Rubies by class: count, slots, malloc memory.
    Objects(objects::Args),
    /// Show the memory of loaded code in running Rubies, by gem and file.
    Code(code::Args),
    /// Show the objects that retain most memory in running Rubies, the paths that hold them, and the garbage.
    Holds(holds::Args),
    /// Show what un-shared the memory that forked workers inherited, and what helps.
    Unshared(unshared::Args),
    /// Show running processes live: PSS, bloat, floor, growth; inspect, trim and record them at a key.
    Top(top::Args),
    /// Put load on a server and measure the latency its users experience.
    Bench(bench::Args),
    /// Record the memory of a command or of running processes over time.
    Record(record::Args),
    /// Give out metrics of running processes, for Prometheus.
    Export(export::Args),
    /// Name a moment in a running recording.
    Mark(mark::Args),
    /// Summarize a recording.
    Show(show::Args),
    /// Draw a recording.
    Plot(plot::Args),
    /// Determine whether a recording shows a leak, fragmentation or a plateau.
    Growth(growth::Args),
    /// Show what was born, died and stayed between two looks or moments, by class or gem.
    Diff(diff::Args),
    /// Create a recording from a psrecord log.
    Import(import::Args),
    /// Start a server so that it stays lean.
    Run(run::Args),
    /// Print the environment that `unbloat run` gives a server.
    Env(env::Args),
    /// Write the libraries into a directory, for images without unbloat.
    Install(install::Args),
    /// Show the runtime's work in the processes started with it.
    Status(status::Args),
    /// Compare configurations of a server and recommend one, with evidence.
    Compare(compare::Args),
    /// Search for the best setup of a server, and prove it on fresh runs.
    Tune(tune::Args),
    /// Render an experiment again from its recording, or a comparison of two.
    Report(report::Args),
    /// Return freed memory of running processes to the system, without a restart.
    Trim(trim::Args),
    /// Start a server or load on behalf of `compare`; not for direct use.
    #[command(hide = true)]
    Keep(keep::Args),
    /// Check the machine, the container and a process, and print the command that fixes each problem.
    Doctor(doctor::Args),
    /// Write man pages and completions, for packages.
    #[command(hide = true)]
    Generate(generate::Args),
    /// Print the version and build.
    Version(version::Args),
}

/// Runs a command and returns its exit status.
pub(crate) fn run(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Inspect(args) => inspect::run(&args),
        Command::Objects(args) => objects::run(&args),
        Command::Code(args) => code::run(&args),
        Command::Holds(args) => holds::run(&args),
        Command::Unshared(args) => unshared::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Record(args) => record::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Mark(args) => mark::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Growth(args) => growth::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Env(args) => env::run(&args),
        Command::Install(args) => install::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Trim(args) => trim::run(&args),
        Command::Keep(args) => keep::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Version(args) => version::run(&args),
    }
}
