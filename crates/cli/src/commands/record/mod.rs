//! `unbloat record`: records the memory of a command or of running processes over time.

mod view;

use crate::arguments::{bytes, interval, share};
use crate::exit::Exit;
use anyhow::{Context as _, bail};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use unbloat_process::{Pid, Tree};
use unbloat_record::{Options, Target};
use unbloat_recording::{Key, Kind};
use unbloat_store::{Writer, begin};

/// Options of `unbloat record`.
#[derive(Debug, clap::Args)]
#[command(after_help = "The command's exit status is passed on. On Ctrl-C the command is given time to end \
                        (--grace), then whatever is left of it is killed, unless --detach.")]
pub(crate) struct Args {
    /// File to write [default: NAME-DATE-TIME.unbloat in the current directory]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Record this process and its descendants. May be repeated.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Vec<i32>,
    /// Record the running processes whose command line matches, and their descendants.
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["command", "pid"])]
    name: Option<regex::Regex>,
    /// Interval between samples of RSS, CPU, faults and threads; PSS is taken at most this often.
    #[arg(long, default_value = "100ms", value_parser = interval, value_name = "TIME")]
    interval: Duration,
    /// Minimum interval between censuses (the composition of memory).
    #[arg(long, default_value = "10s", value_parser = interval, value_name = "TIME")]
    census: Duration,
    /// Minimum interval between looks at Rubies: objects by class, code by gem.
    #[arg(long, default_value = "30s", value_parser = interval, value_name = "TIME")]
    classes: Duration,
    /// Take no looks at Rubies by class and gem.
    #[arg(long, conflicts_with = "classes")]
    no_classes: bool,
    /// Share of one core that recording the whole tree may use; with 0 there is no PSS and no census.
    #[arg(long, default_value = "2%", value_parser = share, value_name = "SHARE")]
    budget: f64,
    /// Name the recording's start: a vertical line in plots, a row in the table `mark`. May be repeated.
    /// `unbloat mark FILE TEXT` names a moment while it runs.
    #[arg(long, value_name = "TEXT")]
    mark: Vec<String>,
    /// End the recording after this time, along with a command that it started.
    #[arg(long, value_parser = interval, value_name = "TIME")]
    duration: Option<Duration>,
    /// Keep the file below this size by thinning old samples, preserving the extremes of each period.
    #[arg(long, default_value = "100MB", value_parser = bytes, value_name = "SIZE")]
    max_size: u64,
    /// Leave the command running when the recording ends.
    #[arg(long, conflicts_with_all = ["pid", "name"])]
    detach: bool,
    /// Time for a command to end by itself before it is killed.
    #[arg(long, default_value = "10s", value_parser = interval, value_name = "TIME")]
    grace: Duration,
    /// Send the command's output to a file, leaving the terminal to the live view.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Print only errors.
    #[arg(long, short)]
    quiet: bool,
    /// Scan for new processes instead of asking the kernel for its process events.
    #[arg(long, hide = true)]
    look_around: bool,
    /// Command to start and record, with its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (target, name) = target(args)?;
    let path = args.output.clone().unwrap_or_else(|| default_path(&name));
    let mut writer = Writer::create(&path, &begin(Kind::Record))?;
    describe(&mut writer, args, &name)?;
    let options = Options {
        interval: args.interval,
        census_interval: args.census,
        class_interval: (!args.no_classes).then_some(args.classes),
        budget: args.budget,
        duration: args.duration,
        max_bytes: args.max_size,
        detach: args.detach,
        grace: args.grace,
        scan_only: args.look_around,
    };
    let own_terminal = args.command.is_empty() || args.log.is_some();
    let mut view = view::View::new(&path, &name, args.quiet, own_terminal);
    let recorded = unbloat_record::record(writer, target, &options, &mut |progress| view.show(progress));
    match recorded {
        Ok(ending) => {
            view.summary(&ending)?;
            Ok(exit(ending.exit_status))
        }
        Err(error) => {
            remove_if_empty(&path, &error);
            let status = not_started_status(&error);
            crate::exit::report(&error.into());
            Ok(status)
        }
    }
}

fn target(args: &Args) -> anyhow::Result<(Target, String)> {
    if let Some((program, arguments)) = args.command.split_first() {
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(log) = &args.log {
            let file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
            command
                .stderr(file.try_clone().context("cannot share the log")?)
                .stdout(file)
                .stdin(Stdio::null());
        }
        let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
        return Ok((Target::Command(command), words.join(" ")));
    }
    if let Some(name) = &args.name {
        let roots = Tree::read()?.roots_matching(|text| name.is_match(text));
        if roots.is_empty() {
            bail!("no running process matches {:?}. Look for its name with `ps -ef`", name.as_str());
        }
        return Ok((Target::Attach(roots), name.as_str().to_owned()));
    }
    let roots: Vec<Pid> = args.pid.iter().copied().map(Pid).collect();
    let Some(first) = roots.first() else {
        bail!("nothing to record. Give a command after --, or --pid PID, or --name REGEX");
    };
    // Before a file is created: each process must exist.
    for &pid in &roots {
        unbloat_process::Status::of(pid)?;
    }
    let name = unbloat_process::status::command(*first)?;
    Ok((Target::Attach(roots), name.raw().to_owned()))
}

/// Records the user's own words for later readers of the recording.
fn describe(writer: &mut Writer, args: &Args, name: &str) -> unbloat_store::Result<()> {
    writer.batch(|batch| {
        batch.provenance(None, Key::Command.name(), name)?;
        let recorded = if args.command.is_empty() { "running processes" } else { "a command" };
        batch.provenance(None, Key::Recorded.name(), recorded)?;
        args.mark.iter().try_for_each(|text| batch.mark(0, text, None))?;
        args.duration.map_or(Ok(()), |duration| {
            batch.provenance(None, Key::DurationS.name(), &duration.as_secs_f64().to_string())
        })
    })
}

/// Returns `puma-20260921-101500.unbloat`, also for `bundle exec puma`.
pub(in crate::commands) fn default_path(name: &str) -> PathBuf {
    let mut words = name.strip_prefix("bundle exec ").unwrap_or(name).split(' ');
    let program = words.next().unwrap_or_default();
    let stem = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let stem: String = stem.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
    let stem = if stem.is_empty() { "recording" } else { stem.trim_start_matches('.') };
    PathBuf::from(format!("{stem}-{}.unbloat", crate::clock::file_stamp()))
}

fn exit(status: Option<i64>) -> Exit {
    status.map_or(Exit::Done, |status| Exit::Status(u8::try_from(status).unwrap_or(u8::MAX)))
}

/// Removes a recording in which nothing was recorded.
fn remove_if_empty(path: &Path, error: &unbloat_record::Error) {
    if matches!(error, unbloat_record::Error::NotStarted(_) | unbloat_record::Error::Start(_)) {
        for suffix in ["", "-wal", "-shm"] {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            let _ = std::fs::remove_file(name);
        }
    }
}

/// Returns a shell's exit status: 127 not found, 126 not executable.
fn not_started_status(error: &unbloat_record::Error) -> Exit {
    match error {
        unbloat_record::Error::NotStarted(e) if e.kind() == std::io::ErrorKind::NotFound => Exit::Status(127),
        unbloat_record::Error::NotStarted(_) => Exit::Status(126),
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_called_after_the_program() {
        for (name, stem) in [
            ("bundle exec puma -C config/puma.rb", "puma-"),
            ("/usr/bin/ruby3.3 app.rb", "ruby3.3-"),
            ("puma 6.4.2 (tcp://0.0.0.0:3000) [shop]", "puma-"),
            ("^sidekiq", "sidekiq-"),
            ("[kworker]", "kworker-"),
            ("$$", "recording-"),
        ] {
            let path = default_path(name).display().to_string();
            assert!(path.starts_with(stem) && path.ends_with(".unbloat"), "{name}: {path}");
        }
    }
}
