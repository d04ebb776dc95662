//! Counts children that nobody saw: where the kernel does not report births, a process that came and went between two looks
//! shows only in its parent's account of reaped children.

use super::{Tree, children_ticks};
use unbloat_process::Pid;
use unbloat_process::stat::Stat;

/// Page faults of the shortest program.
const FORK_FAULTS: u64 = 30;

/// By how much a member's account of its children has grown between two looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChildrenGrowth {
    parent: Pid,
    faults: u64,
    ticks: u64,
}

impl ChildrenGrowth {
    pub(super) fn between(last: &Stat, now: &Stat) -> Option<Self> {
        let faults = now.children_minor_faults.checked_sub(last.children_minor_faults).filter(|&f| f > 0)?;
        let ticks = children_ticks(now).saturating_sub(children_ticks(last));
        Some(ChildrenGrowth { parent: now.pid, faults, ticks })
    }
}

impl Tree {
    /// The parent reaped children we never saw; count at least one per parent. Where a known child has ended too, there
    /// must be more page faults than that child's, and a pid that came and went.
    pub(super) fn count_unseen_children(&mut self, grown: &[ChildrenGrowth]) {
        for grown in grown {
            let children = || self.endings.iter().filter(|ending| ending.member.parent == grown.parent);
            let known: u64 = children()
                .filter_map(|child| child.member.last.as_ref())
                .map(|last| last.minor_faults + last.children_minor_faults)
                .sum();
            let explained = children().next().is_some();
            if explained && (grown.faults < known + FORK_FAULTS || !self.births.some_vanished()) {
                continue;
            }
            let Some(member) = self.members.get_mut(&grown.parent) else { continue };
            if std::mem::take(&mut member.unreaped) == 0 {
                // With a known child its CPU cannot be told apart from that child's.
                self.count_short_lived(if explained { 0 } else { grown.ticks });
            }
        }
    }

    /// Counts a child that a newborn has already reaped.
    pub(super) fn count_unseen_children_of_newborn(&mut self, pid: Pid) {
        let Some(stat) = self.members.get(&pid).and_then(|member| member.last.as_ref()) else { return };
        if !self.births.kernel_reports_all() && stat.children_minor_faults > 0 {
            self.count_short_lived(children_ticks(stat));
        }
    }

    /// Counts a process that has no row of its own, and the clock ticks it used.
    pub(super) fn count_short_lived(&mut self, ticks: u64) {
        let cpu_s = ticks as f64 / self.ticks_per_second;
        self.short_lived += 1;
        self.short_lived_cpu_s += cpu_s;
        self.ended_cpu_s += cpu_s;
    }
}
