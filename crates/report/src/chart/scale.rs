//! Ticks of axes: their values and labels.

/// The quantity on an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes in IEC units, with ticks at round numbers.
    Bytes,
    /// Seconds, as seconds, minutes or hours.
    Seconds,
    /// CPU, in cores.
    Cores,
    /// Milliseconds.
    Milliseconds,
    /// A plain number.
    Number,
}

impl Unit {
    /// Returns a distance between ticks such that there are about `count` up to `span`.
    #[must_use]
    pub fn step(self, span: f64, count: usize) -> f64 {
        let rough = (span / count.max(1) as f64).max(f64::MIN_POSITIVE);
        match self {
            Unit::Seconds => {
                const STEPS: [f64; 19] = [
                    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0,
                    3600.0, 7200.0, 21600.0, 43200.0,
                ];
                let day = 86400.0;
                STEPS
                    .iter()
                    .copied()
                    .find(|&step| step >= rough)
                    .unwrap_or_else(|| day * round_up(rough / day))
            }
            Unit::Bytes => {
                let unit = 1024f64.powi((rough.max(1.0).log2() / 10.0).floor() as i32);
                let steps = [
                    1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 16.0, 20.0, 32.0, 50.0, 64.0, 100.0, 128.0, 200.0, 256.0,
                    400.0, 512.0, 1024.0,
                ];
                unit * steps.iter().copied().find(|&step| step * unit >= rough).unwrap_or(1024.0)
            }
            Unit::Cores | Unit::Milliseconds | Unit::Number => round_up(rough),
        }
    }

    /// Returns the ticks from `from` to `to`.
    #[must_use]
    pub fn ticks(self, from: f64, to: f64, count: usize) -> Vec<f64> {
        let step = self.step(to - from, count);
        let first = (from / step - 1e-9).ceil();
        (0..200).map(|i| (first + f64::from(i)) * step).take_while(|&tick| tick <= to + step * 1e-6).collect()
    }

    /// Formats a value at a tick or beside a point; `step` determines the precision.
    #[must_use]
    pub fn write(self, value: f64, step: f64) -> String {
        match self {
            Unit::Bytes if value == 0.0 => "0".to_owned(),
            Unit::Bytes => bytes(value, step),
            Unit::Seconds => seconds(value, step),
            Unit::Cores => decimal(value, step),
            Unit::Milliseconds => format!("{} ms", decimal(value, step)),
            Unit::Number => decimal(value, step),
        }
    }

    /// Returns the name of the axis.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Seconds => "time",
            Unit::Cores => "cores",
            Unit::Milliseconds => "ms",
            Unit::Number => "",
        }
    }
}

/// Returns the next of 1, 2, 5 × 10ⁿ.
fn round_up(value: f64) -> f64 {
    let decade = 10f64.powi(value.log10().floor() as i32);
    [1.0, 2.0, 5.0, 10.0]
        .iter()
        .map(|m| m * decade)
        .find(|&step| step >= value * (1.0 - 1e-9))
        .unwrap_or(value)
}

fn decimal(value: f64, step: f64) -> String {
    let decimals = if step >= 1.0 { 0 } else { (-step.log10()).ceil().clamp(0.0, 6.0) as usize };
    format!("{value:.decimals$}")
}

fn bytes(value: f64, step: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = ((value.abs().max(1.0).log2() / 10.0).floor() as usize).min(UNITS.len() - 1);
    let factor = 1024f64.powi(power as i32);
    // As many decimals as the step requires for an exact representation, or two.
    let exact = (0..=3).find(|&decimals| (step / factor * 10f64.powi(decimals)).fract() == 0.0);
    let decimals = exact.unwrap_or(2) as usize;
    format!("{:.decimals$} {}", value / factor, UNITS.get(power).unwrap_or(&"B"))
}

fn seconds(value: f64, step: f64) -> String {
    let whole = value.round() as i64;
    match step {
        step if step < 1.0 => format!("{value:.1} s"),
        _ if whole == 0 => "0".to_owned(),
        step if step < 60.0 && whole < 120 => format!("{whole} s"),
        step if step < 60.0 => format!("{}:{:02}", whole / 60, whole % 60),
        step if step < 3600.0 && whole < 7200 => format!("{} min", whole / 60),
        step if step < 3600.0 => format!("{}:{:02} h", whole / 3600, whole / 60 % 60),
        _ if whole < 172_800 => format!("{} h", whole / 3600),
        step if step % 86400.0 == 0.0 => format!("{:.0} d", value / 86400.0),
        _ => format!("{:.1} d", value / 86400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(unit: Unit, to: f64) -> Vec<String> {
        let step = unit.step(to, 5);
        unit.ticks(0.0, to, 5).into_iter().map(|tick| unit.write(tick, step)).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(shown(Unit::Bytes, 450e6), ["0", "100 MiB", "200 MiB", "300 MiB", "400 MiB"]);
        assert_eq!(shown(Unit::Bytes, 3e9), ["0", "1 GiB", "2 GiB"]);
        assert_eq!(shown(Unit::Seconds, 62.0), ["0", "15 s", "30 s", "45 s", "60 s"]);
        assert_eq!(shown(Unit::Seconds, 4000.0), ["0", "15 min", "30 min", "45 min", "60 min"]);
        assert_eq!(shown(Unit::Seconds, 86400.0), ["0", "6 h", "12 h", "18 h", "24 h"]);
        assert_eq!(shown(Unit::Seconds, 216_000.0), ["0", "12 h", "24 h", "36 h", "2.0 d", "2.5 d"]);
        assert_eq!(shown(Unit::Bytes, 1280.0), ["0", "256 B", "512 B", "768 B", "1.00 KiB", "1.25 KiB"]);
        assert_eq!(shown(Unit::Cores, 1.7), ["0.0", "0.5", "1.0", "1.5"]);
    }

    #[test]
    fn strange_spans_do_no_harm() {
        for unit in [Unit::Bytes, Unit::Seconds, Unit::Cores] {
            for span in [0.0, 1e-12, 1e18] {
                assert!(unit.ticks(0.0, span, 5).len() <= 200);
            }
        }
    }
}
