//! A recording's header: its tool, start, writer and end.

/// The command that made a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `unbloat record`.
    Record,
    /// `unbloat bench`.
    Bench,
    /// `unbloat compare`.
    Experiment,
    /// `unbloat import`.
    Import,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [Kind::Record, Kind::Bench, Kind::Experiment, Kind::Import];

    /// The name in the file and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Record => "record",
            Kind::Bench => "bench",
            Kind::Experiment => "experiment",
            Kind::Import => "import",
        }
    }

    /// Returns the kind with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// The process that writes a recording. The three fields together identify it for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its PID.
    pub pid: i32,
    /// Field 22 of its `/proc/PID/stat`: clock ticks since boot.
    pub start_ticks: Option<u64>,
    /// `/proc/sys/kernel/random/boot_id` of the boot it ran in.
    pub boot_id: Option<String>,
}

/// The single row that describes the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The command that made the file.
    pub kind: Kind,
    /// The version of Unbloat that wrote it.
    pub tool_version: String,
    /// Start, in nanoseconds since 1970 UTC.
    pub started_wall_ns: i64,
    /// The same moment on `CLOCK_MONOTONIC`.
    pub started_monotonic_ns: i64,
    /// The process that writes, or wrote, the file.
    pub owner: Option<Owner>,
    /// Its end; `None` while it is being written, or if its writer was killed.
    pub ended_ns: Option<i64>,
    /// Reason for its end.
    pub end_reason: Option<String>,
    /// Exit status of the recorded command, as a shell would see it.
    pub exit_status: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_their_names() {
        assert!(Kind::ALL.iter().all(|&kind| Kind::named(kind.name()) == Some(kind)));
        assert_eq!(Kind::named("other"), None);
    }
}
