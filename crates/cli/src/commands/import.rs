//! `unbloat import`: creates a recording from a psrecord log.

use crate::exit::Exit;
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use unbloat_recording::{Header, Key, Kind, NewProcess, Sample};
use unbloat_store::{Writer, begin};

/// Options of `unbloat import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Log written by psrecord, with --log-format plain or csv.
    #[arg(value_name = "LOG")]
    log: PathBuf,
    /// Recording to create [default: the log's name with the extension .unbloat]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// One line of a log: seconds, processes, CPU in percent of a core, memory in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    time_s: f64,
    cpu_percent: f64,
    real_mib: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let text =
        std::fs::read_to_string(&args.log).with_context(|| format!("cannot read {}", args.log.display()))?;
    let lines = parse(&text, &args.log)?;
    let path = args.output.clone().unwrap_or_else(|| args.log.with_extension("unbloat"));
    let mut writer = Writer::create(&path, &Header { owner: None, ..begin(Kind::Import) })?;
    let end = lines.last().map_or(0, |line| nanoseconds(line.time_s));
    writer.batch(|batch| {
        batch.provenance(None, Key::Command.name(), &format!("psrecord {}", args.log.display()))?;
        batch.provenance(
            None,
            Key::Recorded.name(),
            "by psrecord: its real memory is a sum of RSS, kept as one process",
        )?;
        let process = batch
            .process(&NewProcess { command: "all that psrecord saw".into(), ..NewProcess::default() })?;
        let (mut cpu_s, mut before_s) = (0.0, 0.0);
        for line in &lines {
            cpu_s += line.cpu_percent / 100.0 * (line.time_s - before_s).max(0.0);
            before_s = line.time_s;
            batch.sample(&Sample {
                time_ns: nanoseconds(line.time_s),
                process,
                rss_bytes: Some((line.real_mib.max(0.0) * 1_048_576.0) as u64),
                user_s: Some(cpu_s),
                system_s: Some(0.0),
                ..Sample::default()
            })?;
        }
        Ok(())
    })?;
    writer.finish(end, "it was imported", None)?;
    Ok(Exit::Done)
}

fn nanoseconds(seconds: f64) -> i64 {
    (seconds * 1e9) as i64
}

/// Parses the formats of psrecord 1.4 (main.py): plain has a comment line and the columns time, CPU, real,
/// virtual; csv has a header and `elapsed_time,nproc,cpu,mem_real,mem_virtual`, possibly followed by I/O.
fn parse(text: &str, path: &Path) -> anyhow::Result<Vec<Line>> {
    let is_csv = text.starts_with("elapsed_time,");
    let line = |(number, line): (usize, &str)| {
        let fields: Vec<&str> =
            if is_csv { line.split(',').collect() } else { line.split_ascii_whitespace().collect() };
        let column = |n: usize| fields.get(n)?.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let (cpu, real) = if is_csv { (2, 3) } else { (1, 2) };
        match (column(0), column(cpu), column(real)) {
            (Some(time_s), Some(cpu_percent), Some(real_mib)) => Ok(Line { time_s, cpu_percent, real_mib }),
            _ => bail!(
                "{}, line {}: {line:?} is not a line of a psrecord log. Write one with psrecord --log FILE",
                path.display(),
                number + 1
            ),
        }
    };
    let lines: Vec<Line> = text
        .lines()
        .enumerate()
        .skip(usize::from(is_csv))
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
        .map(line)
        .collect::<anyhow::Result<_>>()?;
    if lines.is_empty() {
        bail!("{} contains no samples. Write a log with psrecord --log FILE", path.display());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_formats_of_psrecord_are_read() {
        let plain = "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)\n       0.000       12.000      100.500     300.000\n       0.101        0.000      101.000     300.000\n";
        let csv =
            "elapsed_time,nproc,cpu,mem_real,mem_virtual\n0.0,1,12.0,100.5,300\n0.101,2,0.0,101.0,300\n";
        let expected = [
            Line { time_s: 0.0, cpu_percent: 12.0, real_mib: 100.5 },
            Line { time_s: 0.101, cpu_percent: 0.0, real_mib: 101.0 },
        ];
        assert_eq!(parse(plain, Path::new("a.log")).unwrap(), expected);
        assert_eq!(parse(csv, Path::new("a.csv")).unwrap(), expected);
    }

    #[test]
    fn what_is_no_log_is_named_with_its_line() {
        let error = parse("# x\n1 2 3 4\nhello world\n", Path::new("a.log")).unwrap_err().to_string();
        assert!(error.starts_with("a.log, line 3:"), "{error}");
        assert!(parse("", Path::new("a.log")).is_err());
    }
}
