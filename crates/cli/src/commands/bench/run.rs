//! A run from the user's perspective: followed on stderr, with its result on stdout and, if requested, in a
//! recording.

use super::Common;
use super::follow::{Follower, Printer};
use super::record::Record;
use crate::exit::Exit;
use serde::Serialize;
use std::fmt::Display;
use unbloat_load::BenchDocument;
use unbloat_report::bench::Problems;

/// The parts common to every driver's run.
pub(super) struct Run {
    pub(super) follower: Follower,
    pub(super) printer: Printer,
    pub(super) record: Record,
    /// Text is requested rather than a document.
    pub(super) in_text: bool,
}

impl Run {
    /// Opens the recording, if one is to be written, and starts to follow.
    pub(super) fn begin(common: &Common, bench: &str, settings: &impl Serialize) -> anyhow::Result<Self> {
        let record = Record::begin(common.output.as_deref(), bench, settings)?;
        let follower = Follower::start(common.quiet)?;
        Ok(Self { printer: follower.printer(), follower, record, in_text: !common.json })
    }

    /// Prints the result (for text, its remaining part) and ends the recording. The status is 3 if the run is
    /// not clean.
    pub(super) fn end(
        self,
        problems: &Problems,
        text: impl Display,
        document: impl FnOnce() -> BenchDocument,
    ) -> anyhow::Result<Exit> {
        let Self { follower, printer, record, in_text } = self;
        drop(follower);
        if in_text {
            printer.text(text);
            printer.text(problems);
        } else {
            printer.line(serde_json::to_value(document())?);
        }
        record.end(problems.is_clean())?;
        printer.check()?;
        Ok(if problems.is_clean() { Exit::Done } else { Exit::No })
    }
}
