//! The owners of a Ruby's live memory, as a part of an inspection.

use super::{InspectedRuby, Options, Whose};
use crate::closer;
use crate::model::{Note, NoteCode, ProcessReport};
use crate::ruby::ownership;
use serde::{Serialize, de::DeserializeOwned};
use std::time::{Duration, Instant};
use unbloat_process::{Cgroup, Error, LiveMemory, Pid, Pinned, Result, Status, Stopped, status};

/// Bytes that the search needs beside a copy of the process's memory, at the most.
const BESIDE_BYTES: u64 = 72 << 20;

/// Runs an inspection in a confined child. If it does not finish within its limits because of the search for owners, it is
/// repeated without.
///
/// # Errors
/// As [`super::inspect`].
pub(crate) fn within_limits<T: Serialize + DeserializeOwned>(
    pid: Pid,
    options: &Options,
    work: impl Fn(&Pinned, &Options) -> Result<T>,
    note: impl FnOnce(&mut T, Note),
) -> Result<T> {
    let plain = Options { whose: Whose::No, ..*options };
    let look =
        |options: &Options| unbloat_process::look(pid, options.stopping(), |pinned| work(pinned, options));
    if options.whose == Whose::No {
        return look(&plain);
    }
    let reason = if options.whose == Whose::IfCheap && !has_room(pid) {
        "this control group is short of memory".to_owned()
    } else {
        let with_copy =
            unbloat_process::look_with_copy(pid, options.stopping(), |pinned| work(pinned, options));
        match with_copy {
            Err(Error::GaveUp { reason, .. }) => reason.to_string(),
            done => return done,
        }
    };
    let mut found = look(&plain)?;
    let text = format!("Garbage, code and holders are not told: {reason}.");
    note(&mut found, Note::new(NoteCode::OwnershipOmitted, text));
    Ok(found)
}

/// Returns whether the control group of this program has memory for the search. Page cache counts as taken.
fn has_room(pid: Pid) -> bool {
    let group = Cgroup::of(Pid::this());
    let left = group.and_then(|group| Some(group.limit_bytes()?.saturating_sub(group.current_bytes()?)));
    let needed = Status::of(pid).ok().and_then(|status| status.rss_bytes).unwrap_or(0);
    left.is_none_or(|left| left > needed.saturating_add(BESIDE_BYTES))
}

/// Adds the owners to the report on a Ruby.
pub(super) fn add(
    report: &mut ProcessReport,
    inspected: &InspectedRuby,
    pinned: &Pinned,
    options: &Options,
) -> Result<()> {
    let begun = Instant::now();
    let stopped = options.stop.then(|| Stopped::all(report.pid)).transpose()?;
    let memory = LiveMemory::of_pinned(pinned)?;
    let target = closer::Target { pid: report.pid, memory: &memory };
    let directory = status::directory(report.pid).ok();
    let always = options.whose == Whose::Yes;
    let mut notes = Vec::new();
    let found = closer::within(target, inspected, &mut notes, |scene, notes| {
        ownership::of(scene, directory.as_deref(), always, notes)
    });
    report.stopped += stopped.map_or(Duration::ZERO, Stopped::resume);
    report.ownership = found?;
    // Nobody asked; what is unknown of this version is no limitation of the inspection.
    notes.retain(|note| always || note.code == NoteCode::OwnershipOmitted);
    report.notes.append(&mut notes);
    report.verdict = crate::verdict::of(report);
    report.elapsed += begun.elapsed();
    Ok(())
}
