//! Keeping a long recording below a size.
//!
//! When the file passes its limit, the older half of its rows is thinned: of every [`FACTOR`] looks at the tree one
//! stays. A look with PSS is kept before those without, then the one with the most memory, so that peaks survive. CPU
//! and faults are counters since a process began: they stay exact at the looks that are left. Whole looks go or stay,
//! so that sums over the tree at a moment remain right. Done again and again, the recording gets coarser the further
//! back one looks. It goes by small steps, so that the writer is never held up.

use rusqlite::{Connection, OptionalExtension as _, Transaction};

/// How many looks become one. A smaller factor would leave pages half empty and hardly shrink the file.
const FACTOR: usize = 4;

/// Rows that one step works on.
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

    /// What makes one look at the tree worth more than its neighbors: PSS before memory.
    fn worth(self) -> &'static str {
        match self {
            Table::Sample => "(count(pss_bytes) > 0) * (1 << 60) + coalesce(sum(rss_bytes), 0)",
            Table::Census => "sum(bytes)",
        }
    }
}

/// Where thinning is.
#[derive(Debug, Default)]
pub(crate) struct Thinner {
    pass: Option<Pass>,
}

/// Rows from `next` up to `end` (of `rowid`) are still to be thinned.
#[derive(Debug, Clone, Copy)]
struct Pass {
    table: Table,
    next: i64,
    end: i64,
}

impl Thinner {
    /// One step: begins a pass when the file is too large, goes on with one that has begun.
    pub(crate) fn step(&mut self, db: &mut Connection, limit_bytes: u64) -> rusqlite::Result<()> {
        if self.pass.is_none() && used_bytes(db)? > limit_bytes {
            self.pass = begin(db)?;
        }
        let Some(pass) = self.pass else { return Ok(()) };
        let transaction = db.transaction()?;
        let next = thin(&transaction, pass)?;
        transaction.commit()?;
        self.pass = (next < pass.end).then_some(Pass { next, ..pass });
        Ok(())
    }
}

/// Bytes of the file that are in use; free pages are used again before it grows.
fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or(0))
}

/// Chooses the older half of the rows of the larger table.
fn begin(db: &Connection) -> rusqlite::Result<Option<Pass>> {
    let rows =
        |name: &str| db.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get::<_, i64>(0));
    let (samples, census) = (rows("sample")?, rows("census")? + rows("counter")?);
    let table = if census > samples { Table::Census } else { Table::Sample };
    let name = table.name();
    let half = rows(name)? / 2;
    let middle: Option<(i64, i64)> = db
        .query_row(
            &format!("SELECT rowid, time_ns FROM {name} ORDER BY rowid LIMIT 1 OFFSET {half}"),
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    let Some((end, before_ns)) = middle.filter(|_| half > 0) else { return Ok(None) };
    db.execute(
        "INSERT INTO thinning (what, before_ns, one_in) VALUES (?, ?, ?)",
        (name, before_ns, FACTOR as i64),
    )?;
    Ok(Some(Pass { table, next: 0, end }))
}

/// Thins the next rows; returns the row to go on from.
fn thin(transaction: &Transaction<'_>, pass: Pass) -> rusqlite::Result<i64> {
    let (name, worth) = (pass.table.name(), pass.table.worth());
    // Row numbers have gaps where an earlier pass has been: count rows, not numbers. The rows of one look follow each
    // other; the last look of the step is left to the next, so that none is cut in two.
    let last: i64 = transaction
        .query_row(
            &format!("SELECT rowid FROM {name} WHERE rowid >= ? ORDER BY rowid LIMIT 1 OFFSET {ROWS_A_STEP}"),
            [pass.next],
            |row| row.get(0),
        )
        .optional()?
        .map_or(pass.end, |row: i64| row.min(pass.end));
    let mut looks = transaction.prepare(&format!(
        "SELECT time_ns, {worth}, min(rowid) FROM {name} WHERE rowid BETWEEN ? AND ? GROUP BY time_ns ORDER BY min(rowid)"
    ))?;
    let looks: Vec<(i64, i64, i64)> = looks
        .query_map((pass.next, last), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let Some((&(_, _, next), whole)) = looks.split_last().filter(|(_, whole)| !whole.is_empty()) else {
        return Ok(last.max(pass.next) + 1);
    };
    let keep: Vec<i64> = whole
        .chunks(FACTOR)
        .filter_map(|group| group.iter().max_by_key(|&&(_, worth, _)| worth))
        .map(|&(time_ns, ..)| time_ns)
        .collect();
    let keep = serde_json::Value::from(keep).to_string();
    let not_kept = "NOT IN (SELECT value FROM json_each(?3))";
    transaction.execute(
        &format!("DELETE FROM {name} WHERE rowid >= ?1 AND rowid < ?2 AND time_ns {not_kept}"),
        (pass.next, next, &keep),
    )?;
    if pass.table == Table::Census {
        let times = || whole.iter().map(|look| look.0);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        transaction.execute(
            &format!("DELETE FROM counter WHERE time_ns BETWEEN ?1 AND ?2 AND time_ns {not_kept}"),
            (first, last, &keep),
        )?;
    }
    // The last look is reached again as the first of the next step, or, at the end of the pass, stays.
    Ok(if last >= pass.end { pass.end } else { next })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{CategoryBytes, Kind, NewProcess, ProcessId, Reader, Recording, Sample, Writer};

    const LOOK_NS: i64 = 100_000_000;
    const PROCESSES: i64 = 20;

    /// A recording of twenty busy processes; every tenth look has PSS. One look has a peak.
    fn record(writer: &mut Writer, looks: std::ops::Range<i64>, peak: i64, limit: u64) {
        for first in looks.clone().step_by(10) {
            writer
                .batch(|batch| {
                    for look in first..first + 10 {
                        for process in 1..=PROCESSES {
                            let rss = if look == peak { 900_000_000 } else { 200_000_000 + look as u64 };
                            batch.sample(&Sample {
                                time_ns: look * LOOK_NS,
                                process: ProcessId(process),
                                rss_bytes: Some(rss),
                                pss_bytes: (look % 10 == 0 || look == peak).then_some(rss - 1000),
                                minor_faults: Some(look as u64 * 17),
                                user_s: Some(look as f64 * 0.03),
                                system_s: Some(look as f64 * 0.01),
                                threads: Some(9),
                                ..Sample::default()
                            })?;
                        }
                    }
                    Ok(())
                })
                .unwrap();
            writer.keep_below(limit).unwrap();
        }
    }

    #[test]
    fn a_long_recording_stays_small_whole_and_keeps_its_peaks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("long.unbloat");
        let mut writer = Writer::create(&path, &Recording::begin(Kind::Record)).unwrap();
        writer
            .batch(|batch| {
                for pid in 1..=PROCESSES as i32 {
                    batch.process(&NewProcess { pid, command: "worker".into(), ..NewProcess::default() })?;
                }
                Ok(())
            })
            .unwrap();
        let limit = 2_000_000;
        record(&mut writer, 0..20_000, 123, limit);
        writer.finish(20_000 * LOOK_NS, "test", None).unwrap();

        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size < limit * 5 / 4, "{size} bytes are far more than {limit}");
        let tree = Reader::open(&path).unwrap().tree_memory().unwrap();
        assert!(tree.iter().all(|look| look.processes == PROCESSES as u64), "a look was cut in two");
        assert_eq!(tree.iter().filter_map(|look| look.pss_bytes).max(), Some((900_000_000 - 1000) * 20));
        let newest: Vec<_> = tree.iter().rev().take(100).map(|look| look.time_ns / LOOK_NS).collect();
        assert_eq!(newest, (19_900..20_000).rev().collect::<Vec<_>>(), "the newest looks are complete");
        assert!(tree[0].time_ns < 4000 * LOOK_NS, "the beginning is still there");
    }

    #[test]
    fn censuses_are_thinned_with_their_counters() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("census.unbloat");
        let mut writer = Writer::create(&path, &Recording::begin(Kind::Record)).unwrap();
        let puma = writer.batch(|b| b.process(&NewProcess { pid: 1, ..NewProcess::default() })).unwrap();
        for time_ns in 0..6000 {
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
                    batch.counter(&crate::Counter { time_ns, process: puma, name, value: 3 })
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
    }
}
