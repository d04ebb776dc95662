//! `unbloat generate`: man pages and completions, for packages.

use crate::exit::Exit;
use anyhow::Context as _;
use clap::{Command, CommandFactory as _};
use clap_complete::Shell;
use std::fs;
use std::path::{Path, PathBuf};

/// Options of `unbloat generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The directory, created if necessary: `man1`, `bash`, `zsh` and `fish` below it.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The shells and the folders of their completions.
const SHELLS: [(Shell, &str); 3] = [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")];

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut program = without_help_commands(crate::Cli::command());
    program.build();
    let pages = made(&args.directory, "man1")?;
    clap_mangen::generate_to(program.clone(), &pages).with_context(|| cannot_write(&pages))?;
    for (shell, folder) in SHELLS {
        let folder = made(&args.directory, folder)?;
        clap_complete::generate_to(shell, &mut program, "unbloat", &folder)
            .with_context(|| cannot_write(&folder))?;
    }
    Ok(Exit::Done)
}

/// Returns the program without its `help` commands, which would have a page for each page.
fn without_help_commands(program: Command) -> Command {
    program.disable_help_subcommand(true).mut_subcommands(without_help_commands)
}

fn made(directory: &Path, folder: &str) -> anyhow::Result<PathBuf> {
    let folder = directory.join(folder);
    fs::create_dir_all(&folder).with_context(|| cannot_write(&folder))?;
    Ok(folder)
}

fn cannot_write(folder: &Path) -> String {
    format!("cannot write to {}", folder.display())
}
