//! The fitness of the machine before an experiment: each cause of unstable figures, with its remedy.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// A condition that makes a machine unfit for measuring.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// Other programs use the CPU.
    #[error(
        "other programs take {percent:.0} % of the machine's CPU right now; the plan allows {allowed:.0} % while a load runs \
         (design.max-other-cpu), and runs above that are repeated. End them first"
    )]
    Busy {
        /// Percentage that they use.
        percent: f64,
        /// Percentage that the plan allows.
        allowed: f64,
    },
    /// Another guest of the hypervisor uses the CPU.
    #[error(
        "the hypervisor gives {percent:.0} % of the CPU to other guests (steal time): runs will be \
         disturbed. Measure at another time or on another machine"
    )]
    Stolen {
        /// Percentage given to it.
        percent: f64,
    },
    /// The cores change their frequency.
    #[error(
        "the cores change their frequency (governor {governor:?}): times depend on what ran before. \
         `cpupower frequency-set -g performance` fixes it"
    )]
    FrequencyScaling {
        /// The governor's name.
        governor: String,
    },
    /// Memory is swapped out.
    #[error(
        "{used_mib} MiB of memory are swapped out: a server's PSS excludes its swapped part, and its \
         latency includes the disk. Free memory, then `swapoff -a && swapon -a`"
    )]
    Swap {
        /// Amount in MiB.
        used_mib: u64,
    },
    /// A CPU limit applies.
    #[error(
        "the control group limits all of this to {cores:.1} cores (cpu.max): processes that reach the \
         limit are stopped for milliseconds at a time. Measure without the limit, or keep well below it"
    )]
    CpuLimit {
        /// Limit in cores.
        cores: f64,
    },
    /// A memory limit is nearly reached.
    #[error(
        "the control group limits all of this to {limit_mib} MiB, of which {used_mib} MiB are used (memory.max): near the limit the \
         kernel reclaims memory that a variant would have kept"
    )]
    MemoryLimit {
        /// The limit.
        limit_mib: u64,
        /// Memory in use.
        used_mib: u64,
    },
    /// There is only one core.
    #[error(
        "there is only one core: server and load share it, so each waits for the other. Useful figures \
        need at least two"
    )]
    OneCore,
}

/// Time for which the machine is observed.
const WATCHED: Duration = Duration::from_millis(500);

/// Examines the machine. `allowed` is the share of CPU that other programs may use.
#[must_use]
pub fn unfit(allowed: f64) -> Vec<Unfit> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let group = own_group(&read("/proc/self/cgroup").unwrap_or_default());
    let of_group = |name: &str| read(&format!("/sys/fs/cgroup{group}/{name}"));
    let mut all = busy(allowed);
    all.extend(read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").and_then(|text| scaling(&text)));
    all.extend(read("/proc/meminfo").and_then(|text| swap(&text)));
    all.extend(of_group("cpu.max").and_then(|text| cpu_limit(&text)));
    all.extend(
        of_group("memory.max")
            .zip(of_group("memory.current"))
            .and_then(|(max, now)| memory_limit(&max, &now)),
    );
    all.extend(
        std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1).then_some(Unfit::OneCore),
    );
    all
}

fn busy(allowed: f64) -> Vec<Unfit> {
    let Some(then) = crate::cpu::Machine::now() else { return Vec::new() };
    std::thread::sleep(WATCHED);
    let Some(now) = crate::cpu::Machine::now() else { return Vec::new() };
    let stolen = now.share_stolen(then).unwrap_or(0.0);
    let others = now.share_of_others(then, 0.0).unwrap_or(0.0) - stolen;
    let mut all = Vec::new();
    if others > allowed {
        all.push(Unfit::Busy { percent: others * 100.0, allowed: allowed * 100.0 });
    }
    if stolen > STOLEN {
        all.push(Unfit::Stolen { percent: stolen * 100.0 });
    }
    all
}

/// Steal time above which it is reported.
const STOLEN: f64 = 0.02;

fn scaling(governor: &str) -> Option<Unfit> {
    let governor = governor.trim();
    (governor != "performance").then(|| Unfit::FrequencyScaling { governor: governor.to_owned() })
}

/// Reports swap in use, from 16 MiB on: a few daemons' pages are always swapped out.
fn swap(meminfo: &str) -> Option<Unfit> {
    let kib = |key: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let used_mib = kib("SwapTotal:")?.saturating_sub(kib("SwapFree:")?) >> 10;
    (used_mib >= 16).then_some(Unfit::Swap { used_mib })
}

/// Parses `max 100000`, or quota and period in microseconds.
fn cpu_limit(text: &str) -> Option<Unfit> {
    let (quota, period) = text.trim().split_once(' ')?;
    let cores = quota.parse::<f64>().ok()? / period.parse::<f64>().ok().filter(|period| *period > 0.0)?;
    Some(Unfit::CpuLimit { cores })
}

fn memory_limit(max: &str, current: &str) -> Option<Unfit> {
    let mib = |text: &str| text.trim().parse::<u64>().ok().map(|bytes| bytes >> 20);
    Some(Unfit::MemoryLimit { limit_mib: mib(max)?, used_mib: mib(current)? })
}

/// Returns the control group of this process (cgroup v2): `0::/user.slice`, or nothing at the root.
fn own_group(text: &str) -> String {
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let exists =
        Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')).join("cgroup.controllers").exists();
    if exists { path.trim_end_matches('/').to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_judged() {
        assert_eq!(scaling("performance\n"), None);
        assert_eq!(scaling("powersave\n"), Some(Unfit::FrequencyScaling { governor: "powersave".into() }));
        assert_eq!(
            swap("SwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n"),
            Some(Unfit::Swap { used_mib: 1024 })
        );
        assert_eq!(swap("SwapTotal: 2097152 kB\nSwapFree: 2096128 kB\n"), None);
        assert_eq!(swap("SwapTotal: 0 kB\nSwapFree: 0 kB\n"), None);
        assert_eq!(cpu_limit("max 100000\n"), None);
        assert_eq!(cpu_limit("150000 100000\n"), Some(Unfit::CpuLimit { cores: 1.5 }));
        assert_eq!(memory_limit("max\n", "1048576\n"), None);
        let limit = Unfit::MemoryLimit { limit_mib: 512, used_mib: 100 };
        assert_eq!(memory_limit("536870912\n", "104857600\n"), Some(limit));
    }

    #[test]
    fn each_says_what_to_do() {
        let busy = Unfit::Busy { percent: 31.4, allowed: 5.0 }.to_string();
        assert!(
            busy.starts_with("other programs take 31 % of the machine's CPU") && busy.contains("End them"),
            "{busy}"
        );
    }
}
