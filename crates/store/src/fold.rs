//! Folds processes that have nothing left except their row into a count.
//!
//! A server that runs programs has a row of 130 to 220 bytes for each of them: one per second makes 11 to 19
//! MB a day, eight per second 100 MB. So when a file nears its limit, processes that ended some time ago and
//! have no remaining sample, census or counter are removed, and the table `folded` keeps their number and
//! total CPU, minute by minute (a row of some 30 bytes: 16 MB a year). The number of remaining processes is
//! bounded by the samples, which are thinned.
//!
//! Ancestors of remaining processes are kept, and so is everything that belongs to the run of an experiment.
//! Marks are not thinned: a user made each of them, and a thousand a day make 50 KB.

use crate::later::has_table;
use rusqlite::Connection;

/// Minimum number of processes worth folding.
const FEWEST: i64 = 1000;

/// Time for which samples or censuses of an ended process may still be on their way to the file: the duration
/// of a census of a very large tree.
const LATE_NS: i64 = 600_000_000_000;

/// The time span that is counted together.
const MINUTE_NS: i64 = 60_000_000_000;

/// Folds all eligible processes.
pub(crate) fn fold(db: &mut Connection) -> rusqlite::Result<()> {
    let sql = "SELECT max(time_ns) FROM sample";
    let Some(now_ns) = db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0))? else { return Ok(()) };
    let before_ns = now_ns - LATE_NS;
    let sql = "SELECT count(*) FROM process WHERE run IS NULL AND ended_ns < ?";
    let ended: i64 = db.query_row(sql, [before_ns], |row| row.get(0))?;
    if ended < FEWEST || !has_table(db, "folded")? {
        return Ok(());
    }
    // SQLite would search all samples for every removed row, although the rows are chosen for having none.
    // The switch has no effect within a transaction.
    db.pragma_update(None, "foreign_keys", false)?;
    let folded = fold_before(db, before_ns);
    db.pragma_update(None, "foreign_keys", true)?;
    folded
}

fn fold_before(db: &mut Connection, before_ns: i64) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    let mut rows_of =
        "SELECT process FROM sample UNION SELECT process FROM census UNION SELECT process FROM counter"
            .to_owned();
    for table in ["class_census", "code_census", "holder"] {
        if has_table(&transaction, table)? {
            rows_of += &format!(" UNION SELECT process FROM {table}");
        }
    }
    transaction.execute_batch("CREATE TEMP TABLE gone (id INTEGER PRIMARY KEY)")?;
    transaction.execute(
        &format!(
            "INSERT INTO gone WITH RECURSIVE kept (id) AS ( \
                 SELECT id FROM process WHERE run IS NOT NULL OR ended_ns IS NULL OR ended_ns >= ? \
                 UNION {rows_of} \
                 UNION SELECT parent FROM process JOIN kept USING (id) WHERE parent IS NOT NULL) \
             SELECT id FROM process WHERE id NOT IN (SELECT id FROM kept)"
        ),
        [before_ns],
    )?;
    transaction.execute(
        "INSERT INTO folded (time_ns, processes, user_s, system_s) \
         SELECT min(ended_ns) / ?1 * ?1, count(*), total(user_s), total(system_s) \
         FROM process JOIN gone USING (id) GROUP BY ended_ns / ?1",
        [MINUTE_NS],
    )?;
    transaction.execute_batch("DELETE FROM process WHERE id IN (SELECT id FROM gone); DROP TABLE gone")?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Reader, Writer, begin};
    use unbloat_recording::{Kind, NewProcess, Process, ProcessEnd, ProcessId, Sample};

    const SECOND_NS: i64 = 1_000_000_000;

    /// Records a server that starts three shells per second, each of which starts a program. They are gone
    /// before they are sampled, except for one program per hour. Returns the maximum size of the file.
    fn record(mut writer: Writer, seconds: i64, limit: u64) -> u64 {
        let path = writer.path().to_owned();
        let mut largest = 0;
        let new = |pid: i32, parent: Option<ProcessId>, first_seen_ns: i64| NewProcess {
            pid,
            parent,
            first_seen_ns,
            start_ticks: Some(first_seen_ns as u64),
            command: "convert upload.jpg -resize 800x600 thumbnail.webp".into(),
            ..NewProcess::default()
        };
        let server = writer.batch(|batch| batch.process(&new(1, None, 0))).unwrap();
        for second in 0..seconds {
            let time_ns = second * SECOND_NS;
            writer
                .batch(|batch| {
                    let sample = |process| {
                        batch.sample(&Sample {
                            time_ns,
                            process,
                            rss_bytes: Some(1 << 30),
                            ..Sample::default()
                        })
                    };
                    sample(server)?;
                    for n in 0..3 {
                        let pid = 10 + (second * 3 + n) as i32 * 2;
                        let shell = batch.process(&new(pid, Some(server), time_ns))?;
                        let program = batch.process(&new(pid + 1, Some(shell), time_ns))?;
                        if second % 3600 == 100 && n == 0 {
                            sample(program)?;
                        }
                        let end = ProcessEnd {
                            ended_ns: time_ns + SECOND_NS / 10,
                            user_s: Some(0.25),
                            system_s: Some(0.125),
                            ..ProcessEnd::default()
                        };
                        batch.process_ended(program, &end)?;
                        batch.process_ended(shell, &ProcessEnd { user_s: None, ..end })?;
                    }
                    Ok(())
                })
                .unwrap();
            writer.keep_below(limit).unwrap();
            if second % 100 == 0 {
                largest = largest.max(std::fs::metadata(&path).unwrap().len());
            }
        }
        writer.finish(seconds * SECOND_NS, "test", None).unwrap();
        largest.max(std::fs::metadata(&path).unwrap().len())
    }

    #[test]
    fn the_short_lived_are_counted_and_not_kept_for_ever() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("forks.unbloat");
        let writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
        let largest = record(writer, 7200, 2_000_000);
        assert!(largest < 2_000_000, "{largest}");
        let reader = Reader::open(&path).unwrap();
        let (processes, folded) = (reader.processes().unwrap(), reader.folded().unwrap());
        let gone: u64 = folded.iter().map(|row| row.processes).sum();
        assert_eq!(processes.len() as u64 + gone, 1 + 7200 * 6);
        assert!(gone > 20_000, "{gone}");
        let lives = |seconds: fn(&Process) -> Option<f64>| -> f64 {
            processes.iter().filter_map(seconds).sum::<f64>()
        };
        let user_s = lives(|p| p.user_s) + folded.iter().map(|row| row.user_s).sum::<f64>();
        let system_s = lives(|p| p.system_s) + folded.iter().map(|row| row.system_s).sum::<f64>();
        assert_eq!((user_s, system_s), (7200.0 * 3.0 * 0.25, 7200.0 * 6.0 * 0.125));
        // Each minute of removed processes, once per pass over it.
        assert!(folded.iter().all(|row| row.time_ns % super::MINUTE_NS == 0));
        assert!(folded.len() < 240, "{} rows", folded.len());
        // Each sample has its process, and each process its ancestors.
        let known = |id: ProcessId| processes.iter().any(|process| process.id == id);
        assert!(reader.samples().unwrap().iter().all(|sample| known(sample.process)));
        assert!(processes.iter().filter_map(|process| process.parent).all(known));
        // The end of the recording is complete.
        let last = processes.iter().filter(|process| process.first_seen_ns >= 6600 * SECOND_NS).count();
        assert_eq!(last, 600 * 6);
    }

    #[test]
    fn a_file_from_before_is_thinned_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("old.unbloat");
        drop(Writer::create(&path, &begin(Kind::Record)).unwrap());
        rusqlite::Connection::open(&path).unwrap().execute_batch("DROP TABLE folded").unwrap();
        record(Writer::join(&path).unwrap(), 1200, 300_000);
        let reader = Reader::open(&path).unwrap();
        assert_eq!((reader.folded().unwrap(), reader.processes().unwrap().len()), (Vec::new(), 1 + 1200 * 6));
    }
}
