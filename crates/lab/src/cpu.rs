//! Splits the machine's CPU during a load among the server, the load, the harness and everything else.

use crate::memory::tree_cpu_s;
use crate::pressure::{self, PerResource};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use unbloat_process::Pid;
use unbloat_process::watch::ticks_per_second;

/// CPU seconds used up to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    server_s: f64,
    harness_s: f64,
    /// CPU of the children that the harness has waited for: a finished load.
    load_s: f64,
    machine: Option<Machine>,
    stalled_s: PerResource,
}

/// CPU use between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// CPU seconds of the server's process tree.
    pub server_s: f64,
    /// Share of the machine's CPU used by the harness; 0.01 is 1 %.
    pub harness: f64,
    /// Share of the machine's CPU used by anything other than server, load and harness, including interrupts
    /// and time that a hypervisor gave to other guests. `None` if the kernel does not report it.
    pub others: Option<f64>,
    /// Share of the time in which some task waited for a resource.
    pub stalled: PerResource,
}

impl Used {
    /// Reads the CPU times just before a load. Inspecting the server first keeps that work out of the
    /// harness's share.
    #[must_use]
    pub fn before(server: Pid) -> Self {
        let server_s = tree_cpu_s(server);
        Used { server_s, ..Self::without_server() }
    }

    /// Reads the CPU times just after a load.
    #[must_use]
    pub fn after(server: Pid) -> Self {
        let used = Self::without_server();
        Used { server_s: tree_cpu_s(server), ..used }
    }

    fn without_server() -> Self {
        Used {
            server_s: 0.0,
            harness_s: cpu_s(UsageWho::RUSAGE_SELF),
            load_s: cpu_s(UsageWho::RUSAGE_CHILDREN),
            machine: Machine::now(),
            stalled_s: pressure::stalled_s(),
        }
    }

    /// Returns the CPU use since `before`, in `wall_s` seconds.
    #[must_use]
    pub fn since(&self, before: &Used, wall_s: f64) -> Shares {
        let server_s = self.server_s - before.server_s;
        let harness_s = self.harness_s - before.harness_s;
        let ours_s = server_s + harness_s + self.load_s - before.load_s;
        let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let others = match (self.machine, before.machine) {
            (Some(now), Some(then)) => now.share_of_others(then, ours_s),
            _ => None,
        };
        let stalled = pressure::shares(before.stalled_s, self.stalled_s, wall_s);
        Shares { server_s, harness: harness_s / wall_s / cores, others, stalled }
    }
}

/// Returns the CPU time of this process, or of its awaited children and their descendants, in seconds.
fn cpu_s(who: UsageWho) -> f64 {
    getrusage(who)
        .map_or(0.0, |usage| (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6)
}

/// The first line of `/proc/stat` (Documentation/filesystems/proc.rst, 1.7), in seconds over all cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Machine {
    busy_s: f64,
    /// Time given to other guests by the hypervisor; part of the busy time.
    stolen_s: f64,
    total_s: f64,
}

impl Machine {
    pub(crate) fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?, ticks_per_second())
    }

    /// Parses user, nice, system, idle, iowait, irq, softirq, steal; the time of guests is included in user.
    fn parse(text: &str, ticks_per_second: f64) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, irq, softirq, steal] = ticks.as_slice() else { return None };
        let busy = user + nice + system + irq + softirq + steal;
        let seconds = |ticks: f64| ticks / ticks_per_second;
        Some(Machine {
            busy_s: seconds(busy),
            stolen_s: seconds(steal),
            total_s: seconds(busy + idle + iowait),
        })
    }

    /// Returns the share of everything else. The kernel accounts processes more precisely than the machine,
    /// so negative values become zero.
    pub(crate) fn share_of_others(self, then: Machine, ours_s: f64) -> Option<f64> {
        let total_s = self.total_s - then.total_s;
        (total_s > 0.0).then(|| ((self.busy_s - then.busy_s - ours_s) / total_s).max(0.0))
    }

    /// Returns the share that the hypervisor gave to other guests.
    pub(crate) fn share_stolen(self, then: Machine) -> Option<f64> {
        let total_s = self.total_s - then.total_s;
        (total_s > 0.0).then(|| ((self.stolen_s - then.stolen_s) / total_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_not_ours_is_others() {
        let then = Machine::parse("cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 …\n", 100.0).unwrap();
        let now = Machine::parse("cpu  300 10 180 1000 100 5 5 0 0 0\n", 100.0).unwrap();
        assert_eq!(then, Machine { busy_s: 2.0, stolen_s: 0.0, total_s: 10.0 });
        // Three of six seconds were busy, two of them ours.
        assert_eq!(now.share_of_others(then, 2.0), Some(1.0 / 6.0));
        assert_eq!(now.share_of_others(then, 3.1), Some(0.0));
        assert_eq!(now.share_of_others(now, 0.0), None);
        let guest = Machine::parse("cpu  100 0 100 900 0 0 0 100\n", 100.0).unwrap();
        assert_eq!(guest.share_stolen(then), Some(0.5));
        assert_eq!(Machine::parse("cpu  1 2 3\n", 100.0), None);
    }
}
