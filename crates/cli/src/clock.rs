//! Dates for file names and summaries.

use std::time::SystemTime;

/// Returns the current date and time in UTC in a form suitable for file names: `20260921-101500`.
pub(crate) fn file_stamp() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.replace(['-', ':', 'Z'], "").replace('T', "-")
}
