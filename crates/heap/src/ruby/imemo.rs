//! The kinds of internal objects, by version (`enum imemo_type`: internal.h in 2.7, internal/imemo.h from 3.0
//! on).

/// CRuby's names of the kinds, without `imemo_`.
pub(crate) type Kinds = [&'static str; 16];

/// The name of a kind that is not known.
pub(super) const UNKNOWN: &str = "unknown";

/// 2.7 to 3.4; 2.7 ends at `parser_strterm`.
pub(super) const UP_TO_3_4: Kinds = [
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
pub(super) const FROM_4_0: Kinds = [
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

/// Returns the nonzero counts by name. Empty for a version whose kinds are unknown.
pub(super) fn named(kinds: Option<&Kinds>, counts: &[u64; 16]) -> Vec<(&'static str, u64)> {
    let names = kinds.into_iter().flatten().copied();
    names.zip(counts.iter().copied()).filter(|(_, count)| *count > 0).collect()
}
