//! Keeps a long recording below a size by thinning its past.
//!
//! When the file comes near its limit, everything but its newest looks is put on a grid of time: of all looks within
//! one bucket of the grid the ones with the most RSS, the least RSS and the most PSS stay, so peaks and the feet of saw-teeth
//! survive at any length. Of censuses the largest and the smallest stay, with their counters. Whole looks go or stay, so
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

/// The tables that grow without bound.
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

/// Progress of thinning.
#[derive(Debug)]
pub(crate) struct Thinner {
    pub(crate) rows_a_step: i64,
    pass: Option<Pass>,
    /// Bytes in use when the last pass ended, and a little more: where thinning does not help, it is not tried anew
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

/// Thins the rows that are written once a second whatever the tree does: the last of each bucket stays of what is summed up, the most of
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

/// Beginning of the bucket that may go on behind the rows that were read: it is left to the next step. A bucket larger
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
mod tests;
