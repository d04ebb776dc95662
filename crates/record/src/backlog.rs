//! Holds operations that cannot be written yet because another process has locked the file.
//!
//! It is bounded: beyond [`MOST_ROWS`] the oldest readings are dropped, and a mark records the gap.

use crate::ops::{Op, Rows};
use std::collections::VecDeque;

/// Maximum number of rows in memory: some 40 MB. Twenty processes at ten samples per second fill it in 25
/// minutes.
const MOST_ROWS: usize = 300_000;

/// Operations waiting to be written, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    ops: VecDeque<Op>,
    rows: usize,
    /// Rows of readings that were dropped.
    dropped: usize,
}

/// Too many processes came and went to hold their rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMuch;

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Adds operations, dropping the oldest readings if necessary.
    ///
    /// # Errors
    /// The operations that must not be dropped exceed the limit.
    pub(crate) fn add(&mut self, ops: Vec<Op>) -> Result<(), TooMuch> {
        self.add_below(ops, MOST_ROWS)
    }

    fn add_below(&mut self, ops: Vec<Op>, most_rows: usize) -> Result<(), TooMuch> {
        self.rows += ops.iter().map(weight).sum::<usize>();
        self.ops.extend(ops);
        if self.rows > most_rows {
            self.drop_oldest(most_rows / 2);
        }
        if self.rows > most_rows { Err(TooMuch) } else { Ok(()) }
    }

    /// Drops readings, oldest first, until `rows` are left.
    fn drop_oldest(&mut self, rows: usize) {
        let (mut left, mut dropped) = (self.rows, 0);
        self.ops.retain(|op| match op.rows() {
            Rows::Dispensable(_) if left > rows => {
                left -= weight(op);
                dropped += weight(op);
                false
            }
            Rows::Dispensable(_) | Rows::Needed => true,
        });
        self.rows = left;
        self.dropped += dropped;
    }

    /// Iterates over the waiting operations in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter()
    }

    /// Clears the backlog once everything has been written. Returns the number of rows dropped before.
    pub(crate) fn clear(&mut self) -> usize {
        self.ops.clear();
        self.rows = 0;
        std::mem::take(&mut self.dropped)
    }
}

fn weight(op: &Op) -> usize {
    match op.rows() {
        Rows::Dispensable(rows) => rows.max(1),
        Rows::Needed => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_recording::{ProcessId, Sample};

    fn samples(time_ns: i64) -> Op {
        Op::Samples(vec![Sample { time_ns, ..Sample::default() }; 10])
    }

    #[test]
    fn the_oldest_readings_go_and_births_stay() {
        let mut backlog = Backlog::default();
        let born = Op::Command(ProcessId(1), "puma".into());
        assert_eq!(backlog.add_below(vec![born.clone()], 100), Ok(()));
        for time_ns in 0..12 {
            assert_eq!(backlog.add_below(vec![samples(time_ns)], 100), Ok(()));
        }
        let kept: Vec<&Op> = backlog.iter().collect();
        assert_eq!(kept.first(), Some(&&born));
        assert_eq!(kept.last(), Some(&&samples(11)));
        let rows: usize = kept.iter().map(|op| weight(op)).sum();
        assert!(rows <= 100, "{rows}");
        assert_eq!(backlog.clear(), 121 - rows);
        assert!(backlog.is_empty());
    }

    #[test]
    fn what_cannot_be_dropped_is_too_much_at_last() {
        let mut backlog = Backlog::default();
        let births = vec![Op::Command(ProcessId(1), Default::default()); 101];
        assert_eq!(backlog.add_below(births, 100), Err(TooMuch));
    }
}
