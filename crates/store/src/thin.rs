//! Keeping a long recording below a size.
//!
//! When the file comes near its limit, everything but its newest looks is put on a grid of time: of all looks within
//! one bucket of the grid those stay that had the most RSS, the least RSS and the most PSS, so that peaks and the feet
//! of saw-teeth survive, at any length. Of censuses the largest and the smallest stay, with
//! their counters. Whole looks go or stay, so that
//! sums over the tree at a moment remain right; CPU and faults count from a process's beginning and stay exact at the
//! looks that are left.
//!
//! The buckets begin at one second and double as often as needed to halve what is there, so the whole past is kept at
//! one resolution: a day does not lose its morning. A bucket that is thinned again at twice its width keeps the same
//! extremes as if it had been thinned at once. It goes by small steps, so that the writer is never held up.

use crate::fold::fold;
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// The narrowest bucket.
const FIRST_BUCKET_NS: i64 = 1_000_000_000;

/// Looks that a bucket keeps at most.
const KEPT: i64 = 3;

/// One in so many of the rows, the newest, are not thinned.
const NEWEST: i64 = 10;

/// Rows that one step works on, so that a writer is not held up for longer than some tens of milliseconds.
const ROWS_A_STEP: i64 = 20_000;

/// What grows without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Sample,
    Census,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Sample => "sample",
            Table::Census => "census",
        }
    }

    /// The memory of a look: as it is counted always, and as it is counted sometimes.
    fn memory(self) -> &'static str {
        match self {
            Table::Sample => "coalesce(sum(rss_bytes), 0), sum(pss_bytes)",
            Table::Census => "sum(bytes), NULL",
        }
    }
}

/// A look at the tree: its rows follow each other.
#[derive(Debug, Clone, Copy)]
struct Look {
    time_ns: i64,
    bytes: i64,
    pss_bytes: Option<i64>,
    first_row: i64,
}

/// Where thinning is.
#[derive(Debug)]
pub(crate) struct Thinner {
    pub(crate) rows_a_step: i64,
    pass: Option<Pass>,
    /// What was in use when the last pass ended, and a little more: where thinning does not help, it is not tried anew
    /// after every batch.
    tried_bytes: u64,
}

impl Default for Thinner {
    fn default() -> Self {
        Thinner { rows_a_step: ROWS_A_STEP, pass: None, tried_bytes: 0 }
    }
}

/// Rows from `next` up to `end` (of `rowid`) are still to be put into buckets.
#[derive(Debug, Clone, Copy)]
struct Pass {
    table: Table,
    bucket_ns: i64,
    next: i64,
    end: i64,
}

impl Thinner {
    /// One step: begins a pass when the file comes near its limit, goes on with one that has begun.
    pub(crate) fn step(&mut self, db: &mut Connection, limit_bytes: u64) -> rusqlite::Result<()> {
        // What is written while a pass goes on needs room, too.
        let enough = (limit_bytes / 10 * 8).max(self.tried_bytes);
        if self.pass.is_none() && used_bytes(db)? > enough {
            fold(db)?;
            if used_bytes(db)? > enough {
                self.pass = begin(db)?;
            }
            self.tried_bytes = used_bytes(db)? + limit_bytes / 50;
        }
        while let Some(pass) = self.pass {
            let transaction = db.transaction()?;
            let next = thin(&transaction, pass, self.rows_a_step)?;
            transaction.commit()?;
            self.pass = (next < pass.end).then_some(Pass { next, ..pass });
            let used = used_bytes(db)?;
            self.tried_bytes = used + limit_bytes / 50;
            // Of an extreme crowd more may come than one step takes away: then there is no more time to take.
            if used < limit_bytes / 10 * 9 {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes of the file that are in use; free pages are used again before it grows.
fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or(0))
}

/// Chooses the larger table, and buckets wide enough to halve it.
fn begin(db: &mut Connection) -> rusqlite::Result<Option<Pass>> {
    let rows =
        |name: &str| db.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get::<_, i64>(0));
    let (samples, census) = (rows("sample")?, rows("census")? + rows("counter")?);
    let table = if census > samples { Table::Census } else { Table::Sample };
    let name = table.name();
    let old = rows(name)? / NEWEST * (NEWEST - 1);
    let border: Option<(i64, i64)> = db
        .query_row(
            &format!("SELECT rowid, time_ns FROM {name} ORDER BY rowid LIMIT 1 OFFSET {old}"),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((end, before_ns)) = border.filter(|_| old > 0) else { return Ok(None) };
    let sql = "SELECT bucket_ns FROM thinning WHERE what = ?";
    let known: Option<i64> = db.query_row(sql, [name], |row| row.get(0)).optional()?;
    let looks = looks_before(db, name, end)?;
    if looks < 4 * KEPT {
        // It is something else that takes the room.
        return Ok(None);
    }
    let mut bucket_ns = known.unwrap_or(FIRST_BUCKET_NS);
    while before_ns / bucket_ns * KEPT > looks / 2 && bucket_ns < before_ns {
        bucket_ns *= 2;
    }
    let transaction = db.transaction()?;
    transaction.execute(
        "INSERT INTO thinning (what, before_ns, bucket_ns) VALUES (?1, ?2, ?3) \
         ON CONFLICT (what) DO UPDATE SET before_ns = ?2, bucket_ns = ?3",
        (name, before_ns, bucket_ns),
    )?;
    thin_accounts(&transaction, before_ns, bucket_ns)?;
    transaction.commit()?;
    Ok(Some(Pass { table, bucket_ns, next: 0, end }))
}

/// Looks at the tree before a row, counted as the time changes from row to row.
fn looks_before(db: &Connection, name: &str, end: i64) -> rusqlite::Result<i64> {
    let mut statement = db.prepare(&format!("SELECT time_ns FROM {name} WHERE rowid < ? ORDER BY rowid"))?;
    let mut rows = statement.query([end])?;
    let (mut looks, mut before) = (0, None);
    while let Some(row) = rows.next()? {
        let time_ns = Some(row.get::<_, i64>(0)?);
        looks += i64::from(time_ns != before);
        before = time_ns;
    }
    Ok(looks)
}

/// What is written once a second whatever the tree does: the last of each bucket stays of what is summed up, the most of
/// what is measured.
fn thin_accounts(transaction: &Transaction<'_>, before_ns: i64, bucket_ns: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "DELETE FROM cost WHERE time_ns < ?1 AND rowid NOT IN (SELECT max(rowid) FROM cost GROUP BY time_ns / ?2)",
        (before_ns, bucket_ns),
    )?;
    // Of a grouped max() SQLite takes the other columns from the row that has it (sqlite.org/lang_select.html, "Bare
    // columns in an aggregate query").
    transaction.execute(
        "DELETE FROM cgroup WHERE time_ns < ?1 AND rowid NOT IN \
         (SELECT id FROM (SELECT rowid AS id, max(current_bytes) FROM cgroup GROUP BY path, time_ns / ?2))",
        (before_ns, bucket_ns),
    )?;
    Ok(())
}

/// Thins the next rows; returns the row to go on from.
fn thin(transaction: &Transaction<'_>, pass: Pass, rows: i64) -> rusqlite::Result<i64> {
    let name = pass.table.name();
    // Row numbers have gaps where an earlier pass has been: count rows, not numbers.
    let last: i64 = transaction
        .query_row(
            &format!("SELECT rowid FROM {name} WHERE rowid >= ? ORDER BY rowid LIMIT 1 OFFSET {rows}"),
            [pass.next],
            |row| row.get(0),
        )
        .optional()?
        .map_or(pass.end, |row: i64| row.min(pass.end));
    let looks = looks(transaction, pass, last)?;
    let next = first_of_last_bucket(&looks, pass).unwrap_or(last + 1);
    let (gone, kept): (Vec<Look>, Vec<Look>) = {
        let whole: Vec<Look> = looks.into_iter().filter(|look| look.first_row < next).collect();
        let keep = worth_keeping(&whole, pass.bucket_ns);
        whole.into_iter().partition(|look| !keep.contains(&look.time_ns))
    };
    if !gone.is_empty() {
        let keep = serde_json::Value::from_iter(kept.iter().map(|look| look.time_ns)).to_string();
        let not_kept = "time_ns NOT IN (SELECT value FROM json_each(?3))";
        transaction.execute(
            &format!("DELETE FROM {name} WHERE rowid >= ?1 AND rowid < ?2 AND {not_kept}"),
            (pass.next, next, &keep),
        )?;
        if pass.table == Table::Census {
            let times = || gone.iter().chain(&kept).map(|look| look.time_ns);
            transaction.execute(
                &format!("DELETE FROM counter WHERE time_ns BETWEEN ?1 AND ?2 AND {not_kept}"),
                (times().min(), times().max(), &keep),
            )?;
        }
    }
    // What is left of the last bucket stays as it is at the end of the pass.
    Ok(if last >= pass.end { pass.end } else { next })
}

/// The looks of the rows from `pass.next` to `last`, in the order in which they were written.
fn looks(transaction: &Transaction<'_>, pass: Pass, last: i64) -> rusqlite::Result<Vec<Look>> {
    let (name, memory) = (pass.table.name(), pass.table.memory());
    transaction
        .prepare(&format!(
            "SELECT time_ns, {memory}, min(rowid) FROM {name} WHERE rowid BETWEEN ? AND ? \
             GROUP BY time_ns ORDER BY min(rowid)"
        ))?
        .query_map((pass.next, last), |row| {
            Ok(Look {
                time_ns: row.get(0)?,
                bytes: row.get(1)?,
                pss_bytes: row.get(2)?,
                first_row: row.get(3)?,
            })
        })?
        .collect()
}

/// Where the bucket begins that may go on behind the rows that were read: it is left to the next step. A bucket larger
/// than a step is thinned in pieces; the last look of a piece may be cut, and is left too.
fn first_of_last_bucket(looks: &[Look], pass: Pass) -> Option<i64> {
    let last = looks.last()?;
    let same = |look: &&Look| look.time_ns / pass.bucket_ns == last.time_ns / pass.bucket_ns;
    let first_row = looks.iter().find(same).map(|look| look.first_row);
    [first_row, Some(last.first_row)].into_iter().flatten().find(|&row| row > pass.next)
}

/// The times of the looks that stay.
fn worth_keeping(looks: &[Look], bucket_ns: i64) -> BTreeSet<i64> {
    let mut buckets: BTreeMap<i64, Vec<&Look>> = BTreeMap::new();
    for look in looks {
        buckets.entry(look.time_ns / bucket_ns).or_default().push(look);
    }
    buckets
        .values()
        .flat_map(|bucket| {
            let most = bucket.iter().max_by_key(|look| look.bytes);
            let least = bucket.iter().min_by_key(|look| look.bytes);
            let pss = bucket.iter().filter(|look| look.pss_bytes.is_some()).max_by_key(|look| look.pss_bytes);
            [most, least, pss].into_iter().flatten().map(|look| look.time_ns)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stdout)]
    use super::ROWS_A_STEP;
    use crate::{Reader, Writer, begin};
    use unbloat_recording::{
        CategoryBytes, CgroupMemory, Cost, Counter, Kind, NewProcess, ProcessId, Sample,
    };

    const LOOK_NS: i64 = 100_000_000;
    const PROCESSES: i64 = 20;

    /// One look at twenty busy workers that saw up and down. Every hundredth has PSS, and two stand out.
    fn look(number: i64, high: i64, low: i64) -> impl Iterator<Item = Sample> {
        let rss = match number {
            n if n == high => 900_000_000,
            n if n == low => 50_000_000,
            n => 200_000_000 + n.unsigned_abs() % 997 * 4096,
        };
        (1..=PROCESSES).map(move |process| Sample {
            time_ns: number * LOOK_NS + number % 5000,
            process: ProcessId(process),
            rss_bytes: Some(rss),
            pss_bytes: match number {
                n if n == high + 1 => Some(150_000_000),
                n => (n % 100 == 0).then_some(100_000_000 + n.unsigned_abs() % 4096),
            },
            minor_faults: Some(number.unsigned_abs() * 17),
            major_faults: Some(3),
            user_s: Some((number * 3) as f64 / 100.0),
            system_s: Some(number as f64 / 100.0),
            threads: Some(9),
            ..Sample::default()
        })
    }

    /// Records so many looks with a limit through the writer as the sampler uses it: a transaction for each quarter of
    /// a second, and what comes with it every second.
    fn record_and_check(looks: i64, limit: u64, rows_a_step: i64) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long.unbloat");
        let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
        writer.thinner.rows_a_step = rows_a_step;
        let workers = (1..=PROCESSES as i32).map(|pid| NewProcess { pid, ..NewProcess::default() });
        writer
            .batch(|batch| workers.map(|new| batch.process(&new)).collect::<crate::Result<Vec<_>>>())
            .unwrap();
        let (high, low) = (looks / 7, looks / 5);
        let mut largest = 0;
        for first in (0..looks).step_by(5) {
            writer
                .batch(|batch| {
                    (first..first + 5).flat_map(|n| look(n, high, low)).try_for_each(|s| batch.sample(&s))?;
                    if first % 10 == 0 {
                        let time_ns = first * LOOK_NS;
                        batch.cost(&Cost { time_ns, cpu_s: time_ns as f64 / 1e11, ..Cost::default() })?;
                        let (path, current_bytes) = ("/system.slice/puma.service".to_owned(), Some(1 << 32));
                        batch.cgroup(&CgroupMemory { time_ns, path, current_bytes, peak_bytes: None })?;
                    }
                    Ok(())
                })
                .unwrap();
            writer.keep_below(limit).unwrap();
            if first % 1000 == 0 {
                largest = largest.max(std::fs::metadata(&path).unwrap().len());
            }
        }
        writer.finish(looks * LOOK_NS, "test", None).unwrap();
        largest = largest.max(std::fs::metadata(&path).unwrap().len());
        assert!(largest < limit, "{largest} bytes are more than {limit}");

        let tree = Reader::open(&path).unwrap().tree_memory().unwrap();
        assert!(tree.iter().all(|look| look.processes == PROCESSES as u64), "a look was cut in two");
        let rss = || tree.iter().filter_map(|look| look.rss_bytes).map(|bytes| bytes / PROCESSES as u64);
        assert_eq!((rss().max(), rss().min()), (Some(900_000_000), Some(50_000_000)));
        let pss = tree.iter().filter(|look| look.pss_bytes.is_some()).map(|look| look.time_ns / LOOK_NS);
        assert!(pss.collect::<Vec<_>>().contains(&(high + 1)), "the most PSS is kept");
        let numbers: Vec<_> = tree.iter().map(|look| look.time_ns / LOOK_NS).collect();
        let complete = numbers.windows(2).rev().take_while(|pair| pair[1] - pair[0] == 1).count() as i64;
        // The past is kept at one resolution from its beginning on.
        let widest = numbers.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        println!(
            "{largest} bytes at most, {} looks, the newest {complete} complete, gaps up to {widest}",
            numbers.len()
        );
        assert!(numbers[0] < widest && complete > looks / 500 && widest <= 40 * looks / numbers.len() as i64);
    }

    #[test]
    fn a_long_recording_stays_small_and_keeps_its_extremes_and_its_beginning() {
        record_and_check(6_000, 800_000, 1_010);
    }

    /// The whole day of twenty processes at 100 ms: 17 million rows, about a minute in a release build.
    #[test]
    #[ignore = "takes minutes in a debug build; `cargo test --release -p unbloat-store -- --ignored` runs it"]
    fn a_day_of_twenty_processes_stays_below_the_default_limit() {
        record_and_check(864_000, 100_000_000, ROWS_A_STEP);
    }

    #[test]
    fn censuses_are_thinned_with_their_counters() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("census.unbloat");
        let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
        let puma = writer.batch(|b| b.process(&NewProcess { pid: 1, ..NewProcess::default() })).unwrap();
        for time_ns in (0..6000).map(|n| n * 10_000_000_000) {
            writer
                .batch(|batch| {
                    for category in ["malloc_live", "malloc_stranded", "ruby_live", "ruby_free"] {
                        let category = category.to_owned();
                        let (process, bytes, proportional_bytes) = (puma, 1 << 20, None);
                        batch.census(&CategoryBytes {
                            time_ns,
                            process,
                            category,
                            bytes,
                            proportional_bytes,
                        })?;
                    }
                    let name = "gc_count".to_owned();
                    batch.counter(&Counter { time_ns, process: puma, name, value: 3 })
                })
                .unwrap();
            writer.keep_below(300_000).unwrap();
        }
        let reader = Reader::open(&path).unwrap();
        let (census, counters) = (reader.census().unwrap(), reader.counters().unwrap());
        assert!(census.len() < 12_000, "{} rows are left", census.len());
        let times: std::collections::BTreeSet<_> = census.iter().map(|row| row.time_ns).collect();
        assert!(counters.iter().all(|row| times.contains(&row.time_ns)));
        assert_eq!(census.len(), times.len() * 4);
        assert!(times.range(..30_000_000_000_000).count() > 20, "the first half is still there");
    }
}
