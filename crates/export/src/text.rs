//! The two text formats: Prometheus' own (0.0.4) and OpenMetrics 1.0.
//!
//! Sources: <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>.

use crate::families::{Families, Label};
use crate::metric::Kind;
use std::fmt::Write as _;

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, which `promtool check metrics` reads.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// Chooses the format by the header `Accept` of a request: OpenMetrics for whoever names it.
    #[must_use]
    pub fn accepted(accept: &str) -> Self {
        let wanted = |range: &str| {
            let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
            let refused = parameters.split(';').any(|parameter| parameter.trim() == "q=0");
            kind.trim().eq_ignore_ascii_case("application/openmetrics-text") && !refused
        };
        if accept.split(',').any(wanted) { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// Returns the value of the header `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Renders samples.
#[must_use]
pub fn text(families: &Families, format: Format) -> String {
    let mut text = String::new();
    for (metric, samples) in families {
        let (family, kind) = match (format, metric.kind()) {
            (Format::OpenMetrics, Kind::Gauge) => (metric.family(), "gauge"),
            (Format::OpenMetrics, Kind::Counter) => (metric.family(), "counter"),
            (Format::OpenMetrics, Kind::Info) => (metric.family(), "info"),
            (Format::Prometheus, Kind::Counter) => (metric.name(), "counter"),
            (Format::Prometheus, Kind::Gauge | Kind::Info) => (metric.name(), "gauge"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {family} {}\n# TYPE {family} {kind}", metric.help());
        if format == Format::OpenMetrics && !metric.unit().is_empty() {
            let _ = writeln!(text, "# UNIT {family} {}", metric.unit());
        }
        for sample in samples {
            let _ = writeln!(text, "{}{} {}", metric.name(), labels(&sample.labels), sample.value);
        }
    }
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

fn labels(labels: &[Label]) -> String {
    let written: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if written.is_empty() { String::new() } else { format!("{{{}}}", written.join(",")) }
}

/// Escapes a label's value, the same way in both formats.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use crate::families::{Sample, families, tests::snapshot};

    fn small() -> Families {
        let sample = |labels: &[(&'static str, &str)], value| Sample {
            labels: labels.iter().map(|&(name, value)| (name, value.to_owned())).collect(),
            value,
        };
        Families::from([
            (Metric::Resident, vec![sample(&[("program", "a\\b\"c\nd"), ("worker", "0")], 104_857_600.0)]),
            (Metric::Trims, vec![sample(&[], 3.0)]),
            (Metric::Info, vec![sample(&[("ruby", "3.3.0")], 1.0)]),
        ])
    }

    #[test]
    fn prometheus_names_each_sample_in_full() {
        let resident = Metric::Resident.help();
        assert_eq!(
            text(&small(), Format::Prometheus),
            format!(
                "# HELP unbloat_resident_bytes {resident}\n# TYPE unbloat_resident_bytes gauge\n\
                 unbloat_resident_bytes{{program=\"a\\\\b\\\"c\\nd\",worker=\"0\"}} 104857600\n\
                 # HELP unbloat_trims_total {}\n# TYPE unbloat_trims_total counter\nunbloat_trims_total 3\n\
                 # HELP unbloat_info {}\n# TYPE unbloat_info gauge\nunbloat_info{{ruby=\"3.3.0\"}} 1\n",
                Metric::Trims.help(),
                Metric::Info.help()
            )
        );
    }

    #[test]
    fn openmetrics_names_families_units_and_the_end() {
        let text = text(&small(), Format::OpenMetrics);
        for line in [
            "# TYPE unbloat_resident_bytes gauge",
            "# UNIT unbloat_resident_bytes bytes",
            "# TYPE unbloat_trims counter",
            "unbloat_trims_total 3",
            "# TYPE unbloat info",
            "unbloat_info{ruby=\"3.3.0\"} 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
        assert!(text.ends_with("\n# EOF\n") && !text.contains("# UNIT unbloat_trims"), "{text}");
    }

    #[test]
    fn the_format_is_the_one_that_was_asked_for() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for other in ["", "*/*", "text/plain", "application/openmetrics-text;q=0"] {
            assert_eq!(Format::accepted(other), Format::Prometheus, "{other}");
        }
    }

    #[test]
    fn numbers_are_never_in_scientific_notation_or_rounded() {
        let families = families(&snapshot(), "0.1.0");
        let text = text(&families, Format::Prometheus);
        assert!(text.contains("} 1700000000.25\n"), "{text}");
        assert!(text.lines().filter(|line| !line.starts_with('#')).all(|line| {
            let number = line.rsplit(' ').next().unwrap_or_default();
            !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        }));
    }
}
