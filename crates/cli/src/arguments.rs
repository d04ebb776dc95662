//! Values used by several commands on the command line.

use std::time::Duration;

/// Parses a size in bytes, optionally with an IEC or SI unit: `100MB`, `64MiB`, `2G` (binary, as in the
/// kernel), `4096`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("{unit:?} is not a unit of size. Examples: 100MB, 64MiB")),
    };
    let number: f64 =
        number.parse().map_err(|_| format!("{text:?} is not a size. Examples: 100MB, 64MiB"))?;
    Ok((number * factor) as u64)
}

/// Parses a share, in percent if marked so: `2%`, `0.02`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let number =
        |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent).map(|value| value / 100.0),
        None => number(text),
    };
    share.ok_or_else(|| format!("{text:?} is not a share of a core. Examples: 2%, 0.02"))
}

/// Maximum duration: nobody waits longer, and clock arithmetic cannot overflow.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Parses a time with its unit: `100ms`, `10s`, `1h`; seconds without one.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let plain = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let written = || humantime::parse_duration(text).map_err(|e| format!("{e}. Examples: 100ms, 10s, 1h"));
    let time = plain.map_or_else(written, Ok)?;
    if time > LONGEST { Err(format!("{text:?} is longer than ten years")) } else { Ok(time) }
}

/// Parses a time other than zero.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time.is_zero() { Err("it cannot be zero. Example: 100ms".into()) } else { Ok(time) }
}

/// Parses the interval between two inspections: long enough not to disturb a process, and no longer than a
/// day.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(86_400);
    let time = duration(text)?;
    match (SHORTEST..=LONGEST).contains(&time) {
        true => Ok(time),
        false => Err("it must be between 100ms and 1day. Example: 5s".into()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_with_units() {
        assert_eq!(bytes("100MB").unwrap(), 100_000_000);
        assert_eq!(bytes("1.5 GiB").unwrap(), 3 << 29);
        assert_eq!(bytes("4096").unwrap(), 4096);
        assert!(bytes("many").is_err() && bytes("1 parsec").is_err());
        assert_eq!(share("2%").unwrap(), 0.02);
        assert_eq!(share("0.5").unwrap(), 0.5);
        assert!(share("-1").is_err() && share("0").is_ok());
        assert_eq!(interval("250ms").unwrap(), Duration::from_millis(250));
        assert_eq!(interval("0.5").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("0s").unwrap(), Duration::ZERO);
        assert_eq!(pause("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(pause("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["0", "-1", "nan", "inf", "1e9", "x", "", "2days", "1ms"] {
            assert!(pause(wrong).is_err(), "{wrong}");
        }
        assert!(interval("0s").is_err() && interval("soon").is_err());
        assert!(duration("1e19").is_err() && duration("500years").is_err() && duration("7days").is_ok());
    }
}
