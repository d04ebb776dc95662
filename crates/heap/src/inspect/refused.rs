//! A process that the kernel does not let us read: what it tells all the same.
//!
//! `ptrace(2)`, "Ptrace access mode checking": mappings, counters and page tables ask for less (`PTRACE_MODE_READ`) than
//! memory itself (`PTRACE_MODE_ATTACH`, which Yama may restrict to ancestors). `status` and `cgroup` are for everybody.

use super::Inspection;
use crate::iec::Iec;
use crate::model::{Category, Census, Note, NoteCode};
use unbloat_process::{Backed, Cgroup, Error, LiveMemory, Maps, Result, Status};

impl Inspection<'_> {
    /// Starts again with less. What was found before the refusal is dropped: a part of a census is not one.
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

    /// Neither mappings nor memory: one category, and what the kernel's counters say of it.
    fn counters_only(&mut self, status: &Status) {
        self.report.census.add(Category::NotReadable, self.report.rss_bytes);
        if let Some(Backed { anonymous_bytes, file_bytes, shared_memory_bytes }) = status.backing {
            let text = format!(
                "What the kernel tells everybody: of {} resident, {} are anonymous memory (heaps, stacks), {} files and {} \
                 shared memory.",
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
                "Its control group {name} is charged {}, page cache and the kernel's own memory included.",
                Iec(bytes)
            );
            self.report.note(NoteCode::ControlGroup, text);
        }
    }
}
