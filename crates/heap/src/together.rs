//! The inspection of several processes.

use crate::inspect::{Options, inspect, inspect_pinned};
use crate::model::{Failure, Inspection, Note, NoteCode, ProcessReport};
use crate::proportional::by_page;
use crate::{sharing, verdict};
use unbloat_process::{Error, Pid, Pinned, Result, Stopping, status};

/// Inspects the processes one after the other. One that cannot be inspected is reported as a failure, and the
/// others are still inspected.
#[must_use]
pub fn inspect_all(pids: &[Pid], options: &Options) -> Inspection {
    let mut inspection = Inspection::default();
    let several = pids.len() > 1;
    for &pid in pids {
        match if several { inspect_one_of_several(pid, options) } else { inspect(pid, options) } {
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

/// Inspects one process and adds the proportional census for sums over processes. This needs the heap map,
/// which is kept only on request.
fn inspect_one_of_several(pid: Pid, options: &Options) -> Result<ProcessReport> {
    let everything = Options { map: true, proportional: true, ..*options };
    unbloat_process::look(pid, options.stopping(), |pinned| {
        let mut report = inspect_pinned(pinned, &everything)?;
        let map = report.map.take();
        let by_page = map.as_ref().and_then(|map| by_page::census(&report, map).ok().flatten());
        report.proportional = by_page.or(report.proportional.take());
        report.map = map.filter(|_| options.map);
        Ok(report)
    })
}

fn failure(pid: Pid, error: &Error) -> Failure {
    let note = Note::new(NoteCode::of(error), error.to_string());
    Failure { pid, command: status::command(pid).ok(), note }
}
