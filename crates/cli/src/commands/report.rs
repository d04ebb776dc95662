//! `unbloat report`: renders experiments from their files, one alone or two side by side.

use crate::exit::Exit;
use crate::terminal::style_within;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use unbloat_lab::experiment::conclude;
use unbloat_lab::facts::Mixed;
use unbloat_lab::file::{Stored, written_plan};
use unbloat_lab::trace::traces;
use unbloat_lab::versus::versus;
use unbloat_lab::warning::Warning;
use unbloat_report::compare::{About, Experiment, Two, document, html, text, versus_document, versus_text};
use unbloat_report::json::pretty;
use unbloat_report::style::Style;

/// Options of `unbloat report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording file of an experiment
    file: PathBuf,
    /// Another one, to put beside it
    #[arg(conflicts_with = "html")]
    other: Option<PathBuf>,
    #[command(flatten)]
    show: Show,
}

/// How to show an experiment.
#[derive(Debug, clap::Args)]
pub(super) struct Show {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Write the report as one self-contained page [default: next to the recording]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let first = Stored::read(&args.file)?;
    match &args.other {
        None => show(&first, &args.show, &args.file)?,
        Some(other) => beside(&first, &args.file, other, args.show.json)?,
    }
    Ok(Exit::Done)
}

fn beside(first: &Stored, file: &Path, other: &Path, json: bool) -> anyhow::Result<()> {
    let versus = versus(first, &Stored::read(other)?);
    let (file, other) = (file.display().to_string(), other.display().to_string());
    anyhow::ensure!(
        !versus.shared.is_empty(),
        "{file} and {other} have no variant in common ({}): there is nothing to compare",
        versus.alone.join(", ")
    );
    let two = Two { first: &file, second: &other, versus: &versus };
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{}", pretty(&versus_document(&two)))?,
        false => write!(out, "{}", versus_text(&two, &style()))?,
    }
    Ok(())
}

/// Shows an experiment on stdout, and writes its page.
pub(super) fn show(stored: &Stored, show: &Show, recording: &Path) -> anyhow::Result<()> {
    let (results, variants) = (stored.results(), &stored.variants);
    let (mut analysis, recommendation) = conclude(&stored.plan, variants, &results, stored.looks);
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
    let page = show.html.clone().unwrap_or_else(|| recording.with_extension("html"));
    let about = About {
        traces: traces(recording, stored)?,
        plan: written_plan(recording)?,
        environment: stored.facts(),
        recording: recording.display().to_string(),
    };
    std::fs::write(&page, html(&experiment, &about))
        .with_context(|| format!("cannot write {}", page.display()))?;
    let mut out = std::io::stdout().lock();
    if show.json {
        writeln!(out, "{}", pretty(&document(&experiment)))?;
    } else {
        write!(out, "{}", text(&experiment, &style()))?;
        writeln!(out, "\nreport     {}\nrecording  {}", page.display(), recording.display())?;
    }
    Ok(())
}

/// The widths at which the table looks well.
fn style() -> Style {
    style_within(60..=120)
}
