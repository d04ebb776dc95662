//! Inspection of a process that the kernel does not let us read.
//!
//! `ptrace(2)`, "Ptrace access mode checking": mappings, counters and page tables require less
//! (`PTRACE_MODE_READ`) than memory itself (`PTRACE_MODE_ATTACH`, which Yama may restrict to ancestors).
//! `status` and `cgroup` are readable by everybody.

use super::Inspection;
use crate::iec::Iec;
use crate::model::{Category, Census, Note, NoteCode};
use unbloat_process::{Backed, Cgroup, Error, LiveMemory, Maps, Result, Status};

impl Inspection<'_> {
    /// Starts over with less. Findings from before the refusal are dropped, since a partial census is wrong.
    pub(super) fn refused(&mut self, refusal: &Error, status: &Status) -> Result<()> {
        self.start_over(refusal);
        let mappings = Maps::of(self.pid).and_then(|maps| {
            let memory = LiveMemory::tables_only(self.pid)?;
            self.mappings_only(&memory, &maps)
        });
        match mappings {
            Err(Error::NotPermitted { .. }) => {
                self.start_over(refusal);
                self.counters_only(status);
                Ok(())
            }
            done => done,
        }
    }

    fn start_over(&mut self, refusal: &Error) {
        (self.report.allocator, self.report.ruby, self.report.map) = (None, None, None);
        self.report.census = Census::default();
        self.report.notes = vec![Note::new(NoteCode::of(refusal), format!("{refusal}."))];
    }

    /// Handles a process with neither readable mappings nor readable memory: one category, filled from the
    /// kernel's counters.
    fn counters_only(&mut self, status: &Status) {
        self.report.census.add(Category::NotReadable, self.report.rss_bytes);
        if let Some(Backed { anonymous_bytes, file_bytes, shared_memory_bytes }) = status.backing {
            let text = format!(
                "The kernel shows everybody this much: of {} resident, {} are anonymous memory (heaps, \
                 stacks), {} files and {} shared memory.",
                Iec(self.report.rss_bytes),
                Iec(anonymous_bytes),
                Iec(file_bytes),
                Iec(shared_memory_bytes)
            );
            self.report.note(NoteCode::CountersOnly, text);
        }
        let charged = |group: Cgroup| Some((group.current_bytes()?, group.name));
        if let Some((bytes, name)) = Cgroup::of(self.pid).and_then(charged) {
            let text = format!(
                "Its control group {name} is charged {}, including page cache and the kernel's own memory.",
                Iec(bytes)
            );
            self.report.note(NoteCode::ControlGroup, text);
        }
    }
}
