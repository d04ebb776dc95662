//! Making a file, writing batches, ending it.
//!
//! Durability: the database is in WAL mode and each batch is one transaction, so a writer that is killed loses what it
//! had not yet put into a batch and nothing else. `synchronous = NORMAL` does not wait for the disk on each batch:
//! after a power failure the last batches may be missing, the file is whole.

use crate::owner::Owner;
use crate::rows::{
    BlockId, CategoryBytes, CgroupMemory, Cost, Counter, Latency, Mark, Metric, NewProcess, ProcessEnd,
    ProcessId, Recording, RunId, Sample, StepId, VariantId,
};
use crate::{APPLICATION_ID, Error, Result, SCHEMA_VERSION, reader, thin};
use rusqlite::{Connection, OpenFlags, ToSql, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pages of WAL after which it is copied into the database: small, so that a reader of a killed recording has
/// little to replay, and that a full disk leaves little behind outside of the database.
const CHECKPOINT_PAGES: u32 = 256;

/// How long to wait for another writer's transaction.
const BUSY: Duration = Duration::from_secs(10);

/// An open recording that can be written.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    db: Connection,
    recording: Recording,
    pub(crate) thinner: thin::Thinner,
}

impl Writer {
    /// Makes a new file; `recording` says what and when.
    ///
    /// # Errors
    /// The file exists (and then: whether it is being written, or is no recording), or cannot be made.
    pub fn create(path: &Path, recording: &Recording) -> Result<Self> {
        // Making it exclusively lets exactly one of two recorders that start together have it.
        match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(existing(path)),
            Err(source) => return Err(Error::Io { path: path.to_owned(), doing: "make", source }),
        }
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut writer = Writer {
            path: path.to_owned(),
            db,
            recording: recording.clone(),
            thinner: thin::Thinner::default(),
        };
        writer.lay_out().map_err(|e| {
            // Half a file is of no use to anyone.
            let _ = std::fs::remove_file(path);
            Error::sqlite(path, "make", e)
        })?;
        Ok(writer)
    }

    /// Opens a recording to add to it, whoever else is writing to it.
    ///
    /// # Errors
    /// It is no recording, or a newer one.
    pub fn join(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Err(Error::Missing { path: path.to_owned() });
        }
        let db = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        reader::check(path, &db)?;
        let recording = reader::recording(path, &db)?;
        Ok(Writer { path: path.to_owned(), db, recording, thinner: thin::Thinner::default() })
    }

    /// Opens a recording that was cut short to go on with it, and becomes its owner. Its clock goes on where it
    /// stopped; the table `clock` says when that was.
    ///
    /// # Errors
    /// It is no recording, or a newer one, or somebody is writing to it.
    pub fn resume(path: &Path) -> Result<Self> {
        let mut writer = Self::join(path)?;
        let running = writer.recording.ended_ns.is_none();
        if let Some(owner) = writer.recording.owner.as_ref().filter(|owner| running && owner.is_alive()) {
            return Err(Error::InUse { path: path.to_owned(), pid: owner.pid });
        }
        let now = Recording::begin(writer.recording.kind);
        let last_ns = writer.batch(|batch| batch.last_ns())?;
        writer.recording.started_monotonic_ns = now.started_monotonic_ns - last_ns;
        writer.recording.owner.clone_from(&now.owner);
        let started = writer.recording.started_monotonic_ns;
        writer.batch(|batch| {
            batch.clock(last_ns, now.started_wall_ns)?;
            batch.owner(started, now.owner.as_ref())
        })?;
        Ok(writer)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the file says about itself.
    #[must_use]
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The first id that no process of the file has.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_process(&self) -> Result<ProcessId> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM process";
        self.db.query_row(sql, [], |row| row.get(0)).map_err(|e| Error::sqlite(&self.path, "read", e))
    }

    /// Nanoseconds since the recording began, for a mark from outside of the recorder.
    ///
    /// # Errors
    /// Nobody records to the file any more: its clock has stopped.
    pub fn now_ns(&self) -> Result<i64> {
        let alive = self.recording.owner.as_ref().is_some_and(Owner::is_alive);
        if self.recording.ended_ns.is_some() || !alive {
            return Err(Error::Ended { path: self.path.clone() });
        }
        Ok(self.recording.elapsed_ns())
    }

    /// Writes everything that `write` writes, or nothing of it.
    ///
    /// # Errors
    /// The disk is full, or the file has become unusable; the file keeps what earlier batches wrote.
    pub fn batch<T>(&mut self, write: impl FnOnce(&Batch<'_>) -> Result<T>) -> Result<T> {
        let path = &self.path;
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|e| Error::sqlite(path, "write to", e))?;
        let batch = Batch { path, transaction };
        let result = write(&batch)?;
        batch.transaction.commit().map_err(|e| Error::sqlite(path, "write to", e))?;
        Ok(result)
    }

    /// Keeps the file below `limit_bytes` by thinning old samples, a little at a time. Call it after a batch.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn keep_below(&mut self, limit_bytes: u64) -> Result<()> {
        self.thinner.step(&mut self.db, limit_bytes).map_err(|e| Error::sqlite(&self.path, "write to", e))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn finish(self, time_ns: i64, reason: &str, exit_status: Option<i64>) -> Result<()> {
        let Writer { path, db, .. } = self;
        let end = || -> rusqlite::Result<()> {
            db.execute(
                "UPDATE recording SET ended_ns = ?, end_reason = ?, exit_status = ?",
                (time_ns, reason, exit_status),
            )?;
            db.execute_batch("PRAGMA optimize; PRAGMA wal_checkpoint(TRUNCATE)")
        };
        end().map_err(|e| Error::sqlite(&path, "write to", e))
    }

    fn lay_out(&mut self) -> rusqlite::Result<()> {
        self.db.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA application_id = {APPLICATION_ID};"
        ))?;
        let recording = &self.recording;
        let owner = recording.owner.as_ref();
        let transaction = self.db.transaction()?;
        transaction.execute_batch(include_str!("schema.sql"))?;
        transaction.execute(
            "INSERT INTO recording (id, kind, tool_version, started_wall_ns, started_monotonic_ns, boot_id, \
             writer_pid, writer_start_ticks) VALUES (1, ?, ?, ?, ?, ?, ?, ?)",
            (
                recording.kind.name(),
                &recording.tool_version,
                recording.started_wall_ns,
                recording.started_monotonic_ns,
                owner.and_then(|o| o.boot_id.as_ref()),
                owner.map(|o| o.pid),
                owner.and_then(|o| o.start_ticks).map(integer),
            ),
        )?;
        // Last, so that a file without a version is one whose making was cut short.
        transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
        transaction.commit()
    }
}

/// Why a file that is in the way is in the way.
fn existing(path: &Path) -> Error {
    let exists = Error::Exists { path: path.to_owned() };
    match crate::Reader::open(path) {
        Ok(reader) => match reader.live_owner() {
            Some(owner) => Error::InUse { path: path.to_owned(), pid: owner.pid },
            None => exists,
        },
        Err(_) => exists,
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(BUSY)?;
        db.execute_batch(&format!(
            "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; \
             PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;"
        ))?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(db)
    };
    open().map_err(|e| Error::sqlite(path, "open", e))
}

/// SQLite's integers are signed; what does not fit is not something this tool measures.
fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// One transaction's worth of rows.
#[derive(Debug)]
pub struct Batch<'a> {
    path: &'a Path,
    transaction: Transaction<'a>,
}

impl Batch<'_> {
    fn insert(&self, sql: &str, values: &[&dyn ToSql]) -> Result<i64> {
        let run = || self.transaction.prepare_cached(sql)?.insert(values);
        run().map_err(|e| Error::sqlite(self.path, "write to", e))
    }

    fn update(&self, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
        let run = || self.transaction.prepare_cached(sql)?.execute(values);
        run().map(drop).map_err(|e| Error::sqlite(self.path, "write to", e))
    }

    /// The latest moment that the file knows of.
    fn last_ns(&self) -> Result<i64> {
        let sql = "SELECT max(coalesce((SELECT max(time_ns) FROM sample), 0), \
                   coalesce((SELECT max(coalesce(ended_ns, started_ns)) FROM run), 0), \
                   coalesce((SELECT max(time_ns) FROM mark), 0)) WHERE ? = 1";
        self.id(sql, &1)
    }

    fn owner(&self, started_monotonic_ns: i64, owner: Option<&Owner>) -> Result<()> {
        self.update(
            "UPDATE recording SET started_monotonic_ns = ?, writer_pid = ?, writer_start_ticks = ?, boot_id = ?, \
             ended_ns = NULL, end_reason = NULL",
            &[
                &started_monotonic_ns,
                &owner.map(|o| o.pid),
                &owner.and_then(|o| o.start_ticks).map(integer),
                &owner.and_then(|o| o.boot_id.clone()),
            ],
        )
    }

    /// States a fact about where the figures come from; of the whole file when `run` is `None`.
    ///
    /// # Errors
    /// The file cannot be written; so for every method below.
    pub fn provenance(&self, run: Option<RunId>, name: &str, value: &str) -> Result<()> {
        self.insert("INSERT INTO provenance (run, name, value) VALUES (?, ?, ?)", &[&run, &name, &value])
            .map(drop)
    }

    /// Adds a process.
    pub fn process(&self, process: &NewProcess) -> Result<ProcessId> {
        self.add_process(None, process)
    }

    /// Adds a process under an id of the caller's, from [`Writer::next_process`] on. For the one recorder of a file.
    pub fn process_as(&self, id: ProcessId, process: &NewProcess) -> Result<()> {
        self.add_process(Some(id), process).map(drop)
    }

    fn add_process(&self, id: Option<ProcessId>, process: &NewProcess) -> Result<ProcessId> {
        self.insert(
            "INSERT INTO process (id, run, pid, start_ticks, parent, command, first_seen_ns, last_seen_ns) \
             VALUES (?, ?, ?, ?, ?, ?, ?7, ?7)",
            &[
                &id,
                &process.run,
                &process.pid,
                &process.start_ticks.map(integer),
                &process.parent,
                &process.command,
                &process.first_seen_ns,
            ],
        )
        .map(ProcessId)
    }

    /// A process has become another program.
    pub fn process_command(&self, process: ProcessId, command: &str) -> Result<()> {
        self.update("UPDATE process SET command = ? WHERE id = ?", &[&command, &process])
    }

    /// A process was still there.
    pub fn process_seen(&self, process: ProcessId, time_ns: i64, peak_rss_bytes: Option<u64>) -> Result<()> {
        self.update(
            "UPDATE process SET last_seen_ns = ?, peak_rss_bytes = ? WHERE id = ?",
            &[&time_ns, &peak_rss_bytes.map(integer), &process],
        )
    }

    /// What runs in a process: Ruby and allocator, as found in its memory.
    pub fn process_runtime(&self, process: ProcessId, runtime: &str) -> Result<()> {
        self.update("UPDATE process SET runtime = ? WHERE id = ?", &[&runtime, &process])
    }

    /// What could not be read of a process, and why.
    pub fn process_note(&self, process: ProcessId, note: &str) -> Result<()> {
        self.update("UPDATE process SET note = ? WHERE id = ?", &[&note, &process])
    }

    /// A process has ended.
    pub fn process_ended(&self, process: ProcessId, end: &ProcessEnd) -> Result<()> {
        self.update(
            "UPDATE process SET last_seen_ns = ?1, ended_ns = ?1, exit_status = ?2, user_s = ?3, system_s = ?4, \
             cpu_source = ?5, peak_rss_bytes = ?6 WHERE id = ?7",
            &[
                &end.ended_ns,
                &end.exit_status,
                &end.user_s,
                &end.system_s,
                &end.cpu_source,
                &end.peak_rss_bytes.map(integer),
                &process,
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
                &sample.process,
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
                &row.process,
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
            &[&row.time_ns, &row.process, &row.name, &integer(row.value)],
        )
        .map(drop)
    }

    /// Marks a moment: a deploy, a step of a load.
    pub fn mark(&self, time_ns: i64, name: &str, run: Option<RunId>) -> Result<()> {
        let mark = Mark { time_ns, name: name.to_owned(), run };
        self.insert(
            "INSERT INTO mark (time_ns, name, run) VALUES (?, ?, ?)",
            &[&mark.time_ns, &mark.name, &mark.run],
        )
        .map(drop)
    }

    /// Adds what a cgroup says of its memory.
    pub fn cgroup(&self, row: &CgroupMemory) -> Result<()> {
        self.insert(
            "INSERT INTO cgroup (time_ns, path, current_bytes, peak_bytes) VALUES (?, ?, ?, ?)",
            &[&row.time_ns, &row.path, &row.current_bytes.map(integer), &row.peak_bytes.map(integer)],
        )
        .map(drop)
    }

    /// The wall clock as it is after a step.
    pub fn clock(&self, time_ns: i64, wall_ns: i64) -> Result<()> {
        self.insert("INSERT INTO clock (time_ns, wall_ns) VALUES (?, ?)", &[&time_ns, &wall_ns]).map(drop)
    }

    /// What the recording has cost so far.
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

    /// Adds a variant, or finds the one of that name. `settings` is JSON.
    pub fn variant(&self, name: &str, settings: &str) -> Result<VariantId> {
        self.update(
            "INSERT INTO variant (name, settings) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            &[&name, &settings],
        )?;
        self.id("SELECT id FROM variant WHERE name = ?", &name).map(VariantId)
    }

    /// Adds a block, or finds the one of that number.
    pub fn block(&self, number: i64) -> Result<BlockId> {
        self.update("INSERT INTO block (number) VALUES (?) ON CONFLICT (number) DO NOTHING", &[&number])?;
        self.id("SELECT id FROM block WHERE number = ?", &number).map(BlockId)
    }

    /// Begins a run, the `position`th of its block.
    pub fn run(
        &self,
        variant: Option<VariantId>,
        block: Option<(BlockId, i64)>,
        started_ns: i64,
    ) -> Result<RunId> {
        self.insert(
            "INSERT INTO run (variant, block, position, started_ns) VALUES (?, ?, ?, ?)",
            &[&variant, &block.map(|(id, _)| id), &block.map(|(_, position)| position), &started_ns],
        )
        .map(RunId)
    }

    /// Ends a run. `outcome` is `done` or what went wrong.
    pub fn run_ended(&self, run: RunId, ended_ns: i64, outcome: &str) -> Result<()> {
        self.update("UPDATE run SET ended_ns = ?, outcome = ? WHERE id = ?", &[&ended_ns, &outcome, &run])
    }

    /// Begins a step of a load. `parameters` is JSON.
    pub fn step(&self, run: Option<RunId>, name: &str, started_ns: i64, parameters: &str) -> Result<StepId> {
        self.insert(
            "INSERT INTO step (run, name, started_ns, parameters) VALUES (?, ?, ?, ?)",
            &[&run, &name, &started_ns, &parameters],
        )
        .map(StepId)
    }

    /// Ends a step.
    pub fn step_ended(&self, step: StepId, ended_ns: i64) -> Result<()> {
        self.update("UPDATE step SET ended_ns = ? WHERE id = ?", &[&ended_ns, &step])
    }

    /// Adds a latency histogram of a step.
    pub fn latency(&self, row: &Latency) -> Result<()> {
        self.insert(
            "INSERT INTO latency (step, kind, count, histogram) VALUES (?, ?, ?, ?)",
            &[&row.step, &row.kind, &integer(row.count), &row.histogram],
        )
        .map(drop)
    }

    /// Adds any other figure.
    pub fn metric(&self, row: &Metric) -> Result<()> {
        self.insert(
            "INSERT INTO metric (run, step, name, value, unit) VALUES (?, ?, ?, ?, ?)",
            &[&row.run, &row.step, &row.name, &row.value, &row.unit],
        )
        .map(drop)
    }

    fn id(&self, sql: &str, key: &dyn ToSql) -> Result<i64> {
        let find = || self.transaction.prepare_cached(sql)?.query_row([key], |row| row.get(0));
        find().map_err(|e| Error::sqlite(self.path, "read", e))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Kind, Reader};

    fn file(name: &str) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        (directory, path)
    }

    #[test]
    fn a_file_whose_writer_died_goes_on_where_it_stopped() {
        let (_dir, path) = file("cut.unbloat");
        let gone = Owner { pid: 1, start_ticks: Some(1), boot_id: None };
        let recording = Recording { owner: Some(gone), ..Recording::begin(Kind::Experiment) };
        let mut writer = Writer::create(&path, &recording).unwrap();
        writer.batch(|batch| batch.mark(3_600_000_000_000, "an hour in", None)).unwrap();
        drop(writer);
        let resumed = Writer::resume(&path).unwrap();
        let now = resumed.now_ns().unwrap();
        assert!((3_600_000_000_000..3_700_000_000_000).contains(&now), "{now}");
        assert!(matches!(Writer::resume(&path), Err(Error::InUse { .. })));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let (_directory, path) = file("a.unbloat");
        let begun = Recording::begin(Kind::Experiment);
        let mut writer = Writer::create(&path, &begun).unwrap();
        let sample = Sample { time_ns: 5, rss_bytes: Some(1 << 40), user_s: Some(0.25), ..Sample::default() };
        writer
            .batch(|batch| {
                let variant = batch.variant("trim", "{}")?;
                assert_eq!(batch.variant("trim", "{}")?, variant);
                let block = batch.block(0)?;
                let run = batch.run(Some(variant), Some((block, 1)), 3)?;
                batch.provenance(Some(run), "ruby", "3.3.0")?;
                let process = batch.process(&NewProcess {
                    run: Some(run),
                    pid: 9,
                    command: "puma".into(),
                    ..NewProcess::default()
                })?;
                batch.sample(&Sample { process, ..sample })?;
                batch.mark(4, "load", Some(run))?;
                let step = batch.step(Some(run), "100/s", 4, "{}")?;
                batch.latency(&Latency { step, kind: "ack".into(), count: 1, histogram: vec![1, 2] })?;
                batch.metric(&Metric {
                    run: Some(run),
                    step: None,
                    name: "x".into(),
                    value: 1.5,
                    unit: "s".into(),
                })?;
                batch.step_ended(step, 8)?;
                batch.run_ended(run, 9, "done")
            })
            .unwrap();
        writer.finish(10, "done", Some(0)).unwrap();

        let reader = Reader::open(&path).unwrap();
        assert_eq!(
            reader.recording(),
            &Recording { ended_ns: Some(10), end_reason: Some("done".into()), exit_status: Some(0), ..begun }
        );
        let run = &reader.runs().unwrap()[0];
        assert_eq!((run.block, run.position, run.outcome.as_deref()), (Some(0), Some(1), Some("done")));
        assert_eq!(reader.provenance(Some(run.id)).unwrap(), [("ruby".into(), "3.3.0".into())]);
        assert_eq!(reader.provenance(None).unwrap(), []);
        assert_eq!(reader.samples().unwrap(), [Sample { process: ProcessId(1), ..sample }]);
        assert_eq!(reader.latencies().unwrap()[0].histogram, [1, 2]);
        assert_eq!(reader.marks().unwrap()[0].name, "load");
        assert_eq!(reader.metrics().unwrap()[0].unit, "s");
        assert_eq!(reader.steps().unwrap()[0].ended_ns, Some(8));
    }

    #[test]
    fn a_batch_that_fails_leaves_nothing() {
        let (_directory, path) = file("a.unbloat");
        let mut writer = Writer::create(&path, &Recording::begin(Kind::Record)).unwrap();
        let failed = writer.batch(|batch| {
            batch.mark(1, "lost", None)?;
            batch.sample(&Sample { process: ProcessId(99), ..Sample::default() })?;
            Err::<(), _>(Error::Ended { path: path.clone() })
        });
        assert!(failed.is_err());
        assert_eq!(Reader::open(&path).unwrap().marks().unwrap(), []);
    }

    #[test]
    fn a_second_process_can_mark_a_running_recording_and_not_an_ended_one() {
        let (_directory, path) = file("a.unbloat");
        let writer = Writer::create(&path, &Recording::begin(Kind::Record)).unwrap();
        let mut other = Writer::join(&path).unwrap();
        let now = other.now_ns().unwrap();
        assert!((0..60_000_000_000).contains(&now), "{now}");
        other.batch(|batch| batch.mark(now, "deploy", None)).unwrap();
        assert_eq!(Reader::open(&path).unwrap().marks().unwrap()[0].name, "deploy");
        writer.finish(now, "done", None).unwrap();
        assert!(matches!(Writer::join(&path).unwrap().now_ns(), Err(Error::Ended { .. })));
    }

    #[test]
    fn files_that_are_in_the_way_or_not_ours_are_told_apart() {
        let (_directory, path) = file("a.unbloat");
        let create = || Writer::create(&path, &Recording::begin(Kind::Record));
        assert!(matches!(Reader::open(&path), Err(Error::Missing { .. })));
        let writer = create().unwrap();
        let pid = std::process::id() as i32;
        assert!(matches!(create(), Err(Error::InUse { pid: p, .. }) if p == pid));
        writer.finish(1, "done", None).unwrap();
        assert!(matches!(create(), Err(Error::Exists { .. })));

        std::fs::write(&path, "elapsed cpu real virtual\n".repeat(100)).unwrap();
        assert!(matches!(Reader::open(&path), Err(Error::NotARecording { .. })));
        assert!(matches!(create(), Err(Error::Exists { .. })));
        std::fs::remove_file(&path).unwrap();

        Connection::open(&path).unwrap().execute_batch("CREATE TABLE other (x)").unwrap();
        assert!(matches!(Reader::open(&path), Err(Error::NotARecording { .. })));
        assert!(matches!(Writer::join(&path), Err(Error::NotARecording { .. })));
        std::fs::remove_file(&path).unwrap();

        create().unwrap();
        Connection::open(&path).unwrap().pragma_update(None, "user_version", SCHEMA_VERSION + 1).unwrap();
        let newer = Reader::open(&path).unwrap_err();
        assert!(newer.to_string().contains("Use a newer unbloat"), "{newer}");
    }

    #[test]
    fn a_file_size_limit_is_said_plainly() {
        let error = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(13), None);
        let text = Error::sqlite(Path::new("x.unbloat"), "write to", error).to_string();
        assert!(text.starts_with("no space left for x.unbloat"), "{text}");
    }
}
