//! Counts children that were never seen: where the kernel does not report births, a process that came and
//! went between two looks shows only in its parent's account of reaped children.

use super::Member;
use super::accounts::Accounts;
use std::collections::BTreeMap;
use unbloat_process::Pid;
use unbloat_process::stat::Stat;

/// Page faults of the shortest program.
const FORK_FAULTS: u64 = 30;

/// Growth of a member's account of its children between two looks.
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

    /// Returns the CPU in clock ticks of a child that the parent reaped and that was never seen, if there was one; one per
    /// parent at most. If a known child has ended too, there must be more page faults than that child's, and a PID that came
    /// and went; the CPU then cannot be separated from that child's.
    pub(super) fn unseen_child(
        &self,
        members: &mut BTreeMap<Pid, Member>,
        accounts: &Accounts,
        some_vanished: bool,
    ) -> Option<u64> {
        let known: u64 = accounts
            .children_of(self.parent)
            .filter_map(|child| child.last.as_ref())
            .map(|last| last.minor_faults + last.children_minor_faults)
            .sum();
        let explained = accounts.children_of(self.parent).next().is_some();
        if explained && (self.faults < known + FORK_FAULTS || !some_vanished) {
            return None;
        }
        let parent = members.get_mut(&self.parent)?;
        let unreaped = std::mem::take(&mut parent.unreaped);
        (unreaped == 0).then_some(if explained { 0 } else { self.ticks })
    }
}

/// CPU that a process's reaped children used, in clock ticks.
pub(super) fn children_ticks(stat: &Stat) -> u64 {
    stat.children_user_ticks + stat.children_system_ticks
}
