//! The processes in the order of the view.

use crate::column::{Column, size};
use crate::state::State;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use unbloat_process::Pid;
use unbloat_record::monitor::{Identity, Seen};

/// A line of the view.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The process.
    pub seen: &'a Seen,
    /// Number of its ancestors in the view.
    pub depth: usize,
}

/// Deepest tree that is drawn as one.
const DEEPEST: usize = 8;

/// Returns the processes that pass the filter: as trees, the largest first, or flat.
#[must_use]
pub fn rows(state: &State) -> Vec<Row<'_>> {
    let all = &state.snapshot.processes;
    let mut rows = Vec::new();
    if state.tree {
        let forest = Forest::of(all);
        let mut roots: Vec<&Seen> = all.values().filter(|seen| !forest.has_parent(seen)).collect();
        roots.sort_by_key(|seen| (Reverse(forest.sum(seen, 0)), seen.id));
        for root in roots {
            forest.add(state, root, 0, &mut rows);
        }
    } else {
        rows.extend(sorted(state, all.values().collect()).into_iter().map(|seen| Row { seen, depth: 0 }));
    }
    let wanted = state.filter.to_lowercase();
    rows.retain(|row| wanted.is_empty() || row.seen.command.shown().to_lowercase().contains(&wanted));
    rows
}

/// Sorts by the state's column, the largest first, the unknown last.
fn sorted<'a>(state: &State, mut processes: Vec<&'a Seen>) -> Vec<&'a Seen> {
    let column: Column = state.column;
    processes.sort_by_key(|seen| (Reverse(column.bytes(seen, state.base(seen.id))), seen.id));
    processes
}

/// Children by parent.
struct Forest<'a> {
    children: HashMap<Pid, Vec<&'a Seen>>,
    pids: HashMap<Pid, u64>,
}

impl<'a> Forest<'a> {
    fn of(all: &'a BTreeMap<Identity, Seen>) -> Self {
        let mut children: HashMap<Pid, Vec<&Seen>> = HashMap::new();
        for seen in all.values() {
            children.entry(seen.parent).or_default().push(seen);
        }
        Forest { children, pids: all.keys().map(|id| (id.pid, id.start_ticks)).collect() }
    }

    /// Returns whether the parent is in the view. One that started later is another process with the parent's old number,
    /// which also rules out circles.
    fn has_parent(&self, seen: &Seen) -> bool {
        let parent =
            self.pids.get(&seen.parent).map(|&ticks| Identity { pid: seen.parent, start_ticks: ticks });
        parent.is_some_and(|parent| is_older(parent, seen.id))
    }

    fn below(&self, seen: &Seen) -> impl Iterator<Item = &'a Seen> + '_ {
        let id = seen.id;
        self.children.get(&id.pid).into_iter().flatten().copied().filter(move |child| is_older(id, child.id))
    }

    fn sum(&self, seen: &Seen, depth: usize) -> u64 {
        let below: u64 = match depth < DEEPEST {
            true => self.below(seen).map(|child| self.sum(child, depth + 1)).fold(0, u64::saturating_add),
            false => 0,
        };
        size(seen).saturating_add(below)
    }

    fn add(&self, state: &State, seen: &'a Seen, depth: usize, rows: &mut Vec<Row<'a>>) {
        rows.push(Row { seen, depth: depth.min(DEEPEST) });
        for child in sorted(state, self.below(seen).collect()) {
            self.add(state, child, depth + 1, rows);
        }
    }
}

/// Tells which process started first. Of two in the same clock tick the one with the smaller PID.
fn is_older(a: Identity, b: Identity) -> bool {
    (a.start_ticks, a.pid) < (b.start_ticks, b.pid)
}
