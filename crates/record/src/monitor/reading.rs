//! One reading of one process.

use super::member::Member;
use super::snapshot::{Counters, Look, Memory, Taken};
use crate::{cpu, evidence};
use std::sync::Arc;
use std::time::SystemTime;
use unbloat_heap::inspect::{self, Options};
use unbloat_heap::model::{NextStep, Note, NoteCode, Sharing};
use unbloat_heap::sharing;
use unbloat_process::{Cgroup, Error, Pid, Pinned, Result, Stopping, status_page};

/// Codes of unread memory that come from readings of PSS.
const OF_MEMORY: &str = "no-pss";

/// Reads PSS and USS.
pub(super) fn memory(member: &mut Member, buffer: &mut Vec<u8>) -> Result<()> {
    let at = SystemTime::now();
    match member.watched.rollup(buffer) {
        Ok(rollup) => {
            member.seen.unread.remove(OF_MEMORY);
            let memory = |rollup: unbloat_process::Rollup| Memory {
                pss_bytes: rollup.pss_bytes,
                uss_bytes: rollup.uss_bytes,
            };
            member.seen.memory = rollup.map(|rollup| Taken { at, value: memory(rollup) });
            Ok(())
        }
        Err(error) => {
            member.seen.memory = None;
            if !matches!(error, Error::Gone { .. }) {
                member.seen.unread.insert(OF_MEMORY);
            }
            Err(error)
        }
    }
}

/// Looks into the process. `parent` is its parent, if that is watched too.
pub(super) fn look(member: &mut Member, parent: Option<Pid>) -> Result<()> {
    let (at, pid, cpu_s) = (SystemTime::now(), member.seen.id.pid, cpu::of_thread());
    let had_memory = member.seen.unread.contains(OF_MEMORY);
    let unread = &mut member.seen.unread;
    unread.clear();
    unread.extend(had_memory.then_some(OF_MEMORY));
    let report = inspect::inspect(pid, &Options::default()).inspect_err(|error| {
        if !matches!(error, Error::Gone { .. }) {
            unread.insert(NoteCode::of(error).name());
        }
    });
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            // An old look would be taken for today's.
            member.seen.look = None;
            return Err(error);
        }
    };
    unread.extend(report.notes.iter().filter(|note| is_problem(note)).map(|note| note.code.name()));
    let (policy, not_live) = evidence::policy_and_problems(pid, &report).unzip();
    let look = Look {
        sharing: parent.and_then(|parent| shared(parent, pid)),
        counters: status_page::read(pid).ok().flatten().as_ref().map(Counters::of),
        limit_bytes: Cgroup::of(pid).and_then(|group| group.limit_bytes()),
        policy,
        not_live: not_live.unwrap_or_default(),
        cpu_s: cpu::of_thread() - cpu_s,
        report,
    };
    member.seen.look = Some(Taken { at, value: Arc::new(look) });
    Ok(())
}

/// Returns whether somebody can do something about a limitation.
fn is_problem(note: &Note) -> bool {
    note.code.next_step() != NextStep::Nothing
}

fn shared(parent: Pid, pid: Pid) -> Option<Sharing> {
    let compare = |_: &Pinned| sharing::with_parent(parent, pid);
    unbloat_process::look(pid, Stopping::Never, compare).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Instant;
    use unbloat_process::watch::ProcFs;
    use unbloat_test_support::{Compiler, Program, Target, c_program};

    #[test]
    fn a_process_is_read_and_its_end_leaves_no_figures() {
        let program = Program::build(Compiler::System, c_program("idle"), &[]);
        let mut target = Target::start_ready(&mut program.command());
        let proc = ProcFs::default();
        let stat = proc.stat(Pid(target.pid())).unwrap();
        let mut member = Member::new(&proc, &stat, 0.0, Instant::now());
        memory(&mut member, &mut Vec::new()).unwrap();
        look(&mut member, None).unwrap();
        let taken = member.seen.look.clone().unwrap();
        assert_eq!(taken.value.report.pid, Pid(target.pid()));
        assert!(member.seen.memory.unwrap().value.uss_bytes > 0 && taken.value.cpu_s > 0.0);
        assert_eq!(member.seen.role.name, "program");
        target.kill();
        assert!(look(&mut member, None).is_err());
        assert_eq!((member.seen.look, member.seen.unread.len()), (None, 0));
    }
}
