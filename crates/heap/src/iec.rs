//! Human-readable sizes: three digits and an IEC unit.

use std::fmt;

/// A number of bytes that displays as `0 B`, `612 KiB`, `24.1 MiB`, `1.32 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Iec(pub u64);

impl fmt::Display for Iec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        if self.0 < 1024 {
            return f.pad(&format!("{} B", self.0));
        }
        // 999.5 and more take the next unit, because `1000 KiB` would have four digits.
        let mut value = self.0 as f64 / 1024.0;
        let mut units = UNITS.iter();
        let mut unit = units.next().unwrap_or(&"");
        while value >= 999.5 {
            let Some(next) = units.next() else { break };
            (value, unit) = (value / 1024.0, next);
        }
        let decimals = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        f.pad(&format!("{value:.decimals$} {unit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Iec;

    #[test]
    fn three_digits_everywhere() {
        let shown = |bytes: u64| Iec(bytes).to_string();
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1024), "1.00 KiB");
        assert_eq!(shown(999 * 1024 + 511), "999 KiB");
        assert_eq!(shown(1000 * 1024), "0.98 MiB");
        assert_eq!(shown(10 * 1024 * 1024 - 1), "10.0 MiB");
        assert_eq!(shown(381 << 20), "381 MiB");
        assert_eq!(shown(u64::MAX), "16384 PiB");
        assert_eq!(format!("{:>9}", Iec(5)), "      5 B");
    }
}
