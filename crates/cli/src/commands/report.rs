//! `unbloat report`: renders an experiment from its file, or compares two.

use crate::exit::Exit;
use crate::terminal::style_within;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use unbloat_lab::analysis::conclude_plan;
use unbloat_lab::facts::Mixed;
use unbloat_lab::file::{Stored, written_plan};
use unbloat_lab::trace::traces;
use unbloat_lab::tune::SearchResult;
use unbloat_lab::versus::versus;
use unbloat_lab::warning::Warning;
use unbloat_report::compare::{
    About, Experiment, Two, document, html, text, versus_document, versus_html, versus_text,
};
use unbloat_report::json::pretty;
use unbloat_report::style::Style;

/// Options of `unbloat report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Recording file of an experiment
    file: PathBuf,
    /// Another recording file, to compare with
    other: Option<PathBuf>,
    #[command(flatten)]
    show: Show,
}

/// Output options for an experiment.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,
    /// Write the report as one self-contained page [default: next to the recording]
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let first = Stored::read(&args.file)?;
    match &args.other {
        None => show(&first, &args.show, &args.file)?,
        Some(other) => beside(&first, &args.show, &args.file, other)?,
    }
    Ok(Exit::Done)
}

fn beside(first: &Stored, show: &Show, file: &Path, other: &Path) -> anyhow::Result<()> {
    let versus = versus(first, &Stored::read(other)?);
    let (file, other) = (file.display().to_string(), other.display().to_string());
    anyhow::ensure!(
        !versus.shared.is_empty(),
        "{file} and {other} have no variant in common ({}): there is nothing to compare",
        versus.alone.join(", ")
    );
    let two = Two { first: &file, second: &other, versus: &versus };
    if let Some(page) = &show.html {
        write_page(page, &versus_html(&two))?;
    }
    let mut out = std::io::stdout().lock();
    match show.json {
        true => writeln!(out, "{}", pretty(&versus_document(&two)))?,
        false => write!(out, "{}", versus_text(&two, &style()))?,
    }
    Ok(())
}

/// Prints an experiment to stdout, and writes its page.
pub(super) fn show(stored: &Stored, show: &Show, recording: &Path) -> anyhow::Result<()> {
    let page = show.html.clone().unwrap_or_else(|| recording.with_extension("html"));
    let printed = render(stored, recording, &page, None, |experiment| match show.json {
        true => pretty(&document(experiment)) + "\n",
        false => text(experiment, &style()),
    })?;
    let mut out = std::io::stdout().lock();
    write!(out, "{printed}")?;
    if !show.json {
        writeln!(out, "\nreport     {}\nrecording  {}", page.display(), recording.display())?;
    }
    Ok(())
}

/// Concludes an experiment, writes its page, and returns the output of `print`.
pub(super) fn render(
    stored: &Stored,
    recording: &Path,
    page: &Path,
    search: Option<SearchResult>,
    print: impl FnOnce(&Experiment) -> String,
) -> anyhow::Result<String> {
    let (results, variants) = (stored.results(), &stored.variants);
    let (mut analysis, recommendation) =
        conclude_plan(&stored.plan, variants, &results, stored.looks.unwrap_or(1));
    analysis.warnings.extend(
        stored
            .mixed()
            .into_iter()
            .map(|Mixed { what, values }| Warning::Mixed { what, values: values.join(", then ") }),
    );
    let unproved = stored.unproved().into_iter();
    analysis.warnings.extend(unproved.map(|(variant, what)| Warning::NotProved { variant, what }));
    let experiment = Experiment {
        plan: &stored.plan,
        variants,
        results: &results,
        analysis: &analysis,
        recommendation: &recommendation,
        calibration: stored.calibration.as_ref(),
    };
    let about = About {
        traces: traces(recording, stored)?,
        plan: written_plan(recording)?,
        environment: stored.facts(),
        recording: recording.display().to_string(),
        search,
    };
    write_page(page, &html(&experiment, &about))?;
    Ok(print(&experiment))
}

fn write_page(path: &Path, page: &str) -> anyhow::Result<()> {
    std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the widths at which the table looks good.
pub(super) fn style() -> Style {
    style_within(60..=120)
}
