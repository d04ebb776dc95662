//! The metrics, in one table. Their names are a promise (`docs/reference/metrics.md`): a name never changes its meaning.

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A value that only grows while a process lives. Its name ends in `_total`.
    Counter,
    /// Facts as labels; the value is 1. Its name ends in `_info`.
    Info,
}

/// Defines the metrics. A row: documentation, metric, type, name, unit, its own labels, help.
macro_rules! metrics {
    ($($(#[$doc:meta])+ $metric:ident $kind:ident $name:literal $unit:literal [$($label:literal)*] $help:literal;)+) => {
        /// A metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {
            $($(#[$doc])+ $metric,)+
        }

        impl Metric {
            /// All metrics, in the order of the output.
            pub const ALL: &[Metric] = &[$(Metric::$metric),+];

            /// The name of its samples.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Metric::$metric => $name,)+ }
            }

            /// Its type.
            #[must_use]
            pub fn kind(self) -> Kind {
                match self { $(Metric::$metric => Kind::$kind,)+ }
            }

            /// Its unit, which ends its name; empty if it has none.
            #[must_use]
            pub fn unit(self) -> &'static str {
                match self { $(Metric::$metric => $unit,)+ }
            }

            /// The labels that it has beside those of its process.
            #[must_use]
            pub fn labels(self) -> &'static [&'static str] {
                match self { $(Metric::$metric => &[$($label),*],)+ }
            }

            /// Its description.
            #[must_use]
            pub fn help(self) -> &'static str {
                match self { $(Metric::$metric => $help,)+ }
            }
        }
    };
}

metrics! {
    /// RSS.
    Resident Gauge "unbloat_resident_bytes" "bytes" []
        "Resident memory (RSS). Shared pages count in full, so a sum over processes counts them several times.";
    /// PSS.
    Proportional Gauge "unbloat_proportional_bytes" "bytes" []
        "Proportional memory (PSS): a page that n processes share counts 1/n. Sums over processes are meaningful.";
    /// USS.
    Unique Gauge "unbloat_unique_bytes" "bytes" []
        "Memory that only this process has (USS).";
    /// Live bytes.
    Live Gauge "unbloat_live_bytes" "bytes" []
        "Memory that the program holds: malloc chunks in use, Ruby slots with an object.";
    /// Bloat by kind.
    Bloat Gauge "unbloat_bloat_bytes" "bytes" ["kind"]
        "Freed memory that is still resident: cached, trimmable (a trim returns it), stranded (nothing does).";
    /// Resident − bloat.
    Floor Gauge "unbloat_floor_bytes" "bytes" []
        "Resident memory without bloat.";
    /// The census.
    Memory Gauge "unbloat_memory_bytes" "bytes" ["category"]
        "Resident memory by category; the sum is the resident memory at the time of the look.";
    /// Un-shared memory.
    Unshared Gauge "unbloat_unshared_bytes" "bytes" []
        "Memory that was shared with the parent at the fork and is not any more, because one of the two wrote to it.";
    /// Bytes that the runtime returned.
    Returned Counter "unbloat_returned_bytes_total" "bytes" []
        "Memory that the runtime has returned to the system.";
    /// Trims by the runtime.
    Trims Counter "unbloat_trims_total" "" []
        "Times that the runtime has returned freed memory.";
    /// Garbage collections.
    Collections Counter "unbloat_collections_total" "" ["kind"]
        "Garbage collections that the runtime has seen: minor, major.";
    /// The limit of the control group.
    Limit Gauge "unbloat_limit_bytes" "bytes" []
        "The most memory that the process's control group may have.";
    /// Start of the process.
    StartTime Gauge "unbloat_process_start_time_seconds" "seconds" []
        "Start of the process, in seconds since 1970.";
    /// Time of the readings.
    ReadingTime Gauge "unbloat_reading_timestamp_seconds" "seconds" ["reading"]
        "Time of the latest reading, in seconds since 1970: list (resident), pss (proportional, unique), look (the rest).";
    /// Facts about the process.
    Info Info "unbloat_info" "" ["ruby" "allocator" "policy" "version"]
        "Versions of Ruby and the allocator that serve in the process, the policy in force, and the exporter's version.";
    /// Problems by code.
    Problem Gauge "unbloat_problem" "" ["code"]
        "1 for each problem with a process (or with the exporter, without a process's labels).";
    /// Duration of a look.
    LookSeconds Gauge "unbloat_look_seconds" "seconds" []
        "Time that the latest look at the process took.";
    /// Use of the budget.
    BudgetRatio Gauge "unbloat_budget_ratio" "ratio" []
        "Part of the exporter's CPU budget that it used over the last minute.";
}

impl Metric {
    /// Returns the name of its family in OpenMetrics: without the suffix of its type.
    #[must_use]
    pub fn family(self) -> &'static str {
        let suffix = match self.kind() {
            Kind::Gauge => "",
            Kind::Counter => "_total",
            Kind::Info => "_info",
        };
        self.name().strip_suffix(suffix).unwrap_or(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_conventions() {
        for metric in Metric::ALL {
            let name = metric.name();
            assert!(name.starts_with("unbloat_"), "{name}");
            assert_eq!(metric.kind() == Kind::Counter, name.ends_with("_total"), "{name}");
            assert_eq!(metric.kind() == Kind::Info, name.ends_with("_info"), "{name}");
            assert!(
                metric.family().ends_with(metric.unit()),
                "{name}: OpenMetrics wants the unit at the end"
            );
            assert!(metric.help().ends_with('.'), "{name}");
        }
    }

    #[test]
    fn the_reference_describes_each_metric_with_its_labels() {
        let reference = include_str!("../../../docs/reference/metrics.md");
        for metric in Metric::ALL {
            let row = |line: &&str| line.starts_with(&format!("| `{}` |", metric.name()));
            let row = reference.lines().find(row).unwrap_or_else(|| panic!("{} has no row", metric.name()));
            let labels: Vec<String> = metric.labels().iter().map(|label| format!("`{label}`")).collect();
            let kind = format!("{:?}", metric.kind()).to_lowercase();
            assert!(row.contains(&format!("| {kind} | {} |", labels.join(", "))), "{row}");
        }
        let rows = reference.lines().filter(|line| line.starts_with("| `unbloat_")).count();
        assert_eq!(rows, Metric::ALL.len(), "a row without a metric");
    }
}
