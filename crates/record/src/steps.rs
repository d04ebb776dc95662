//! Turns the steps that the gem takes to keep memory small into marks, each once.

use crate::ops::Op;
use std::collections::BTreeMap;
use unbloat_contract::{Snapshot, Word};
use unbloat_process::Pid;
use unbloat_recording::ProcessId;

/// The number of steps of each process that have been seen.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    seen: BTreeMap<ProcessId, u64>,
}

impl Steps {
    /// Forgets all processes but these.
    pub(crate) fn keep_only(&mut self, processes: &[(ProcessId, Pid)]) {
        self.seen.retain(|&id, _| processes.iter().any(|&(kept, _)| kept == id));
    }

    /// Returns a mark for each new step on a process's status page that lies within the recording, which
    /// lasts from `started_ns` to `now_ns` so far (`CLOCK_MONOTONIC`).
    pub(crate) fn new_marks(
        &mut self,
        (id, pid): (ProcessId, Pid),
        page: &Snapshot,
        started_ns: i64,
        now_ns: i64,
    ) -> Vec<Op> {
        let seen = self.seen.insert(id, page.word(Word::Steps)).unwrap_or_default();
        let new = page.steps().filter(|taken| taken.number >= seen);
        let marks = new.filter_map(|taken| {
            let at_ns = i64::try_from(taken.at_ns).ok()?;
            let within = (started_ns..=now_ns).contains(&at_ns);
            within.then(|| Op::Mark(at_ns - started_ns, format!("gem: {} (PID {pid})", taken.step.word())))
        });
        marks.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_contract::{MAGIC, Step, WORDS, step_words};

    fn page(steps: &[(u64, Step)]) -> Snapshot {
        let mut words = [0; WORDS];
        words[Word::Magic as usize] = MAGIC;
        words[Word::Steps as usize] = steps.len() as u64;
        for (number, &(at_ns, step)) in steps.iter().enumerate() {
            let (time, code) = step_words(number as u64);
            (words[time], words[code]) = (at_ns, step as u64);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        Snapshot::parse(&bytes).unwrap()
    }

    #[test]
    fn each_step_within_the_recording_is_one_mark() {
        let mut steps = Steps::default();
        let worker = (ProcessId(3), Pid(4711));
        let before = (900, Step::Release);
        let first = [before, (1500, Step::Release)];
        let expected = [Op::Mark(500, "gem: release (PID 4711)".to_owned())];
        assert_eq!(steps.new_marks(worker, &page(&first), 1000, 2000), expected);
        assert_eq!(steps.new_marks(worker, &page(&first), 1000, 2000), []);
        let more = [before, first[1], (2500, Step::Collect), (u64::MAX, Step::Replace)];
        let expected = [Op::Mark(1500, "gem: collect (PID 4711)".to_owned())];
        assert_eq!(steps.new_marks(worker, &page(&more), 1000, 3000), expected);
        steps.keep_only(&[]);
        assert!(steps.seen.is_empty());
    }
}
