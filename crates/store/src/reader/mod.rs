//! Reads a recording, whoever wrote it and whether or not it is still being written.
//!
//! | module | concept |
//! |---|---|
//! | `open` | opens the file read-only, without trusting its contents |
//! | `experiment` | the results of experiments |
//! | `rubies` | live memory of Rubies |
//! | `limits` | ends queries that do more work than an honest file can require |

mod experiment;
mod limits;
mod open;
mod rubies;

use crate::later::has_table;
use crate::owner::is_alive;
use crate::{APPLICATION_ID, Error, Result};
use limits::Limits;
pub(crate) use open::{check, check_kind, harden};
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use unbloat_recording::recording::{counters_over_time, seconds};
use unbloat_recording::{
    CategoryBytes, Censuses, CgroupMemory, Cost, Counter, CpuSource, Folded, Header, Kind, Latency, Mark,
    Owner, Process, ProcessId, Recording, RunId, Sample, Step, StepId, StepLatency, TreeMemory,
};

/// An open recording for reading.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    db: Connection,
    limits: Limits,
    header: Header,
}

impl Reader {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is no such file, it is not a recording, or it has a newer version.
    pub fn open(path: &Path) -> Result<Self> {
        let (db, limits) = open::open(path)?;
        let header = header(path, &db)?;
        Ok(Reader { path: path.to_owned(), db, limits, header })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the header of the file.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the process that is currently writing it, if any.
    #[must_use]
    pub fn live_owner(&self) -> Option<&Owner> {
        let owner = self.header.owner.as_ref()?;
        (self.header.ended_ns.is_none() && is_alive(owner)).then_some(owner)
    }

    /// Reads the whole recording.
    ///
    /// # Errors
    /// The file cannot be read; this applies to all methods below.
    pub fn load(&self) -> Result<Recording> {
        let counters = self.counters()?;
        Ok(Recording {
            name: self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            header: self.header.clone(),
            provenance: self
                .provenance(None)?
                .into_iter()
                .map(|(name, value)| (name, value.into()))
                .collect(),
            processes: self.processes()?,
            folded: self.folded()?,
            samples: self.samples()?,
            censuses: Censuses::of(self.census()?, &counters),
            counters: counters_over_time(counters),
            rubies: self.rubies()?,
            marks: self.marks()?,
            latencies: self.step_latencies()?,
            cost: self.cost()?,
        })
    }

    /// Reads the latencies of load steps outside runs of an experiment; those of runs belong to the
    /// experiment.
    pub fn step_latencies(&self) -> Result<Vec<StepLatency>> {
        let steps = self.steps()?.into_iter().filter(|step| step.run.is_none());
        let steps: BTreeMap<StepId, Step> = steps.map(|step| (step.id, step)).collect();
        let with_step = |row: Latency| {
            let step = steps.get(&row.step)?;
            let ended_s = step.ended_ns.map(seconds);
            let (step, kind) = (step.name.as_str().into(), row.kind.into());
            Some(StepLatency { step, ended_s, kind, histogram: row.histogram })
        };
        Ok(self.latencies()?.into_iter().filter_map(with_step).collect())
    }

    /// Reads facts about the origin of the figures, for one run or, with `None`, for the whole file. Names
    /// from earlier versions are unchanged: see
    /// [`provenance::current`](unbloat_recording::provenance::current).
    pub fn provenance(&self, run: Option<RunId>) -> Result<Vec<(String, String)>> {
        self.rows(
            "SELECT name, value FROM provenance WHERE run IS ? ORDER BY rowid",
            [run.map(|run| run.0)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    /// Reads all processes, in the order of sighting.
    pub fn processes(&self) -> Result<Vec<Process>> {
        let sql = "SELECT id, run, pid, start_ticks, parent, command, first_seen_ns, last_seen_ns, ended_ns, \
                   exit_status, user_s, system_s, cpu_source, peak_rss_bytes, runtime, note FROM process ORDER BY id";
        self.rows(sql, [], |row| {
            Ok(Process {
                id: ProcessId(row.get(0)?),
                run: id(row, 1, RunId)?,
                pid: row.get(2)?,
                start_ticks: unsigned(row, 3)?,
                parent: id(row, 4, ProcessId)?,
                command: row.get::<_, String>(5)?.into(),
                first_seen_ns: row.get(6)?,
                last_seen_ns: row.get(7)?,
                ended_ns: row.get(8)?,
                exit_status: row.get(9)?,
                user_s: row.get(10)?,
                system_s: row.get(11)?,
                cpu_source: row.get::<_, Option<String>>(12)?.and_then(|name| CpuSource::named(&name)),
                peak_rss_bytes: unsigned(row, 13)?,
                runtime: row.get(14)?,
                note: row.get(15)?,
            })
        })
    }

    /// Reads the short-lived processes that are only counted, by the minute in which they ended.
    pub fn folded(&self) -> Result<Vec<Folded>> {
        if !self.has("folded")? {
            return Ok(Vec::new());
        }
        let sql = "SELECT time_ns, processes, user_s, system_s FROM folded ORDER BY time_ns";
        self.rows(sql, [], |row| {
            let processes = unsigned(row, 1)?.unwrap_or(0);
            Ok(Folded { time_ns: row.get(0)?, processes, user_s: row.get(2)?, system_s: row.get(3)? })
        })
    }

    /// Reads all samples in chronological order.
    pub fn samples(&self) -> Result<Vec<Sample>> {
        let sql = "SELECT time_ns, process, rss_bytes, pss_bytes, uss_bytes, swap_bytes, minor_faults, \
                   major_faults, user_s, system_s, threads FROM sample ORDER BY time_ns";
        self.rows(sql, [], |row| {
            Ok(Sample {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                rss_bytes: unsigned(row, 2)?,
                pss_bytes: unsigned(row, 3)?,
                uss_bytes: unsigned(row, 4)?,
                swap_bytes: unsigned(row, 5)?,
                minor_faults: unsigned(row, 6)?,
                major_faults: unsigned(row, 7)?,
                user_s: row.get(8)?,
                system_s: row.get(9)?,
                threads: unsigned(row, 10)?,
            })
        })
    }

    /// Reads the memory of the tree at each look, in chronological order.
    ///
    /// PSS is `None` at looks without PSS. A process whose PSS may not be read is missing from the sum (its
    /// `note` says so), but one that vanished during the look does not invalidate the look.
    pub fn tree_memory(&self) -> Result<Vec<TreeMemory>> {
        let sql = "SELECT time_ns, count(rss_bytes), sum(rss_bytes), sum(pss_bytes) FROM sample WHERE rss_bytes IS NOT NULL GROUP BY time_ns ORDER BY time_ns";
        self.rows(sql, [], |row| {
            Ok(TreeMemory {
                time_ns: row.get(0)?,
                processes: unsigned(row, 1)?.unwrap_or(0),
                rss_bytes: unsigned(row, 2)?,
                pss_bytes: unsigned(row, 3)?,
            })
        })
    }

    /// Reads all censuses in chronological order.
    pub fn census(&self) -> Result<Vec<CategoryBytes>> {
        self.rows("SELECT time_ns, process, category, bytes, proportional_bytes FROM census ORDER BY time_ns, rowid", [], |row| {
            Ok(CategoryBytes {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                category: row.get(2)?,
                bytes: unsigned(row, 3)?.unwrap_or(0),
                proportional_bytes: unsigned(row, 4)?,
            })
        })
    }

    /// Reads all counters in chronological order.
    pub fn counters(&self) -> Result<Vec<Counter>> {
        self.rows("SELECT time_ns, process, name, value FROM counter ORDER BY time_ns, rowid", [], |row| {
            Ok(Counter {
                time_ns: row.get(0)?,
                process: ProcessId(row.get(1)?),
                name: row.get(2)?,
                value: unsigned(row, 3)?.unwrap_or(0),
            })
        })
    }

    /// Reads all marks in chronological order.
    pub fn marks(&self) -> Result<Vec<Mark>> {
        self.rows("SELECT time_ns, name, run FROM mark ORDER BY time_ns, rowid", [], |row| {
            let name = row.get::<_, String>(1)?.into();
            Ok(Mark { time_ns: row.get(0)?, name, run: id(row, 2, RunId)? })
        })
    }

    /// Reads the memory of the cgroup over time.
    pub fn cgroup(&self) -> Result<Vec<CgroupMemory>> {
        let sql = "SELECT time_ns, path, current_bytes, peak_bytes FROM cgroup ORDER BY time_ns";
        self.rows(sql, [], |row| {
            Ok(CgroupMemory {
                time_ns: row.get(0)?,
                path: row.get(1)?,
                current_bytes: unsigned(row, 2)?,
                peak_bytes: unsigned(row, 3)?,
            })
        })
    }

    /// Reads the cost of the recording up to its last moment; `None` before the first batch.
    pub fn cost(&self) -> Result<Option<Cost>> {
        let sql = "SELECT time_ns, cpu_s, rss_bytes, ticks, late_ticks, missed_ticks, pss_sweeps, pss_held_s, \
                   censuses, census_s, short_lived, short_lived_cpu_s FROM cost ORDER BY rowid DESC LIMIT 1";
        let rows = self.rows(sql, [], |row| {
            let count = |column| Ok::<_, rusqlite::Error>(unsigned(row, column)?.unwrap_or(0));
            Ok(Cost {
                time_ns: row.get(0)?,
                cpu_s: row.get(1)?,
                rss_bytes: unsigned(row, 2)?,
                ticks: count(3)?,
                late_ticks: count(4)?,
                missed_ticks: count(5)?,
                pss_sweeps: count(6)?,
                pss_held_s: row.get(7)?,
                censuses: count(8)?,
                census_s: row.get(9)?,
                short_lived: count(10)?,
                short_lived_cpu_s: row.get(11)?,
            })
        })?;
        Ok(rows.into_iter().next())
    }

    /// Returns whether the file has a table that older ones lack.
    fn has(&self, table: &str) -> Result<bool> {
        has_table(&self.db, table).map_err(|e| Error::sqlite(&self.path, "read", e))
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        mut row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let sqlite = |e| Error::sqlite(&self.path, "read", e);
        let mut statement = self.db.prepare(sql).map_err(sqlite)?;
        let mut found = statement.query(parameters).map_err(sqlite)?;
        let (mut rows, mut meter) = (Vec::new(), self.limits.meter());
        while let Some(next) = found.next().map_err(sqlite)? {
            meter.count(next).ok_or_else(|| limits::exceeded(&self.path))?;
            rows.push(row(next).map_err(sqlite)?);
        }
        Ok(rows)
    }
}

/// Returns whether creation of the file was cut short: it is empty, or a database without a version and
/// contents, so removing it loses nothing. It may also still be in creation, which takes milliseconds.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let is_empty = |db: &Connection| -> rusqlite::Result<bool> {
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i32>(0));
        let is_ours = [0, APPLICATION_ID].contains(&number("PRAGMA application_id")?);
        Ok(is_ours
            && number("PRAGMA user_version")? == 0
            && number("SELECT count(*) FROM sqlite_master")? == 0)
    };
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() && file.len() == 0 => true,
        Ok(_) => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .and_then(|db| is_empty(&db))
            .unwrap_or(false),
        Err(_) => false,
    }
}

pub(crate) fn header(path: &Path, db: &Connection) -> Result<Header> {
    let sql = "SELECT kind, tool_version, started_wall_ns, started_monotonic_ns, boot_id, writer_pid, \
               writer_start_ticks, ended_ns, end_reason, exit_status FROM recording";
    db.query_row(sql, [], |row| {
        let kind: String = row.get(0)?;
        let owner = match row.get::<_, Option<i32>>(5)? {
            Some(pid) => Some(Owner { pid, boot_id: row.get(4)?, start_ticks: unsigned(row, 6)? }),
            None => None,
        };
        Ok(Header {
            kind: Kind::named(&kind).unwrap_or(Kind::Record),
            tool_version: row.get(1)?,
            started_wall_ns: row.get(2)?,
            started_monotonic_ns: row.get(3)?,
            owner,
            ended_ns: row.get(7)?,
            end_reason: row.get(8)?,
            exit_status: row.get(9)?,
        })
    })
    .map_err(|e| match e {
        rusqlite::Error::QueryReturnedNoRows => {
            Error::NotARecording { path: path.to_owned(), reason: "its creation was cut short".into() }
        }
        e => Error::sqlite(path, "read", e),
    })
}

/// Reads a column that is never negative; a negative value comes from another program and counts as unknown.
fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.and_then(|value| u64::try_from(value).ok()))
}

fn id<T>(row: &Row<'_>, column: usize, of: fn(i64) -> T) -> rusqlite::Result<Option<T>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(of))
}
