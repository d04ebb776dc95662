//! A state machine that receives observations and decides when to trim. No I/O, no clock.
//!
//! Trimming costs twice: the walk over the free memory, and the page faults when returned memory is needed
//! again. Both are paid from one account of CPU time that fills at a small share of a core (1 % by default),
//! so a server that needs its memory again at once pays for that and is trimmed less often. Regardless of the
//! account, a trim requires an expected gain: the amount that the allocator reports as returnable, where it
//! does (jemalloc); otherwise the growth of the resident set since the last trim, or a full collection that
//! has been swept since (which frees memory without changing the resident set). Each trim that yields little
//! doubles the gain required for the next. When the process falls idle after work, the rest is returned at
//! once, because nobody is waiting.
//!
//! A trim that would hold a lock of the allocator for longer than a thread may be delayed (20 ms) is never
//! made while the process is busy. It is postponed until the process is idle. Even then it has to be
//! worthwhile by the rules for a busy process, because an idle process may be one that always has a little to
//! do.

mod account;
mod activity;
mod observation;
mod returning;
mod settings;
#[cfg(test)]
mod tests;

pub use observation::{Observation, TrimOutcome};
pub use returning::Returning;
pub use settings::Settings;

use account::Account;
use activity::Activity;
use unbloat_contract::Reason;

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// Maximum factor for the required growth after fruitless trims.
const MAX_BACKOFF: u64 = 64;

/// Returns the resident set if it was readable; 0 means that it was not.
fn known(resident_bytes: u64) -> Option<u64> {
    (resident_bytes > 0).then_some(resident_bytes)
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Trim, then call [`Adaptive::trimmed`].
    Trim {
        /// The process has fallen idle.
        idle: bool,
    },
    /// Do nothing.
    Wait {
        /// The reason.
        reason: Reason,
        /// Nanoseconds until the next look; `None`: not before the next garbage collection.
        look_again_ns: Option<u64>,
    },
}

/// The state between decisions.
#[derive(Debug)]
pub struct Adaptive {
    settings: Settings,
    last: Observation,
    /// Lowest resident set since the last trim.
    floor_bytes: u64,
    /// End of the last trim; `None` before the first.
    last_trim_ns: Option<u64>,
    /// Factor of the required growth.
    backoff: u64,
    account: Account,
    activity: Activity,
}

impl Adaptive {
    /// Starts from the current state of the process.
    pub fn new(settings: Settings, start: Observation) -> Self {
        Self {
            settings,
            last: start,
            floor_bytes: known(start.resident_bytes).unwrap_or(u64::MAX),
            last_trim_ns: None,
            backoff: 1,
            account: Account::new(&settings),
            activity: Activity::default(),
        }
    }

    /// Returns the pages of recent trims that were needed again since the last call.
    pub fn take_refaults(&mut self) -> u64 {
        self.account.take_refaults()
    }

    /// Evaluates an observation and returns a decision.
    pub fn decide(&mut self, now: &Observation) -> Decision {
        self.account.pay_refaults(now);
        self.pay_returns(now);
        self.account.earn(&self.last, now);
        self.activity.note(&self.last, now);
        self.floor_bytes = self.floor_bytes.min(now.resident_bytes);
        self.last = *now;
        if self.activity.is_at_rest(now, self.settings.idle_after_ns) {
            return self.decide_idle(now);
        }
        match self.objection(now) {
            None if self.is_long(now) => self.wait(Reason::TooLong),
            None => Decision::Trim { idle: false },
            Some(reason) => self.wait(reason),
        }
    }

    /// Records the outcome of a trim.
    pub fn trimmed(&mut self, outcome: &TrimOutcome) {
        let took_ms = (outcome.took_ns / MILLISECOND).max(1);
        let fruitful = outcome.returned_bytes().checked_div(took_ms).unwrap_or(0)
            >= self.settings.min_yield_per_ms
            && outcome.returned_bytes() >= self.settings.min_growth_bytes / 8;
        self.backoff = if fruitful { 1 } else { self.backoff.saturating_mul(2).min(MAX_BACKOFF) };
        self.account.pay_trim(outcome);
        self.activity.trimmed();
        self.floor_bytes = known(outcome.after.resident_bytes).unwrap_or(self.floor_bytes);
        self.last_trim_ns = Some(outcome.after.now_ns);
        // Collections that happened meanwhile are still to be processed.
        let Observation { collections, majors, .. } = self.last;
        self.last = Observation { collections, majors, ..outcome.after };
    }

    /// Returns the interval between looks while there is work to judge.
    fn pace_ns(&self) -> u64 {
        (self.settings.idle_after_ns / 4).max(50 * MILLISECOND)
    }

    /// Handles a process that has just fallen idle: trims once, and lets the worker sleep after that.
    fn decide_idle(&mut self, now: &Observation) -> Decision {
        let objection = if self.is_long(now) {
            self.objection(now)
        } else {
            let little = self.settings.min_growth_bytes / 8;
            now.returnable_bytes.is_some_and(|bytes| bytes < little).then_some(Reason::NoGrowth)
        };
        // These three are temporary; the rest is taken once they have passed.
        if let Some(reason @ (Reason::TooSoon | Reason::CpuBudget | Reason::Refaulted)) = objection {
            return self.wait(reason);
        }
        self.activity.take_rest();
        objection.map_or(Decision::Trim { idle: true }, |reason| self.wait(reason))
    }

    /// Waits, and looks again while there is work to judge.
    fn wait(&self, reason: Reason) -> Decision {
        Decision::Wait { reason, look_again_ns: self.activity.has_worked().then(|| self.pace_ns()) }
    }

    /// Returns whether a trim would delay threads for too long.
    fn is_long(&self, now: &Observation) -> bool {
        now.hold_ns > self.settings.max_hold_ns
    }

    /// Returns the reason against trimming a busy process now, if any.
    fn objection(&self, now: &Observation) -> Option<Reason> {
        if now.collections == 0 {
            return Some(Reason::NothingHeard);
        }
        if !self.activity.has_worked() {
            return Some(Reason::NoGrowth);
        }
        if self.last_trim_ns.is_some_and(|end| now.now_ns.saturating_sub(end) < self.settings.min_interval_ns)
        {
            return Some(Reason::TooSoon);
        }
        if !self.promises(now, 1) {
            return Some(Reason::NoGrowth);
        }
        if !self.promises(now, self.backoff) {
            return Some(Reason::LowYield);
        }
        if self.account.is_overdrawn() {
            let refaulted = self.account.was_refaulted();
            return Some(if refaulted { Reason::Refaulted } else { Reason::CpuBudget });
        }
        None
    }

    /// Returns whether a trim could yield `times` the required amount.
    fn promises(&self, now: &Observation, times: u64) -> bool {
        let share = (self.floor_bytes / 100).saturating_mul(self.settings.min_growth_percent);
        let asked = self.settings.min_growth_bytes.max(share).saturating_mul(times);
        match now.returnable_bytes {
            Some(bytes) => bytes >= asked,
            None => {
                let grown = now.resident_bytes.saturating_sub(self.floor_bytes);
                grown >= asked || self.activity.swept_majors() >= times
            }
        }
    }
}
