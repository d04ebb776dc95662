//! What the environment asks for. `unbloat run` sets these variables; anyone may.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `UNBLOAT` | `0`: do nothing at all | on |
//! | `UNBLOAT_POLICY` | the policy's name, only to be shown | the settings that differ |
//! | `UNBLOAT_TRIM` | `off`, `major`, `every`, `adaptive` | `adaptive` |
//! | `UNBLOAT_TRIM_GROWTH` | bytes of growth below which nothing is done (suffix K, M, G) | `8M` |
//! | `UNBLOAT_TRIM_INTERVAL` | seconds from the end of a trim to the next | `0.25` |
//! | `UNBLOAT_TRIM_BUDGET` | percent of a core for trims and their page faults | `1` |
//! | `UNBLOAT_TRIM_MAX` | seconds that a trim of a busy process may keep threads waiting; `off`: any | `0.02` |
//! | `UNBLOAT_IDLE` | seconds of idleness after which the rest is returned | `1` |
//! | `UNBLOAT_COMPACT` | `boot`, `auto`, `off` | `off` |
//! | `UNBLOAT_WARMUP` | `1`: `Process.warmup` before the server forks | `0` |
//! | `UNBLOAT_TRIM_THRESHOLD` | glibc's trim and mmap thresholds pinned: bytes, `off` | `1M` |
//! | `UNBLOAT_LOG` | `1`: one line to stderr at start | `0` |

use crate::adaptive;
use core::ffi::CStr;

/// Which collections are followed by a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// None.
    Off,
    /// Each full one.
    Major,
    /// Each one.
    Every,
    /// Those that [`adaptive::Adaptive`] chooses.
    Adaptive,
}

/// When to compact Ruby's heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compact {
    /// Never.
    Off,
    /// Before the server forks.
    Boot,
    /// With every full collection (`GC.auto_compact`).
    Auto,
}

/// Everything the environment may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings<'a> {
    /// `UNBLOAT=0` was not set.
    pub enabled: bool,
    /// The name to show, if one was given.
    pub policy: Option<&'a str>,
    /// Which collections are followed by a trim.
    pub trim: Trim,
    /// How the adaptive policy is set.
    pub adaptive: adaptive::Settings,
    /// When to compact.
    pub compact: Compact,
    /// Whether to call `Process.warmup` before the server forks.
    pub warmup: bool,
    /// Where glibc's trim and mmap thresholds are pinned, in bytes; `None`: left to move.
    pub threshold_bytes: Option<u64>,
    /// Whether to say a line at start.
    pub log: bool,
    /// The first variable whose value was not understood; its default is in force.
    pub misunderstood: Option<&'static str>,
}

impl<'a> Settings<'a> {
    /// Reads the settings through a lookup of variables.
    pub fn read(lookup: impl Fn(&'static CStr) -> Option<&'a str>) -> Self {
        let mut reader = Reader { lookup, misunderstood: None };
        let defaults = adaptive::Settings::default();
        let adaptive = adaptive::Settings {
            min_growth_bytes: reader.value(c"UNBLOAT_TRIM_GROWTH", bytes, defaults.min_growth_bytes),
            min_interval_ns: reader.value(c"UNBLOAT_TRIM_INTERVAL", seconds_ns, defaults.min_interval_ns),
            budget_permille: reader.value(c"UNBLOAT_TRIM_BUDGET", percent_permille, defaults.budget_permille),
            max_hold_ns: reader.value(c"UNBLOAT_TRIM_MAX", bound_ns, defaults.max_hold_ns),
            idle_after_ns: reader.value(c"UNBLOAT_IDLE", seconds_ns, defaults.idle_after_ns),
            ..defaults
        };
        Self {
            enabled: reader.value(c"UNBLOAT", switch, true),
            policy: (reader.lookup)(c"UNBLOAT_POLICY").filter(|name| !name.is_empty()),
            trim: reader.value(c"UNBLOAT_TRIM", trim, Trim::Adaptive),
            adaptive,
            compact: reader.value(c"UNBLOAT_COMPACT", compact, Compact::Off),
            warmup: reader.value(c"UNBLOAT_WARMUP", switch, false),
            threshold_bytes: reader.value(c"UNBLOAT_TRIM_THRESHOLD", threshold, Some(1 << 20)),
            log: reader.value(c"UNBLOAT_LOG", switch, false),
            misunderstood: reader.misunderstood,
        }
    }
}

struct Reader<F> {
    lookup: F,
    misunderstood: Option<&'static str>,
}

impl<'a, F: Fn(&'static CStr) -> Option<&'a str>> Reader<F> {
    fn value<T>(&mut self, name: &'static CStr, parse: impl Fn(&str) -> Option<T>, default: T) -> T {
        let Some(text) = (self.lookup)(name).filter(|text| !text.is_empty()) else { return default };
        parse(text).unwrap_or_else(|| {
            self.misunderstood = self.misunderstood.or(name.to_str().ok());
            default
        })
    }
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "0" | "off" | "false" | "no" => Some(false),
        "1" | "on" | "true" | "yes" => Some(true),
        _ => None,
    }
}

fn trim(text: &str) -> Option<Trim> {
    match text {
        "off" => Some(Trim::Off),
        "major" => Some(Trim::Major),
        "every" => Some(Trim::Every),
        "adaptive" => Some(Trim::Adaptive),
        _ => None,
    }
}

fn compact(text: &str) -> Option<Compact> {
    match text {
        "off" => Some(Compact::Off),
        "boot" => Some(Compact::Boot),
        "auto" => Some(Compact::Auto),
        _ => None,
    }
}

/// A number of bytes with an optional binary suffix.
fn bytes(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (text.get(..text.len() - 1)?, 10),
        b'm' | b'M' => (text.get(..text.len() - 1)?, 20),
        b'g' | b'G' => (text.get(..text.len() - 1)?, 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn threshold(text: &str) -> Option<Option<u64>> {
    if text == "off" { Some(None) } else { bytes(text).map(Some) }
}

fn seconds_ns(text: &str) -> Option<u64> {
    thousandths(text)?.checked_mul(1_000_000)
}

fn bound_ns(text: &str) -> Option<u64> {
    if text == "off" { Some(u64::MAX) } else { seconds_ns(text) }
}

/// A percentage of at most 100, in thousandths.
fn percent_permille(text: &str) -> Option<u64> {
    thousandths(text).filter(|&value| value <= 100_000).map(|value| value / 100)
}

/// A decimal number with at most three places, times 1000. There is no floating point here: formatting and
/// parsing it would be most of the library.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = [1000, 100, 10, 1].get(fraction.len()).copied()?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? * scale };
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(pairs: &[(&'static CStr, &'static str)]) -> Settings<'static> {
        Settings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    #[test]
    fn an_empty_environment_is_the_adaptive_policy() {
        let settings = read(&[]);
        assert!(settings.enabled);
        assert_eq!(settings.trim, Trim::Adaptive);
        assert_eq!(settings.adaptive, adaptive::Settings::default());
        assert_eq!(settings.misunderstood, None);
    }

    #[test]
    fn values_have_units() {
        let settings = read(&[
            (c"UNBLOAT_TRIM_GROWTH", "16M"),
            (c"UNBLOAT_TRIM_INTERVAL", "1.5"),
            (c"UNBLOAT_TRIM_BUDGET", "2.5"),
            (c"UNBLOAT_TRIM_MAX", "0.005"),
            (c"UNBLOAT_IDLE", "10"),
            (c"UNBLOAT_TRIM_THRESHOLD", "off"),
        ]);
        assert_eq!(settings.adaptive.min_growth_bytes, 16 << 20);
        assert_eq!(settings.adaptive.min_interval_ns, 1_500_000_000);
        assert_eq!(settings.adaptive.budget_permille, 25);
        assert_eq!(settings.adaptive.max_hold_ns, 5_000_000);
        assert_eq!(settings.adaptive.idle_after_ns, 10_000_000_000);
        assert_eq!(settings.threshold_bytes, None);
        assert_eq!(settings.misunderstood, None);
    }

    #[test]
    fn what_is_not_understood_is_named_and_its_default_holds() {
        for bad in ["", "-1", "1.2345", "1.x", "99999999999999999999", "101"] {
            let settings = read(&[(c"UNBLOAT_TRIM_BUDGET", bad)]);
            assert_eq!(settings.adaptive.budget_permille, 10, "{bad}");
            assert_eq!(settings.misunderstood.is_some(), !bad.is_empty(), "{bad}");
        }
        let settings = read(&[(c"UNBLOAT_TRIM", "sometimes"), (c"UNBLOAT_TRIM_GROWTH", "M")]);
        assert_eq!(settings.trim, Trim::Adaptive);
        assert_eq!(settings.misunderstood, Some("UNBLOAT_TRIM_GROWTH"));
    }

    #[test]
    fn it_can_be_switched_off() {
        assert_eq!(read(&[(c"UNBLOAT_TRIM_MAX", "off")]).adaptive.max_hold_ns, u64::MAX);
        assert!(!read(&[(c"UNBLOAT", "0")]).enabled);
    }
}
