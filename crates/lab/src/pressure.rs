//! Pressure-stall figures of the kernel (Documentation/accounting/psi.rst): the share of time in which some
//! task waited for CPU, disk or memory. Jumps while a load runs are not the server's doing.

use std::path::Path;

/// A resource that tasks wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A core.
    Cpu,
    /// The disk.
    Io,
    /// Memory that has to be reclaimed or read back.
    Memory,
}

impl Resource {
    /// All resources.
    pub const ALL: [Resource; 3] = [Resource::Cpu, Resource::Io, Resource::Memory];

    /// The name of the kernel's file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Io => "io",
            Resource::Memory => "memory",
        }
    }

    /// The name in the middle of a sentence.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Resource::Cpu => "a core",
            Resource::Io => "the disk",
            Resource::Memory => "memory",
        }
    }

    /// The name of the figure in a recording.
    #[must_use]
    pub const fn figure(self) -> &'static str {
        match self {
            Resource::Cpu => "stall_cpu",
            Resource::Io => "stall_io",
            Resource::Memory => "stall_memory",
        }
    }
}

/// A value for each resource; absent if the kernel does not report it (before Linux 4.20, or `psi=0`).
pub type PerResource = [Option<f64>; Resource::ALL.len()];

/// Returns the seconds in which some task has waited so far, by resource.
#[must_use]
pub fn stalled_s() -> PerResource {
    Resource::ALL.map(|resource| {
        total_s(&std::fs::read_to_string(Path::new("/proc/pressure").join(resource.name())).ok()?)
    })
}

/// Parses `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`, in microseconds.
fn total_s(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()? as f64 / 1e6)
}

/// Returns the shares of `wall_s` between two readings.
#[must_use]
pub fn shares(then: PerResource, now: PerResource, wall_s: f64) -> PerResource {
    std::array::from_fn(|i| {
        Some(((now[i]? - then[i]?) / wall_s).clamp(0.0, 1.0)).filter(|share| share.is_finite())
    })
}

/// Returns the resource whose figure jumps in a run, with its share and the usual one. A jump is well above
/// earlier runs of the same variant, because the variant itself may make tasks wait.
#[must_use]
pub fn jump(run: PerResource, earlier: &[PerResource]) -> Option<(Resource, f64, f64)> {
    Resource::ALL.into_iter().zip(0..).find_map(|(resource, i)| {
        let share = run[i]?;
        let known: Vec<f64> = earlier.iter().filter_map(|shares| shares[i]).collect();
        let usual = unbloat_stats::median::median(&known).filter(|_| known.len() >= FEWEST)?;
        (share > 2.0 * usual + ABOVE).then_some((resource, share, usual))
    })
}

/// Number of earlier runs needed to know the usual figure.
const FEWEST: usize = 3;
/// Margin of a jump beyond twice the usual figure.
const ABOVE: f64 = 0.10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_line_is_read() {
        let text = "some avg10=1.00 avg60=0.50 avg300=0.10 total=2500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(total_s(text), Some(2.5));
        assert_eq!(total_s("full total=1\n"), None);
        assert_eq!(
            shares([Some(1.0), None, Some(0.0)], [Some(2.0), Some(1.0), Some(9.0)], 4.0),
            [Some(0.25), None, Some(1.0)]
        );
    }

    #[test]
    fn a_jump_is_seen_against_earlier_runs_of_the_variant() {
        let usual = |cpu: f64| [Some(cpu), Some(0.0), None];
        let earlier = [usual(0.20), usual(0.25), usual(0.30)];
        assert_eq!(jump(usual(0.55), &earlier), None);
        assert_eq!(jump(usual(0.65), &earlier), Some((Resource::Cpu, 0.65, 0.25)));
        assert_eq!(jump(usual(0.65), &earlier[..2]), None, "two runs do not tell what is usual");
        assert_eq!(jump([None, Some(0.2), None], &earlier), Some((Resource::Io, 0.2, 0.0)));
    }
}
