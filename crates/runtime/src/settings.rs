//! Settings from the environment. `unbloat run` sets some of the variables; users may set all of them.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `UNBLOAT` | `0`: do nothing at all | on |
//! | `UNBLOAT_POLICY` | the policy's name, for display only | the settings that differ |
//! | `UNBLOAT_TRIM` | `off`, `major`, `every`, `adaptive` | `adaptive` |
//! | `UNBLOAT_TRIM_GROWTH` | bytes of growth below which nothing is done (suffix K, M, G) | `8M` |
//! | `UNBLOAT_TRIM_INTERVAL` | seconds from the end of a trim to the next | `0.25` |
//! | `UNBLOAT_TRIM_BUDGET` | percent of a core for trims and their page faults | `1` |
//! | `UNBLOAT_TRIM_MAX` | seconds for which a trim of a busy process may delay threads; `off`: no limit | `0.02` |
//! | `UNBLOAT_IDLE` | seconds of idleness after which the rest is returned | `1` |
//! | `UNBLOAT_COMPACT` | `boot`, `auto`, `off` | `off` |
//! | `UNBLOAT_WARMUP` | `1`: `Process.warmup` before the server forks | `0` |
//! | `UNBLOAT_TRIM_THRESHOLD` | glibc's trim and mmap thresholds pinned: bytes, `off` | `1M` |
//! | `UNBLOAT_LOG` | `1`: one line to stderr at start | `0` |

use crate::adaptive;
use crate::line::Line;
use unbloat_contract::text::split_once;
use unbloat_contract::{Compact, Trim, Variable, switch};

/// Maximum length of the policy's name: as much as the status page has.
pub(crate) const NAME_BYTES: usize = 256;

/// All settings from the environment.
#[derive(Debug)]
pub struct Settings {
    /// False if `UNBLOAT=0` is set.
    pub enabled: bool,
    /// The name to show, if one was given.
    policy: Line<NAME_BYTES>,
    /// The collections after which to trim.
    pub trim: Trim,
    /// Settings of the adaptive policy.
    pub adaptive: adaptive::Settings,
    /// The moments at which to compact.
    pub compact: Compact,
    /// Calls `Process.warmup` before the server forks.
    pub warmup: bool,
    /// Value at which glibc's trim and mmap thresholds are pinned, in bytes; `None`: not pinned.
    pub threshold_bytes: Option<u64>,
    /// The runtime's only task is to keep the policy's allocator out of other programs.
    pub only_inheritance: bool,
    /// Prints a line at start.
    pub log: bool,
    /// The first variable with an invalid value; its default applies.
    pub misunderstood: Option<Variable>,
}

impl Settings {
    /// Reads the settings, using a lookup function for variables.
    pub fn read<T: AsRef<str>>(lookup: impl Fn(Variable) -> Option<T>) -> Self {
        let mut reader = Reader { lookup, misunderstood: None };
        let defaults = adaptive::Settings::default();
        let adaptive = adaptive::Settings {
            min_growth_bytes: reader.value(Variable::TrimGrowth, bytes, defaults.min_growth_bytes),
            min_interval_ns: reader.value(Variable::TrimInterval, seconds_ns, defaults.min_interval_ns),
            budget_permille: reader.value(Variable::TrimBudget, percent_permille, defaults.budget_permille),
            max_hold_ns: reader.value(Variable::TrimMax, bound_ns, defaults.max_hold_ns),
            idle_after_ns: reader.value(Variable::Idle, seconds_ns, defaults.idle_after_ns),
            ..defaults
        };
        Self {
            enabled: reader.value(Variable::Enabled, switch, true),
            policy: (reader.lookup)(Variable::Policy).map(|name| Line::of(name.as_ref())).unwrap_or_default(),
            trim: reader.value(Variable::Trim, Trim::parse, Trim::Adaptive),
            adaptive,
            compact: reader.value(Variable::Compact, Compact::parse, Compact::Off),
            warmup: reader.value(Variable::Warmup, switch, false),
            threshold_bytes: reader.value(Variable::TrimThreshold, threshold, Some(1 << 20)),
            only_inheritance: reader.is_set(Variable::Preload) && !reader.is_set(Variable::Trim),
            log: reader.value(Variable::Log, switch, false),
            misunderstood: reader.misunderstood,
        }
    }

    /// Returns the policy's name, if given.
    pub fn policy(&self) -> Option<&str> {
        Some(self.policy.as_str()).filter(|name| !name.is_empty())
    }
}

struct Reader<F> {
    lookup: F,
    misunderstood: Option<Variable>,
}

impl<T: AsRef<str>, F: Fn(Variable) -> Option<T>> Reader<F> {
    fn is_set(&self, variable: Variable) -> bool {
        (self.lookup)(variable).is_some_and(|value| !value.as_ref().is_empty())
    }

    fn value<V>(&mut self, variable: Variable, parse: impl Fn(&str) -> Option<V>, default: V) -> V {
        let Some(text) = (self.lookup)(variable).filter(|text| !text.as_ref().is_empty()) else {
            return default;
        };
        parse(text.as_ref()).unwrap_or_else(|| {
            self.misunderstood = self.misunderstood.or(Some(variable));
            default
        })
    }
}

/// Parses a number of bytes with an optional binary suffix.
fn bytes(text: &str) -> Option<u64> {
    const SUFFIXES: [(u8, u64); 6] = [
        (b'k', 1 << 10),
        (b'K', 1 << 10),
        (b'm', 1 << 20),
        (b'M', 1 << 20),
        (b'g', 1 << 30),
        (b'G', 1 << 30),
    ];
    let (last, start) = text.as_bytes().split_last()?;
    let scale = SUFFIXES.iter().find_map(|(suffix, scale)| (suffix == last).then_some(*scale));
    let digits = if scale.is_some() { core::str::from_utf8(start).ok()? } else { text };
    digits.parse::<u64>().ok()?.checked_mul(scale.unwrap_or(1))
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

/// Parses a percentage of at most 100, in thousandths.
fn percent_permille(text: &str) -> Option<u64> {
    thousandths(text).filter(|&value| value <= 100_000).map(|value| value / 100)
}

/// Parses a decimal number with at most three places, times 1000. Floating point is avoided, because
/// formatting and parsing it would make up most of the library.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = split_once(text, b'.').unwrap_or((text, ""));
    if fraction.len() > 3 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = [1000, 100, 10, 1].get(fraction.len()).copied()?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()?.checked_mul(scale)? };
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(pairs: &[(Variable, &str)]) -> Settings {
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
            (Variable::TrimGrowth, "16M"),
            (Variable::TrimInterval, "1.5"),
            (Variable::TrimBudget, "2.5"),
            (Variable::TrimMax, "0.005"),
            (Variable::Idle, "10"),
            (Variable::TrimThreshold, "off"),
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
            let settings = read(&[(Variable::TrimBudget, bad)]);
            assert_eq!(settings.adaptive.budget_permille, 10, "{bad}");
            assert_eq!(settings.misunderstood.is_some(), !bad.is_empty(), "{bad}");
        }
        let settings = read(&[(Variable::Trim, "sometimes"), (Variable::TrimGrowth, "M")]);
        assert_eq!(settings.trim, Trim::Adaptive);
        assert_eq!(settings.misunderstood, Some(Variable::TrimGrowth));
    }

    #[test]
    fn it_can_be_switched_off() {
        assert_eq!(read(&[(Variable::TrimMax, "off")]).adaptive.max_hold_ns, u64::MAX);
        assert!(!read(&[(Variable::Enabled, "0")]).enabled);
    }
}
