//! Recordings for tests.

use unbloat_recording::{Censuses, Header, Kind, Recording, Rubies};

/// Creates a recording with nothing but its Rubies.
pub(crate) fn of_rubies(rubies: Rubies) -> Recording {
    Recording {
        name: "shop".to_owned(),
        header: Header {
            kind: Kind::Record,
            tool_version: String::new(),
            started_wall_ns: 0,
            started_monotonic_ns: 0,
            owner: None,
            ended_ns: Some(7_200_000_000_000),
            end_reason: None,
            exit_status: None,
        },
        provenance: Vec::new(),
        processes: Vec::new(),
        folded: Vec::new(),
        samples: Vec::new(),
        censuses: Censuses::default(),
        counters: Vec::new(),
        rubies,
        marks: Vec::new(),
        latencies: Vec::new(),
        cost: None,
    }
}
