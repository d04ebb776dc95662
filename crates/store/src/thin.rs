//! Keeps a long recording below a size limit by thinning its past.
//!
//! When the file nears its limit, everything except its newest looks is put on a grid of time. Of all looks
//! within one bucket of the grid, those with the most RSS, the least RSS and the most PSS are kept, so peaks
//! and the feet of saw-teeth survive at any length. Of censuses the largest and the smallest are kept, with
//! their counters; of looks at classes the same, with the code of the same look. Looks are kept or removed as a whole, so sums over the tree at a moment remain right; CPU
//! and faults count from a process's start and stay exact at the remaining looks.
//!
//! The buckets start at one second and double as often as needed to halve the data, so the whole past is kept
//! at one resolution: a day does not lose its morning. A bucket that is thinned again at twice its width
//! keeps the same extremes as if it had been thinned at once. Thinning proceeds in small steps, so that the
//! writer is never held up.

use crate::fold::fold;
use crate::later::has_table;
use rusqlite::{Connection, OptionalExtension as _, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// Width of the narrowest bucket.
const FIRST_BUCKET_NS: i64 = 1_000_000_000;

/// Maximum number of looks kept per bucket.
const KEPT: i64 = 3;

/// Inverse share of the rows, the newest ones, that are not thinned.
const NEWEST: i64 = 10;

/// Rows per step, so that a writer is not held up for longer than a few tens of milliseconds.
const ROWS_A_STEP: i64 = 20_000;

/// The tables that grow without bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Sample,
    Census,
    Classes,
}

impl Table {
    fn name(self) -> &'static str {
        match self {
            Table::Sample => "sample",
            Table::Census => "census",
            Table::Classes => "class_census",
        }
    }

    /// The memory of a look: the figure that is always available, and the one that sometimes is.
    fn memory(self) -> &'static str {
        match self {
            Table::Sample => "coalesce(sum(rss_bytes), 0), sum(pss_bytes)",
            Table::Census => "sum(bytes), NULL",
            Table::Classes => "sum(slot_bytes) + coalesce(sum(malloc_bytes), 0), NULL",
        }
    }

    /// The table whose rows come with those of this one, and go with them.
    fn companion(self) -> Option<&'static str> {
        match self {
            Table::Sample => None,
            Table::Census => Some("counter"),
            Table::Classes => Some("code_census"),
        }
    }
}

/// A look at the tree, whose rows are consecutive.
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
    /// Bytes in use when the last pass ended, plus a margin: if thinning does not help, it is not retried
    /// after every batch.
    tried_bytes: u64,
}

impl Default for Thinner {
    fn default() -> Self {
        Thinner { rows_a_step: ROWS_A_STEP, pass: None, tried_bytes: 0 }
    }
}

/// Rows from `next` up to `end` (of `rowid`) that are still to be put into buckets.
#[derive(Debug, Clone, Copy)]
struct Pass {
    table: Table,
    bucket_ns: i64,
    next: i64,
    end: i64,
}

impl Thinner {
    /// Takes one step: starts a pass if the file nears its limit, or continues the current one.
    pub(crate) fn step(&mut self, db: &mut Connection, limit_bytes: u64) -> rusqlite::Result<()> {
        // Data written during a pass needs space, too.
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
            // With extremely many processes, data may arrive faster than one step removes it; then the step
            // takes longer.
            if used < limit_bytes / 10 * 9 {
                break;
            }
        }
        Ok(())
    }
}

/// Returns the bytes of the file in use; free pages are reused before it grows.
fn used_bytes(db: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok(u64::try_from(pages * pragma("page_size")?).unwrap_or(0))
}

/// Chooses the largest table, and buckets wide enough to halve it.
fn begin(db: &mut Connection) -> rusqlite::Result<Option<Pass>> {
    let rows =
        |name: &str| db.query_row(&format!("SELECT count(*) FROM {name}"), [], |row| row.get::<_, i64>(0));
    let mut table = (rows("sample")?, Table::Sample);
    for of in [Table::Census, Table::Classes] {
        let Some(companion) = of.companion().filter(|_| has_table(db, of.name()).unwrap_or(false)) else {
            continue;
        };
        let both = rows(of.name())? + rows(companion)?;
        if both > table.0 {
            table = (both, of);
        }
    }
    let (_, table) = table;
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
        // Something else takes the space.
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

/// Counts the looks before a row, by the changes of time from row to row.
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

/// Thins the rows that are written once per second regardless of the tree: each bucket keeps the last of
/// cumulative figures and the maximum of measured ones.
fn thin_accounts(transaction: &Transaction<'_>, before_ns: i64, bucket_ns: i64) -> rusqlite::Result<()> {
    transaction.execute(
        "DELETE FROM cost WHERE time_ns < ?1 AND rowid NOT IN (SELECT max(rowid) FROM cost GROUP BY time_ns / ?2)",
        (before_ns, bucket_ns),
    )?;
    // For a grouped max() SQLite takes the other columns from the row with the maximum
    // (sqlite.org/lang_select.html, "Bare columns in an aggregate query").
    transaction.execute(
        "DELETE FROM cgroup WHERE time_ns < ?1 AND rowid NOT IN \
         (SELECT id FROM (SELECT rowid AS id, max(current_bytes) FROM cgroup GROUP BY path, time_ns / ?2))",
        (before_ns, bucket_ns),
    )?;
    Ok(())
}

/// Thins the next rows; returns the row to continue from.
fn thin(transaction: &Transaction<'_>, pass: Pass, rows: i64) -> rusqlite::Result<i64> {
    let name = pass.table.name();
    // Row numbers have gaps from earlier passes, so count rows, not numbers.
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
        if let Some(companion) = pass.table.companion() {
            let times = || gone.iter().chain(&kept).map(|look| look.time_ns);
            transaction.execute(
                &format!("DELETE FROM {companion} WHERE time_ns BETWEEN ?1 AND ?2 AND {not_kept}"),
                (times().min(), times().max(), &keep),
            )?;
        }
    }
    // The rest of the last bucket stays unchanged at the end of the pass.
    Ok(if last >= pass.end { pass.end } else { next })
}

/// Returns the looks of the rows from `pass.next` to `last`, in the order of writing.
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

/// Returns the start of the last bucket, which may continue after the rows that were read and is left to the
/// next step. A bucket larger than a step is thinned in pieces; the last look of a piece may be cut, and is
/// left as well.
fn first_of_last_bucket(looks: &[Look], pass: Pass) -> Option<i64> {
    let last = looks.last()?;
    let same = |look: &&Look| look.time_ns / pass.bucket_ns == last.time_ns / pass.bucket_ns;
    let first_row = looks.iter().find(same).map(|look| look.first_row);
    [first_row, Some(last.first_row)].into_iter().flatten().find(|&row| row > pass.next)
}

/// Returns the times of the looks to keep.
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
