//! The kinds of internal objects, by version (`enum imemo_type`: internal.h in 2.7, internal/imemo.h from 3.0 on).

use super::RubyVersion;

/// 2.7 to 3.4; 2.7 ends at `parser_strterm`.
const UP_TO_3_4: [&str; 16] = [
    "env",
    "cref",
    "svar",
    "throw_data",
    "ifunc",
    "memo",
    "ment",
    "iseq",
    "tmpbuf",
    "ast",
    "parser_strterm",
    "callinfo",
    "callcache",
    "constcache",
    "unknown",
    "unknown",
];
/// 4.0.
const FROM_4_0: [&str; 16] = [
    "env",
    "cref",
    "svar",
    "throw_data",
    "ifunc",
    "memo",
    "ment",
    "iseq",
    "tmpbuf",
    "cvar_entry",
    "callinfo",
    "callcache",
    "constcache",
    "fields",
    "unknown",
    "unknown",
];

/// Counts by name, without those that do not occur. Empty for a version whose kinds are not known.
pub(super) fn named(version: Option<RubyVersion>, counts: &[u64; 16]) -> Vec<(&'static str, u64)> {
    let names = match version.map(|v| (v.major, v.minor)) {
        Some((2, 7) | (3, 0..=4)) => &UP_TO_3_4,
        Some((4, 0)) => &FROM_4_0,
        _ => return Vec::new(),
    };
    names.iter().copied().zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}
