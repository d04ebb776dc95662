//! Dates for file names and summaries.

use std::time::SystemTime;

/// The date and time now in UTC as it fits in a file name: `20260921-101500`.
pub(crate) fn file_stamp() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.replace(['-', ':', 'Z'], "").replace('T', "-")
}
