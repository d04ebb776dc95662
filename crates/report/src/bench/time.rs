//! Human-readable times.

/// Formats three significant digits with a suitable unit: `850 µs`, `12.3 ms`, `1.94 s`; `-` if nothing was
/// measured.
pub(crate) fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        let texts = [0, 850_400, 1_000_000, 12_340_000, 999_400_000, 1_940_000_000, 75_000_000_000]
            .map(|ns| time(Some(ns)));
        assert_eq!(texts, ["0.00 µs", "850 µs", "1.00 ms", "12.3 ms", "999 ms", "1.94 s", "75.0 s"]);
        assert_eq!(time(None), "-");
    }
}
