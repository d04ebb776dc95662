//! Thinning of long recordings.
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use super::ROWS_A_STEP;
use crate::{Reader, Writer, begin};
use unbloat_recording::{
    CategoryBytes, CgroupMemory, ClassBytes, CodeBytes, Cost, Counter, Kind, Label, NewProcess, ProcessId,
    Sample,
};

const LOOK_NS: i64 = 100_000_000;
const PROCESSES: i64 = 20;

/// Creates one look at twenty busy workers with saw-tooth memory. Every hundredth has PSS, and two stand out.
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

/// Records a number of looks with a limit, using the writer like the sampler does: one transaction per
/// quarter of a second, and additional rows every second.
fn record_and_check(looks: i64, limit: u64, rows_a_step: i64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("long.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    writer.thinner.rows_a_step = rows_a_step;
    let workers = (1..=PROCESSES as i32).map(|pid| NewProcess { pid, ..NewProcess::default() });
    writer.batch(|batch| workers.map(|new| batch.process(&new)).collect::<crate::Result<Vec<_>>>()).unwrap();
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
    // The past is kept at one resolution from its start.
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

/// A whole day of twenty processes at 100 ms: 17 million rows, about a minute in a release build.
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
                    batch.census(&CategoryBytes { time_ns, process, category, bytes, proportional_bytes })?;
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

#[test]
fn looks_at_classes_are_thinned_with_the_code_of_the_same_look() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("classes.unbloat");
    let mut writer = Writer::create(&path, &begin(Kind::Record)).unwrap();
    let puma = writer.batch(|b| b.process(&NewProcess { pid: 1, ..NewProcess::default() })).unwrap();
    let label = |kind: &str, name: String| Label { kind: kind.into(), name: name.into(), version: None };
    let mut largest = 0;
    for n in 0..400i64 {
        let time_ns = n * 30_000_000_000;
        let bytes = if n == 57 { 1 << 40 } else { 1 << 20 };
        writer
            .batch(|batch| {
                for class in 0..60 {
                    batch.class_bytes(&ClassBytes {
                        time_ns,
                        process: puma,
                        label: label("class", format!("Shop::Class{class}")),
                        objects: 10,
                        slot_bytes: bytes,
                        malloc_bytes: (class > 0).then_some(bytes),
                    })?;
                }
                batch.code_bytes(&CodeBytes {
                    time_ns,
                    process: puma,
                    label: label("gem", "rack".to_owned()),
                    sequences: 5,
                    slot_bytes: 400,
                    malloc_bytes: Some(8000),
                })
            })
            .unwrap();
        writer.keep_below(600_000).unwrap();
        largest = largest.max(std::fs::metadata(&path).unwrap().len());
    }
    assert!(largest < 600_000, "{largest}");
    let reader = Reader::open(&path).unwrap();
    let (classes, code) = (reader.class_census().unwrap(), reader.code_census().unwrap());
    let times: std::collections::BTreeSet<_> = classes.iter().map(|row| row.time_ns).collect();
    assert_eq!(classes.len(), times.len() * 60, "a look was cut in two");
    let of_code: std::collections::BTreeSet<_> = code.iter().map(|row| row.time_ns).collect();
    assert_eq!(of_code, times);
    assert!(times.contains(&(57 * 30_000_000_000)), "the largest look is kept");
    assert!(times.len() > 40 && times.len() < 400, "{}", times.len());
}
