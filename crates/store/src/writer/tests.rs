//! Writes a file and reads it back.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::{Reader, SCHEMA_VERSION};
use unbloat_recording::{
    ClassBytes, ClassHolder, CodeBytes, HeldBy, Kind, Label, Latency, Metric, NewProcess, Owner, PathStep,
    Sample,
};

fn file(name: &str) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    (directory, path)
}

#[test]
fn a_file_whose_writer_died_goes_on_where_it_stopped() {
    let (_dir, path) = file("cut.unbloat");
    let gone = Owner { pid: 1, start_ticks: Some(1), boot_id: None };
    let header = Header { owner: Some(gone), ..begin(Kind::Experiment) };
    let mut writer = Writer::create(&path, &header).unwrap();
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
    let begun = begin(Kind::Experiment);
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
        reader.header(),
        &Header { ended_ns: Some(10), end_reason: Some("done".into()), exit_status: Some(0), ..begun }
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
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
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
    let writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
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
    let create = || Writer::create(&path, &begin(Kind::Record));
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
fn live_memory_of_rubies_is_read_back_and_older_files_have_none() {
    let (_directory, path) = file("rubies.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    let label = |kind: &str, name: &str, version: Option<&str>| Label {
        kind: kind.into(),
        name: name.into(),
        version: version.map(Into::into),
    };
    let class = ClassBytes {
        time_ns: 5,
        process: ProcessId(1),
        label: label("class", "Evil\u{1b}[2J", None),
        objects: 3,
        slot_bytes: 120,
        malloc_bytes: None,
    };
    let code = CodeBytes {
        time_ns: 5,
        process: ProcessId(1),
        label: label("gem", "rack", Some("2.2.4")),
        sequences: 4,
        slot_bytes: 160,
        malloc_bytes: Some(4000),
    };
    let held = HeldBy {
        what: "Array[3]".into(),
        objects: 2,
        bytes: 80,
        retained_bytes: 200,
        retained_objects: 9,
        path: vec![PathStep { by: "@@list".into(), what: "Array[3]".into() }],
    };
    let holder = |holder| ClassHolder {
        time_ns: 6,
        process: ProcessId(1),
        label: class.label.clone(),
        objects: 3,
        bytes: 120,
        holder,
    };
    let holders = [holder(Some(held)), holder(None)];
    writer
        .batch(|batch| {
            batch.process(&NewProcess { pid: 9, ..NewProcess::default() })?;
            batch.class_bytes(&class)?;
            batch.code_bytes(&code)?;
            holders.iter().try_for_each(|holder| batch.holder(holder))
        })
        .unwrap();
    writer.finish(7, "test", None).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.class_census().unwrap(), [class]);
    assert_eq!(reader.code_census().unwrap(), [code]);
    assert_eq!(reader.holders().unwrap(), holders);
    drop(reader);

    let db = rusqlite::Connection::open(&path).unwrap();
    // A path that somebody else wrote may be anything.
    db.execute_batch("UPDATE holder SET path = '[{\"by\": 3}'").unwrap();
    assert_eq!(Reader::open(&path).unwrap().holders().unwrap()[0].holder.as_ref().unwrap().path, []);
    db.execute_batch("DROP TABLE class_census; DROP TABLE code_census; DROP TABLE holder").unwrap();
    assert!(Reader::open(&path).unwrap().load().unwrap().rubies.is_empty());
}
