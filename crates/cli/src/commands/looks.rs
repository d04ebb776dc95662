//! A look at each of several processes, and its output.

use crate::exit::{self, Exit};
use std::io::Write as _;
use unbloat_heap::model::RubyLook;
use unbloat_process::{Error, Pid, Result};

/// Looks at each process. A root that cannot be inspected is reported as a failure; a child that ended is
/// skipped.
pub(crate) fn at_each<T>(pids: &[Pid], roots: &[Pid], look: impl Fn(Pid) -> Result<T>) -> (Vec<T>, Exit) {
    let mut found = Vec::new();
    let mut exit = Exit::Done;
    for &pid in pids {
        match look(pid) {
            Ok(result) => found.push(result),
            Err(Error::Gone { .. }) if !roots.contains(&pid) => {}
            Err(error) => {
                exit::report(&anyhow::Error::from(error));
                exit = Exit::Failed;
            }
        }
    }
    (found, exit)
}

/// A writer of one JSON document.
type Document<T> = fn(&[RubyLook<T>]) -> String;

/// Prints looks: as one document if there is a writer of it, else as a text for each. Children that are not Ruby were not
/// asked for, and get no text.
pub(crate) fn print<T>(
    looks: &[RubyLook<T>],
    roots: &[Pid],
    document: Option<Document<T>>,
    text: impl Fn(&RubyLook<T>) -> String,
) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    if let Some(document) = document {
        return writeln!(stdout, "{}", document(looks));
    }
    let wanted = looks.iter().filter(|look| look.found.is_some() || roots.contains(&look.pid));
    wanted.map(text).try_for_each(|text| write!(stdout, "{text}"))
}
