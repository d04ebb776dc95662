//! `unbloat plot`: draws one recording, or overlays several.

use crate::exit::Exit;
use anyhow::{Context as _, bail};
use std::io::Write as _;
use std::path::PathBuf;
use unbloat_recording::Recording;
use unbloat_report::chart::{Chart, page, svg};
use unbloat_report::recording::{list, plot};
use unbloat_store::Reader;

/// Options of `unbloat plot`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recordings to draw.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Output file; its extension selects the format: .svg, .png, .html, .csv or .json [default: SVG to
    /// stdout]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Break memory down by this. For CSV: one line per process, category, class or gem instead of one for
    /// the whole tree.
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<By>,
    /// Write CSV in psrecord's columns.
    #[arg(long)]
    psrecord: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    Process,
    Category,
    Class,
    Gem,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let recordings: Vec<Recording> =
        args.files.iter().map(|file| Ok(Reader::open(file)?.load()?)).collect::<anyhow::Result<_>>()?;
    let ending = match &args.output {
        Some(path) => path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default(),
        None if args.psrecord => "csv".to_owned(),
        None => "svg".to_owned(),
    };
    if args.by == Some(By::Category) && recordings.iter().all(|one| one.censuses.is_empty()) {
        bail!(
            "{} contains no census: it is too short for its --census and --budget, or the memory could not \
             be read. Record for longer or with a larger --budget, as the same user or with CAP_SYS_PTRACE",
            args.files.first().map(|file| file.display().to_string()).unwrap_or_default()
        );
    }
    if matches!(args.by, Some(By::Class | By::Gem)) && recordings.iter().all(|one| one.rubies.is_empty()) {
        bail!(
            "{} contains no look at a Ruby: there was none, it is too short for its --classes and --budget, or the \
             memory could not be read. Record for longer or with a larger --budget, as the same user or with \
             CAP_SYS_PTRACE",
            args.files.first().map(|file| file.display().to_string()).unwrap_or_default()
        );
    }
    let by = match args.by {
        Some(By::Category) => plot::By::Category,
        Some(By::Class) => plot::By::Class,
        Some(By::Gem) => plot::By::Gem,
        Some(By::Process) | None => plot::By::Process,
    };
    let chart = || plot::chart(&recordings, by);
    let bytes = match ending.as_str() {
        "svg" => svg::draw(&chart(), svg::Size::default(), svg::Theme::Adapting).into_bytes(),
        "html" | "htm" => page::draw(&chart()).into_bytes(),
        "png" => picture(&chart())?,
        "json" => format!("{}\n", unbloat_report::json::line(&list::json(&recordings))).into_bytes(),
        "csv" => csv(args, &recordings)?.into_bytes(),
        other => bail!("cannot draw a {other:?}. Use a name that ends in .svg, .png, .html, .csv or .json"),
    };
    match &args.output {
        Some(path) => {
            std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => std::io::stdout().write_all(&bytes)?,
    }
    Ok(Exit::Done)
}

#[cfg(feature = "png")]
fn picture(chart: &Chart) -> anyhow::Result<Vec<u8>> {
    Ok(unbloat_report::chart::png::draw(chart, svg::Size::default())?)
}

#[cfg(not(feature = "png"))]
fn picture(_: &Chart) -> anyhow::Result<Vec<u8>> {
    bail!("this build of unbloat cannot draw .png files. Write an .svg, or build with the feature png")
}

fn csv(args: &Args, recordings: &[Recording]) -> anyhow::Result<String> {
    let [one] = recordings else {
        bail!("CSV can hold only one recording. Give one file, or an output that ends in .json")
    };
    Ok(match args.by {
        _ if args.psrecord => list::csv_as_psrecord(one),
        Some(By::Process) => list::csv_by_process(one),
        Some(By::Category) => list::csv_by_category(one),
        Some(By::Class) => list::csv_of_rubies(one, false),
        Some(By::Gem) => list::csv_of_rubies(one, true),
        None => list::csv(one),
    })
}
