//! `unbloat diff`: the difference of two looks, by class or by gem.

use crate::arguments::duration;
use crate::exit::Exit;
use crate::terminal;
use anyhow::{Context as _, bail};
use serde::Deserialize;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unbloat_recording::difference::{Look, Sum};
use unbloat_recording::{ClassBytes, CodeBytes, Label, ProcessId};
use unbloat_report::diff as render;
use unbloat_store::Reader;
use unbloat_untrusted::Untrusted;

/// Options of `unbloat diff`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A look is the output of `unbloat objects --json` (or `code --json`), a recording (its last look), or a moment of \
                        a recording: FILE@TIME, the look nearest to this time after its start.\n\nExamples:\n  unbloat diff \
                        before.json after.json\n  unbloat diff puma.unbloat@10m puma.unbloat\n  unbloat diff monday.unbloat friday.unbloat --by gem"
)]
pub(crate) struct Args {
    /// The look before.
    #[arg(value_name = "A")]
    before: PathBuf,
    /// The look after.
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Compare live objects by class, or loaded code by gem.
    #[arg(long, value_enum, default_value = "class", value_name = "WHAT")]
    by: By,
    /// Print one JSON document (docs/reference/diff.schema.json).
    #[arg(long)]
    json: bool,
    /// Show every row that differs, not only the largest.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Class,
    Gem,
}

/// Rows that are shown without `--all`.
const ROWS: usize = 30;
/// Maximum size of a JSON document: a look at a hundred large processes.
const MAX_BYTES: u64 = 256 << 20;
/// The first bytes of an SQLite database.
const DATABASE: &[u8] = b"SQLite format 3\0";

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let (before, after) = (look(&args.before, args.by)?, look(&args.after, args.by)?);
    let diff = render::Diff::of(before, after, args.by == By::Gem);
    let text = if args.json {
        format!("{}\n", unbloat_report::json::pretty(&render::json(&diff)))
    } else {
        render::text(&diff, if args.all { usize::MAX } else { ROWS }, &terminal::style())
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(Exit::Done)
}

/// Reads a look from a document, a recording, or a moment of one.
fn look(argument: &Path, by: By) -> anyhow::Result<Look> {
    let (path, at) = if argument.exists() { (argument.to_owned(), None) } else { moment(argument)? };
    if !std::fs::metadata(&path).is_ok_and(|file| file.is_file()) {
        bail!("{} is no file. Give the output of `unbloat objects --json`, or a recording", path.display());
    }
    let mut look = if is_database(&path)? {
        of_recording(&path, at, by)?
    } else if at.is_some() {
        bail!("{} is no recording, so it has only one moment. Leave out the @TIME", path.display())
    } else {
        of_document(&path, by)?
    };
    look.source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(look)
}

/// Splits `FILE@TIME`.
fn moment(argument: &Path) -> anyhow::Result<(PathBuf, Option<Duration>)> {
    let text = argument.to_str().unwrap_or_default();
    let Some((file, time)) = text.rsplit_once('@') else { return Ok((argument.to_owned(), None)) };
    let time = duration(time).map_err(|reason| anyhow::anyhow!("{time:?} is not a time: {reason}"))?;
    Ok((PathBuf::from(file), Some(time)))
}

fn is_database(path: &Path) -> anyhow::Result<bool> {
    let open = || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(DATABASE.len() as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    Ok(open().with_context(|| format!("cannot read {}", path.display()))? == DATABASE)
}

/// The rows of a recording, of classes or of code.
type Rows = Vec<(i64, ProcessId, Label, Sum)>;

fn of_recording(path: &Path, at: Option<Duration>, by: By) -> anyhow::Result<Look> {
    let reader = Reader::open(path)?;
    let rows: Rows = match by {
        By::Class => reader.class_census()?.into_iter().map(of_class).collect(),
        By::Gem => reader.code_census()?.into_iter().map(of_code).collect(),
    };
    let at = at.map(|at| i64::try_from(at.as_nanos()).unwrap_or(i64::MAX));
    let times = rows.iter().map(|&(time_ns, ..)| time_ns);
    let nearest = match at {
        Some(at) => times.min_by_key(|time_ns| time_ns.abs_diff(at)),
        None => times.max(),
    };
    let Some(time_ns) = nearest else {
        bail!(
            "{} contains no look at a Ruby. Record one with a larger --budget, or for longer",
            path.display()
        )
    };
    let mut look = Look { time_s: Some(time_ns as f64 / 1e9), ..Look::default() };
    let mut processes = std::collections::BTreeSet::new();
    for (_, process, label, sum) in rows.into_iter().filter(|row| row.0 == time_ns) {
        processes.insert(process);
        look.add(label, sum);
    }
    look.processes = processes.len();
    Ok(look)
}

fn of_class(row: ClassBytes) -> (i64, ProcessId, Label, Sum) {
    let ClassBytes { objects, slot_bytes, malloc_bytes, .. } = row;
    (row.time_ns, row.process, row.label, Sum { objects, slot_bytes, malloc_bytes })
}

fn of_code(row: CodeBytes) -> (i64, ProcessId, Label, Sum) {
    let CodeBytes { sequences, slot_bytes, malloc_bytes, .. } = row;
    (row.time_ns, row.process, row.label, Sum { objects: sequences, slot_bytes, malloc_bytes })
}

/// The parts of `objects --json` and `code --json` that are compared.
#[derive(Deserialize)]
struct Document {
    schema: u32,
    processes: Vec<Process>,
}

#[derive(Deserialize)]
struct Process {
    ruby: Option<Ruby>,
}

#[derive(Deserialize)]
struct Ruby {
    classes: Option<Vec<Class>>,
    origins: Option<Vec<Origin>>,
}

#[derive(Deserialize)]
struct Class {
    name: Untrusted,
    kind: Untrusted,
    objects: u64,
    slot_bytes: u64,
    malloc_bytes: Option<u64>,
}

#[derive(Deserialize)]
struct Origin {
    kind: Untrusted,
    name: Option<Untrusted>,
    version: Option<Untrusted>,
    sequences: u64,
    parts: std::collections::BTreeMap<String, Part>,
}

#[derive(Deserialize)]
struct Part {
    slot_bytes: u64,
    malloc_bytes: Option<u64>,
}

fn of_document(path: &Path, by: By) -> anyhow::Result<Look> {
    let file = std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let command = match by {
        By::Class => "unbloat objects --json",
        By::Gem => "unbloat code --json",
    };
    let foreign = || format!("{} is neither a recording nor the output of `{command}`", path.display());
    let reader = std::io::BufReader::new(file.take(MAX_BYTES));
    let document: Document = serde_json::from_reader(reader).with_context(foreign)?;
    if document.schema != 1 {
        bail!("{} has schema {}; this unbloat knows 1", path.display(), document.schema);
    }
    let mut look = Look::default();
    for ruby in document.processes.into_iter().filter_map(|process| process.ruby) {
        look.processes += 1;
        match by {
            By::Class => {
                for class in ruby.classes.with_context(foreign)? {
                    let Class { objects, slot_bytes, malloc_bytes, .. } = class;
                    let label = Label { kind: class.kind, name: class.name, version: None };
                    look.add(label, Sum { objects, slot_bytes, malloc_bytes });
                }
            }
            By::Gem => {
                for origin in ruby.origins.with_context(foreign)? {
                    let sum = Sum {
                        objects: origin.sequences,
                        slot_bytes: origin
                            .parts
                            .values()
                            .map(|part| part.slot_bytes)
                            .fold(0, u64::saturating_add),
                        malloc_bytes: origin
                            .parts
                            .values()
                            .try_fold(0u64, |sum, part| Some(sum.saturating_add(part.malloc_bytes?))),
                    };
                    let name = origin.name.unwrap_or_default();
                    look.add(Label { kind: origin.kind, name, version: origin.version }, sum);
                }
            }
        }
    }
    Ok(look)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_moment_is_a_file_and_a_time() {
        let parsed = |text: &str| moment(Path::new(text)).unwrap();
        assert_eq!(parsed("a.unbloat"), (PathBuf::from("a.unbloat"), None));
        assert_eq!(parsed("me@host.unbloat@10m"), ("me@host.unbloat".into(), Some(Duration::from_secs(600))));
        assert!(moment(Path::new("a.unbloat@noon")).unwrap_err().to_string().contains("is not a time"));
    }
}
