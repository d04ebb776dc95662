//! Files crafted to harm their reader, and neighbors that hold a lock: each soon ends with a sentence.
#![allow(clippy::unwrap_used)]

use rusqlite::Connection;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use unbloat_recording::{Kind, NewProcess, Sample};
use unbloat_store::{Reader, Writer, begin};

/// Time limit for refusing a hostile file on a loaded machine.
const SOON: Duration = Duration::from_secs(30);

fn recording() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    writer
        .batch(|batch| {
            let process =
                batch.process(&NewProcess { pid: 7, command: "puma".into(), ..NewProcess::default() })?;
            batch.sample(&Sample { process, rss_bytes: Some(1 << 20), ..Sample::default() })
        })
        .unwrap();
    writer.finish(1, "done", None).unwrap();
    (directory, path)
}

/// Reads the whole file and returns its error, or `Ok`; fails if that takes too long.
fn load(path: &Path) -> Result<(), String> {
    let (sender, result) = channel();
    let path = path.to_owned();
    std::thread::spawn(move || {
        let loaded = Reader::open(&path).and_then(|reader| reader.load());
        let _ = sender.send(loaded.map(drop).map_err(|error| error.to_string()));
    });
    result.recv_timeout(SOON).expect("reading goes on and on")
}

fn assert_refused(tamper: &str) {
    let (_directory, path) = recording();
    let db = Connection::open(&path).unwrap();
    db.execute_batch(tamper).unwrap();
    drop(db);
    let error = load(&path).expect_err(tamper);
    assert!(error.contains(&path.display().to_string()) && error.len() < 300, "{tamper}: {error}");
}

#[test]
fn a_view_in_place_of_a_table_is_refused() {
    assert_refused(
        "DROP TABLE sample; CREATE VIEW sample AS WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) \
         SELECT i AS time_ns, 1 AS process, i AS rss_bytes, i AS pss_bytes, i AS uss_bytes, i AS swap_bytes, \
         0 AS minor_faults, 0 AS major_faults, 0.0 AS user_s, 0.0 AS system_s, 1 AS threads FROM n",
    );
}

#[test]
fn a_virtual_or_a_generated_or_a_missing_table_is_refused() {
    assert_refused("DROP TABLE mark; CREATE VIRTUAL TABLE mark USING fts5(time_ns, name, run)");
    assert_refused(
        "DROP TABLE mark; CREATE TABLE mark (time_ns INTEGER, run INTEGER, \
         name TEXT AS (hex(zeroblob(100000000))) VIRTUAL); INSERT INTO mark (time_ns) VALUES (1)",
    );
    assert_refused("DROP TABLE sample");
    assert_refused("ALTER TABLE process RENAME COLUMN command TO commands");
}

#[test]
fn a_text_larger_than_the_file_is_refused() {
    // Rows that all claim the same megabyte, as overlapping overflow pages would.
    let (_directory, path) = recording();
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
         INSERT INTO provenance (name, value) SELECT 'n', hex(zeroblob(50000)) FROM n;",
    )
    .unwrap();
    drop(db);
    assert_eq!(load(&path), Ok(()), "an honest large file is read");
    // A b-tree in which every leaf is the same page.
    let mut bytes = std::fs::read(&path).unwrap();
    let size = u16::from_be_bytes([bytes[16], bytes[17]]) as usize;
    let mut forged = 0;
    for page in (size..bytes.len()).step_by(size) {
        if bytes[page] == 5 {
            // An interior page of a table: all its cells lead to the child of the first one.
            let cells = u16::from_be_bytes([bytes[page + 3], bytes[page + 4]]) as usize;
            let cell = |n: usize, bytes: &[u8]| {
                page + u16::from_be_bytes([bytes[page + 12 + 2 * n], bytes[page + 13 + 2 * n]]) as usize
            };
            let first = cell(0, &bytes);
            let child: [u8; 4] = bytes[first..first + 4].try_into().unwrap();
            for n in 0..cells {
                let at = cell(n, &bytes);
                bytes[at..at + 4].copy_from_slice(&child);
            }
            forged += 1;
        }
    }
    assert!(forged > 0);
    std::fs::write(&path, &bytes).unwrap();
    // Whatever SQLite makes of it, it ends.
    let _ = load(&path);
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo.unbloat");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(load(&path).unwrap_err().contains("not a regular file"));
    assert!(load(Path::new("/dev/zero")).unwrap_err().contains("not a regular file"));
}

#[test]
fn cut_and_scribbled_files_end_in_a_sentence() {
    let (_directory, path) = recording();
    let whole = std::fs::read(&path).unwrap();
    // A small generator (Knuth's MMIX constants): the same files every time.
    let mut state = 42_u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random() % 40 {
            let at = random() % bytes.len();
            bytes[at] = random() as u8;
        }
        bytes.truncate(1 + random() % bytes.len() * 2);
        std::fs::write(&path, &bytes).unwrap();
        let _ = load(&path);
    }
}

#[test]
fn reading_changes_no_byte_and_leaves_nothing_behind() {
    let (directory, path) = recording();
    let before = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    assert_eq!(load(&path), Ok(()));
    let after = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    assert!(before == after);
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["a.unbloat"]);
}

#[test]
fn nobody_else_may_read_a_recording() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    writer.batch(|batch| batch.mark(1, "deploy", None)).unwrap();
    for entry in std::fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.path());
    }
}
