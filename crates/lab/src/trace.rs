//! Memory over time for each run that counts, and its composition at the end of the load: the data of the
//! charts.

use crate::file::{FileError, Stored};
use crate::schedule::Slot;
use std::collections::BTreeMap;
use std::path::Path;
use unbloat_recording::{ProcessId, RunId};
use unbloat_store::Reader;

/// One run over time. Times are seconds since the load began, so the server's start is negative.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The run's slot.
    pub slot: Slot,
    /// PSS of the tree in bytes, in chronological order.
    pub points: Vec<(f64, f64)>,
    /// End of the load and start of the idle tail.
    pub idle_at: Option<f64>,
    /// Steps of the load: the time when each began to connect its clients, and their number. Empty if the
    /// load has none, and for files of earlier versions, which lack the times.
    pub steps: Vec<(f64, f64)>,
    /// Bytes by category of the census at the end of the load, summed over the tree: proportional bytes or,
    /// if the kernel does not report them by category, resident bytes scaled to the process's PSS.
    pub made_of: BTreeMap<String, f64>,
}

/// Returns the traces of the runs that count.
///
/// # Errors
/// The file cannot be read.
pub fn traces(path: &Path, stored: &Stored) -> Result<Vec<Trace>, FileError> {
    let reader = Reader::open(path)?;
    let runs: BTreeMap<ProcessId, RunId> =
        reader.processes()?.into_iter().filter_map(|process| Some((process.id, process.run?))).collect();
    let mut memory: BTreeMap<RunId, BTreeMap<i64, u64>> = BTreeMap::new();
    let mut scale: BTreeMap<ProcessId, Vec<(i64, f64)>> = BTreeMap::new();
    for sample in reader.samples()? {
        let (Some(&run), Some(pss)) = (runs.get(&sample.process), sample.pss_bytes) else { continue };
        *memory.entry(run).or_default().entry(sample.time_ns).or_default() += pss;
        if let Some(rss) = sample.rss_bytes.filter(|rss| *rss > 0) {
            scale.entry(sample.process).or_default().push((sample.time_ns, pss as f64 / rss as f64));
        }
    }
    let mut made_of: BTreeMap<RunId, BTreeMap<String, f64>> = BTreeMap::new();
    for row in reader.census()? {
        let Some(&run) = runs.get(&row.process) else { continue };
        let share = || scale.get(&row.process).and_then(|all| nearest(all, row.time_ns)).unwrap_or(1.0);
        let bytes = row.proportional_bytes.map_or_else(|| row.bytes as f64 * share(), |bytes| bytes as f64);
        *made_of.entry(run).or_default().entry(row.category).or_default() += bytes;
    }
    let (marks, steps) = (reader.marks()?, reader.steps()?);
    let mut traces = Vec::new();
    for (id, result) in &stored.runs {
        if result.excluded.is_some() {
            continue;
        }
        let at = |name: &str| marks.iter().find(|m| m.run == Some(*id) && m.name == name).map(|m| m.time_ns);
        let Some(load) = at("load") else { continue };
        let seconds = |time_ns: i64| (time_ns as f64 - load as f64) / 1e9;
        let points = memory.remove(id).unwrap_or_default();
        traces.push(Trace {
            slot: result.slot,
            points: points.into_iter().map(|(time, pss)| (seconds(time), pss as f64)).collect(),
            idle_at: at("idle").map(seconds),
            steps: steps
                .iter()
                .filter(|step| step.run == Some(*id) && is_within(step.started_ns, load, at("idle")))
                .filter_map(|step| Some((seconds(step.started_ns), step.name.parse().ok()?)))
                .collect(),
            made_of: made_of.remove(id).unwrap_or_default(),
        });
    }
    Ok(traces)
}

/// Returns whether a step lies within the load. Earlier versions gave every step the time of the run's end.
fn is_within(time_ns: i64, load_ns: i64, idle_ns: Option<i64>) -> bool {
    time_ns >= load_ns && idle_ns.is_some_and(|idle| time_ns <= idle)
}

fn nearest(all: &[(i64, f64)], time_ns: i64) -> Option<f64> {
    all.iter().min_by_key(|(time, _)| time.abs_diff(time_ns)).map(|(_, share)| *share)
}
