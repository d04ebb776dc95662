//! Writes a recorder's observations: processes, their samples and censuses, and related rows.

use super::batch::{Batch, integer};
use crate::Result;
use unbloat_recording::{
    CategoryBytes, CgroupMemory, Cost, Counter, CpuSource, NewProcess, ProcessEnd, ProcessId, Sample,
};

impl Batch<'_> {
    /// Adds a process.
    pub fn process(&self, process: &NewProcess) -> Result<ProcessId> {
        self.add_process(None, process)
    }

    /// Adds a process under an ID chosen by the caller, starting from
    /// [`Writer::next_process`](crate::Writer::next_process). For the single recorder of a file.
    pub fn process_as(&self, id: ProcessId, process: &NewProcess) -> Result<()> {
        self.add_process(Some(id), process).map(drop)
    }

    fn add_process(&self, id: Option<ProcessId>, process: &NewProcess) -> Result<ProcessId> {
        self.insert(
            "INSERT INTO process (id, run, pid, start_ticks, parent, command, first_seen_ns, last_seen_ns) \
             VALUES (?, ?, ?, ?, ?, ?, ?7, ?7)",
            &[
                &id.map(|id| id.0),
                &process.run.map(|run| run.0),
                &process.pid,
                &process.start_ticks.map(integer),
                &process.parent.map(|parent| parent.0),
                &process.command.raw(),
                &process.first_seen_ns,
            ],
        )
        .map(ProcessId)
    }

    /// Records that a process has become another program.
    pub fn process_command(&self, process: ProcessId, command: &str) -> Result<()> {
        self.update("UPDATE process SET command = ? WHERE id = ?", &[&command, &process.0])
    }

    /// Records that a process still existed.
    pub fn process_seen(&self, process: ProcessId, time_ns: i64, peak_rss_bytes: Option<u64>) -> Result<()> {
        self.update(
            "UPDATE process SET last_seen_ns = ?, peak_rss_bytes = ? WHERE id = ?",
            &[&time_ns, &peak_rss_bytes.map(integer), &process.0],
        )
    }

    /// Describes the software in a process: Ruby and allocator, as found in its memory, and the policy of `unbloat run`.
    pub fn process_runtime(&self, process: ProcessId, runtime: &str) -> Result<()> {
        self.update("UPDATE process SET runtime = ? WHERE id = ?", &[&runtime, &process.0])
    }

    /// Notes a part of a process that could not be read, and the reason.
    pub fn process_note(&self, process: ProcessId, note: &str) -> Result<()> {
        self.update("UPDATE process SET note = ? WHERE id = ?", &[&note, &process.0])
    }

    /// Records the end of a process.
    pub fn process_ended(&self, process: ProcessId, end: &ProcessEnd) -> Result<()> {
        self.update(
            "UPDATE process SET last_seen_ns = ?1, ended_ns = ?1, exit_status = ?2, user_s = ?3, system_s = ?4, \
             cpu_source = ?5, peak_rss_bytes = ?6 WHERE id = ?7",
            &[
                &end.ended_ns,
                &end.exit_status,
                &end.user_s,
                &end.system_s,
                &end.cpu_source.map(CpuSource::name),
                &end.peak_rss_bytes.map(integer),
                &process.0,
            ],
        )
    }

    /// Adds a sample.
    pub fn sample(&self, sample: &Sample) -> Result<()> {
        self.insert(
            "INSERT INTO sample (time_ns, process, rss_bytes, pss_bytes, uss_bytes, swap_bytes, minor_faults, \
             major_faults, user_s, system_s, threads) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &sample.time_ns,
                &sample.process.0,
                &sample.rss_bytes.map(integer),
                &sample.pss_bytes.map(integer),
                &sample.uss_bytes.map(integer),
                &sample.swap_bytes.map(integer),
                &sample.minor_faults.map(integer),
                &sample.major_faults.map(integer),
                &sample.user_s,
                &sample.system_s,
                &sample.threads.map(integer),
            ],
        )
        .map(drop)
    }

    /// Adds one category of a census.
    pub fn census(&self, row: &CategoryBytes) -> Result<()> {
        self.insert(
            "INSERT INTO census (time_ns, process, category, bytes, proportional_bytes) VALUES (?, ?, ?, ?, ?)",
            &[
                &row.time_ns,
                &row.process.0,
                &row.category,
                &integer(row.bytes),
                &row.proportional_bytes.map(integer),
            ],
        )
        .map(drop)
    }

    /// Adds a counter that came with a census.
    pub fn counter(&self, row: &Counter) -> Result<()> {
        self.insert(
            "INSERT INTO counter (time_ns, process, name, value) VALUES (?, ?, ?, ?)",
            &[&row.time_ns, &row.process.0, &row.name, &integer(row.value)],
        )
        .map(drop)
    }

    /// Adds the memory figures of a cgroup.
    pub fn cgroup(&self, row: &CgroupMemory) -> Result<()> {
        self.insert(
            "INSERT INTO cgroup (time_ns, path, current_bytes, peak_bytes) VALUES (?, ?, ?, ?)",
            &[&row.time_ns, &row.path, &row.current_bytes.map(integer), &row.peak_bytes.map(integer)],
        )
        .map(drop)
    }

    /// Records the wall clock after a step.
    pub fn clock(&self, time_ns: i64, wall_ns: i64) -> Result<()> {
        self.insert("INSERT INTO clock (time_ns, wall_ns) VALUES (?, ?)", &[&time_ns, &wall_ns]).map(drop)
    }

    /// Records the cost of the recording so far.
    pub fn cost(&self, cost: &Cost) -> Result<()> {
        self.insert(
            "INSERT INTO cost (time_ns, cpu_s, rss_bytes, ticks, late_ticks, missed_ticks, pss_sweeps, pss_held_s, \
             censuses, census_s, short_lived, short_lived_cpu_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                &cost.time_ns,
                &cost.cpu_s,
                &cost.rss_bytes.map(integer),
                &integer(cost.ticks),
                &integer(cost.late_ticks),
                &integer(cost.missed_ticks),
                &integer(cost.pss_sweeps),
                &cost.pss_held_s,
                &integer(cost.censuses),
                &cost.census_s,
                &integer(cost.short_lived),
                &cost.short_lived_cpu_s,
            ],
        )
        .map(drop)
    }
}
