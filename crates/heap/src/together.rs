//! The inspection of several processes.

use crate::inspect::whose::within_limits;
use crate::inspect::{Options, Whose, inspect, inspect_pinned};
use crate::model::{Failure, Inspection, Note, NoteCode, ProcessReport};
use crate::proportional::by_page;
use crate::{sharing, verdict};
use unbloat_process::{Error, Pid, Pinned, Result, Status, Stopping, status};

/// Inspects the processes one after the other. One that cannot be inspected is reported as a failure, and the
/// others are still inspected.
#[must_use]
pub fn inspect_all(pids: &[Pid], options: &Options) -> Inspection {
    let mut inspection = Inspection::default();
    let several = pids.len() > 1;
    let largest = if several { largest(pids) } else { pids.first().copied() };
    for &pid in pids {
        let cheap = options.whose != Whose::IfCheap || Some(pid) == largest;
        let options = Options { whose: if cheap { options.whose } else { Whose::No }, ..*options };
        match if several { inspect_one_of_several(pid, &options) } else { inspect(pid, &options) } {
            Ok(report) => inspection.processes.push(report),
            Err(error) => inspection.failures.push(failure(pid, &error)),
        }
    }
    let inspected: Vec<Pid> = inspection.processes.iter().map(|process| process.pid).collect();
    for process in &mut inspection.processes {
        let parent = process.parent.filter(|parent| inspected.contains(parent));
        // If the two cannot be compared (one has just ended), sharing is left out.
        process.sharing = parent.and_then(|parent| {
            let compare = |_: &Pinned| sharing::with_parent(parent, process.pid);
            unbloat_process::look(process.pid, Stopping::Never, compare).ok()
        });
    }
    inspection.verdict = verdict::of_tree(&inspection);
    inspection
}

/// Returns the process with most resident memory; of equals, the first.
fn largest(pids: &[Pid]) -> Option<Pid> {
    let resident = |pid: &Pid| Status::of(*pid).ok().and_then(|status| status.rss_bytes).unwrap_or(0);
    pids.iter().copied().min_by_key(|pid| std::cmp::Reverse(resident(pid)))
}

/// Inspects one process and adds the proportional census for sums over processes. This needs the heap map,
/// which is kept only on request.
fn inspect_one_of_several(pid: Pid, options: &Options) -> Result<ProcessReport> {
    let everything = Options { map: true, proportional: true, ..*options };
    let work = |pinned: &Pinned, everything: &Options| {
        let mut report = inspect_pinned(pinned, everything)?;
        let map = report.map.take();
        let by_page = map.as_ref().and_then(|map| by_page::census(&report, map).ok().flatten());
        report.proportional = by_page.or(report.proportional.take());
        report.map = map.filter(|_| options.map);
        Ok(report)
    };
    within_limits(pid, &everything, work, |report, note| report.notes.push(note))
}

fn failure(pid: Pid, error: &Error) -> Failure {
    let note = Note::new(NoteCode::of(error), error.to_string());
    Failure { pid, command: status::command(pid).ok(), note }
}
