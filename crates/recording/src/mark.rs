//! Named moments: a deploy, a load step, a phase of a run.

use crate::RunId;
use unbloat_untrusted::Untrusted;

/// A named moment.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Mark {
    /// Nanoseconds since the recording began.
    pub time_ns: i64,
    /// Its name.
    pub name: Untrusted,
    /// The run it belongs to.
    pub run: Option<RunId>,
}
