//! A run as its user meets it: followed on stderr, its result on stdout and, if wanted, in a recording.

use super::Common;
use super::follow::{Follower, Printer};
use super::record::Record;
use crate::exit::Exit;
use serde::Serialize;
use std::fmt::Display;
use unbloat_load::BenchDocument;
use unbloat_report::bench::Problems;

/// What every driver's run has.
pub(super) struct Run {
    pub(super) follower: Follower,
    pub(super) printer: Printer,
    pub(super) record: Record,
    /// Text is wanted, not a document.
    pub(super) in_text: bool,
}

impl Run {
    /// Opens the recording, if there is one to be written, and begins to follow.
    pub(super) fn begin(common: &Common, bench: &str, settings: &impl Serialize) -> anyhow::Result<Self> {
        let record = Record::begin(common.output.as_deref(), bench, settings)?;
        let follower = Follower::start(common.quiet)?;
        Ok(Self { printer: follower.printer(), follower, record, in_text: !common.json })
    }

    /// Prints the result, in text what is left of it, and ends the recording. The status is 3 when the run is not clean.
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
