//! A snapshot as samples of the metrics.
//!
//! Unknown values are absent: a process that may not be read has its resident memory, its start and
//! `unbloat_problem`, and nothing else.

use crate::Metric;
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;
use unbloat_heap::model::{Allocator, AllocatorKind, FindingCode, ProcessReport};
use unbloat_record::monitor::{Look, Seen, Snapshot};

/// A label: its name and value.
pub type Label = (&'static str, String);

/// One sample of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels, unique within the metric.
    pub labels: Vec<Label>,
    /// Its value.
    pub value: f64,
}

/// The samples by metric.
pub type Families = BTreeMap<Metric, Vec<Sample>>;

/// Code of a policy that is not live in a process that was started with it.
const POLICY_NOT_LIVE: &str = "policy-not-live";
/// Code of a list of processes that could not be read.
const NO_PROCESSES: &str = "no-processes";

/// Returns the samples of a snapshot. `version` is the exporter's own.
#[must_use]
pub fn families(snapshot: &Snapshot, version: &str) -> Families {
    let mut families = Families::new();
    for seen in snapshot.processes.values() {
        let mut process = Process { labels: labels(seen), families: &mut families };
        process.always(seen);
        if let Some(look) = &seen.look {
            process.value(Metric::ReadingTime, &[("reading", "look")], unix_s(look.at));
            process.look(&look.value, version);
        }
        process.problems(seen);
    }
    let mut exporter = Process { labels: Vec::new(), families: &mut families };
    if snapshot.problem.is_some() {
        exporter.value(Metric::Problem, &[("code", NO_PROCESSES)], 1.0);
    }
    if let Some(used) = snapshot.cost.used.filter(|_| snapshot.cost.budget > 0.0) {
        exporter.value(Metric::BudgetRatio, &[], used / snapshot.cost.budget);
    }
    families
}

/// Returns the labels of a process: none of them is its PID, which would make a new series for each that ever lived.
fn labels(seen: &Seen) -> Vec<Label> {
    let place = &seen.place;
    let optional = [
        ("role", seen.role.role.map(str::to_owned)),
        ("pod", place.pod.clone()),
        ("container", place.container.clone()),
        ("unit", place.unit.clone()),
    ];
    let always = [("program", seen.role.name.clone()), ("worker", seen.number.to_string())];
    always.into_iter().chain(optional.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
}

/// The samples of one process.
struct Process<'a> {
    labels: Vec<Label>,
    families: &'a mut Families,
}

impl Process<'_> {
    fn value(&mut self, metric: Metric, own: &[(&'static str, &str)], value: f64) {
        let own = own.iter().map(|&(name, value)| (name, value.to_owned()));
        let labels = self.labels.iter().cloned().chain(own).collect();
        self.families.entry(metric).or_default().push(Sample { labels, value });
    }

    fn bytes(&mut self, metric: Metric, own: &[(&'static str, &str)], bytes: Option<u64>) {
        if let Some(bytes) = bytes {
            self.value(metric, own, bytes as f64);
        }
    }

    /// The figures that need no look.
    fn always(&mut self, seen: &Seen) {
        self.bytes(Metric::Resident, &[], Some(seen.rss_bytes.value));
        self.value(Metric::StartTime, &[], seen.started_unix_s);
        self.value(Metric::ReadingTime, &[("reading", "list")], unix_s(seen.rss_bytes.at));
        if let Some(memory) = &seen.memory {
            self.bytes(Metric::Proportional, &[], Some(memory.value.pss_bytes));
            self.bytes(Metric::Unique, &[], Some(memory.value.uss_bytes));
            self.value(Metric::ReadingTime, &[("reading", "pss")], unix_s(memory.at));
        }
    }

    fn look(&mut self, look: &Look, version: &str) {
        let (report, census) = (&look.report, &look.report.census);
        self.bytes(Metric::Live, &[], census.is_walked().then(|| census.live()));
        let kinds =
            [("cached", census.cached()), ("trimmable", census.trimmable()), ("stranded", census.stranded())];
        for (kind, bytes) in kinds {
            self.bytes(Metric::Bloat, &[("kind", kind)], bytes);
        }
        self.bytes(Metric::Floor, &[], report.floor_bytes());
        for (category, bytes) in census.iter() {
            self.bytes(Metric::Memory, &[("category", category.name().as_str())], Some(bytes));
        }
        self.bytes(Metric::Unshared, &[], look.sharing.map(|sharing| sharing.unshared_bytes));
        if let Some(counters) = look.counters {
            self.bytes(Metric::Returned, &[], Some(counters.returned_bytes));
            self.bytes(Metric::Trims, &[], Some(counters.trims));
            self.bytes(Metric::Collections, &[("kind", "minor")], Some(counters.minor_collections));
            self.bytes(Metric::Collections, &[("kind", "major")], Some(counters.major_collections));
        }
        self.bytes(Metric::Limit, &[], look.limit_bytes);
        self.value(Metric::LookSeconds, &[], report.elapsed.as_secs_f64());
        self.info(look, version);
    }

    fn info(&mut self, look: &Look, version: &str) {
        let ruby = look.report.ruby.as_ref().map(|ruby| ruby.version.clone());
        let allocator = look.report.allocator.as_ref().and_then(allocator);
        let policy = look.policy.as_ref().map(|policy| policy.shown());
        let known = [("ruby", ruby), ("allocator", allocator), ("policy", policy)];
        let known: Vec<_> =
            known.iter().filter_map(|(name, value)| Some((*name, value.as_deref()?))).collect();
        self.value(Metric::Info, &[&known[..], &[("version", version)]].concat(), 1.0);
    }

    fn problems(&mut self, seen: &Seen) {
        let mut codes: BTreeSet<&str> = seen.unread.clone();
        if let Some(look) = seen.look.as_ref().map(|look| &look.value) {
            codes.extend((!look.not_live.is_empty()).then_some(POLICY_NOT_LIVE));
            codes.extend(asked_in_vain(&look.report));
        }
        for code in codes {
            self.value(Metric::Problem, &[("code", code)], 1.0);
        }
    }
}

/// Returns the code of an allocator that was asked for and does not serve.
fn asked_in_vain(report: &ProcessReport) -> Option<&'static str> {
    let code = FindingCode::JemallocNotLoaded;
    report.verdict.iter().any(|finding| finding.code == code).then(|| code.name())
}

fn allocator(allocator: &Allocator) -> Option<String> {
    let name = allocator.kind.name();
    let known = allocator.kind != AllocatorKind::Unknown;
    known.then(|| allocator.version.as_ref().map_or(name.to_owned(), |version| format!("{name} {version}")))
}

fn unix_s(at: SystemTime) -> f64 {
    // Whole milliseconds: more digits are noise.
    let ms = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_millis());
    ms as f64 / 1000.0
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use unbloat_heap::model::{Category, Census, RubyHeap, RubyType, Sharing};
    use unbloat_record::monitor::{Cost, Counters, Identity, Memory, Place, Role, Taken};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn seen(pid: i32, role: Role, number: u32) -> Seen {
        Seen {
            id: Identity { pid: unbloat_process::Pid(pid), start_ticks: 1 },
            parent: unbloat_process::Pid(1),
            command: "puma".into(),
            role,
            number,
            place: Place::default(),
            started_unix_s: 1_700_000_000.25,
            rss_bytes: Taken { at: at(1_700_000_100), value: 100 << 20 },
            memory: None,
            look: None,
            unread: BTreeSet::new(),
        }
    }

    fn report() -> ProcessReport {
        let mut census = Census::of_walked_heap();
        census.add_all([
            (Category::RubyLive(RubyType::String), 10 << 20),
            (Category::MallocLive, 40 << 20),
            (Category::MallocCached, 1 << 20),
            (Category::MallocTrimmable, 20 << 20),
            (Category::MallocStranded, 8 << 20),
            (Category::MallocHoles, 1 << 20),
            (Category::LibrariesShared, 20 << 20),
        ]);
        ProcessReport {
            pid: unbloat_process::Pid(10),
            parent: None,
            command: "puma".into(),
            rss_bytes: 100 << 20,
            pss_bytes: None,
            uss_bytes: None,
            swap_bytes: None,
            threads: 5,
            census,
            proportional: None,
            sharing: None,
            allocator: Some(Allocator {
                kind: AllocatorKind::Glibc,
                version: Some("2.36".into()),
                evidence: String::new(),
                settings: None,
                arenas: Vec::new(),
                bins: Vec::new(),
                asked: unbloat_heap::model::JemallocRequest::default(),
            }),
            ruby: Some(RubyHeap { version: "3.3.0".into(), ..RubyHeap::default() }),
            runtime: None,
            ownership: None,
            map: None,
            verdict: Vec::new(),
            notes: Vec::new(),
            stopped: Duration::ZERO,
            elapsed: Duration::from_millis(120),
        }
    }

    /// A worker of which everything is known, and one that may not be read.
    pub(crate) fn snapshot() -> Snapshot {
        let role = |index| Role { name: "puma".into(), role: Some("worker"), index: Some(index) };
        let mut known = seen(10, role(0), 0);
        known.memory =
            Some(Taken { at: at(1_700_000_099), value: Memory { pss_bytes: 60 << 20, uss_bytes: 50 << 20 } });
        known.place.pod = Some("3f1c6a9e-7d5b-4f0a-9a55-0c1d2e3f4a5b".into());
        let sharing =
            Some(Sharing { parent: unbloat_process::Pid(9), shared_bytes: 1, unshared_bytes: 7 << 20 });
        let counters =
            Counters { returned_bytes: 5 << 20, trims: 3, minor_collections: 40, major_collections: 2 };
        known.look = Some(Taken {
            at: at(1_700_000_090),
            value: Arc::new(Look {
                report: report(),
                sharing,
                counters: Some(counters),
                limit_bytes: Some(512 << 20),
                policy: Some("lean".into()),
                not_live: vec!["libunbloat.so is not mapped".into()],
                cpu_s: 0.1,
            }),
        });
        let mut closed = seen(11, role(1), 1);
        closed.unread = BTreeSet::from(["not-permitted"]);
        let processes = [known, closed].map(|seen| (seen.id, seen)).into();
        Snapshot { processes, listed: None, problem: None, cost: Cost { budget: 0.02, used: Some(0.005) } }
    }

    fn of_worker(families: &Families, metric: Metric, worker: &str) -> Vec<f64> {
        let samples = families.get(&metric).into_iter().flatten();
        let own =
            samples.filter(|s| s.labels.iter().any(|(name, value)| *name == "worker" && value == worker));
        own.map(|sample| sample.value).collect()
    }

    #[test]
    fn what_is_not_known_is_absent() {
        let families = families(&snapshot(), "0.1.0");
        let none = |metric| of_worker(&families, metric, "1").is_empty();
        for &metric in Metric::ALL {
            let known = [Metric::Resident, Metric::StartTime, Metric::ReadingTime, Metric::Problem];
            assert_eq!(none(metric), !known.contains(&metric), "{metric:?}");
            let of_exporter = metric == Metric::BudgetRatio;
            assert_eq!(of_worker(&families, metric, "0").is_empty(), of_exporter, "{metric:?}");
        }
        assert_eq!(families[&Metric::BudgetRatio][0].value, 0.25);
    }

    #[test]
    fn series_are_unique_and_their_labels_are_those_of_the_table() {
        let families = families(&snapshot(), "0.1.0");
        for (metric, samples) in &families {
            let mut seen = BTreeSet::new();
            for sample in samples {
                assert!(seen.insert(format!("{:?}", sample.labels)), "{metric:?} {:?}", sample.labels);
                let of_process = ["program", "worker", "role", "pod", "container", "unit"];
                let own =
                    sample.labels.iter().map(|(name, _)| name).filter(|name| !of_process.contains(name));
                assert!(
                    own.clone().all(|name| metric.labels().contains(name)),
                    "{metric:?} {:?}",
                    sample.labels
                );
            }
        }
    }

    #[test]
    fn the_categories_sum_to_what_was_resident_at_the_look() {
        let snapshot = snapshot();
        let families = families(&snapshot, "0.1.0");
        let sum: f64 = of_worker(&families, Metric::Memory, "0").iter().sum();
        let look = snapshot.processes.values().next().unwrap().look.as_ref().unwrap();
        assert_eq!(sum, look.value.report.census.total() as f64);
        let bloat: f64 = of_worker(&families, Metric::Bloat, "0").iter().sum();
        assert_eq!(Some(bloat), look.value.report.bloat_bytes().map(|bytes| bytes as f64));
    }
}
