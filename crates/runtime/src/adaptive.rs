//! A state machine that is fed with observations and decides when to trim. No I/O, no clock.
//!
//! Trimming costs twice: the walk over the free memory, and the page faults when what was given back is needed
//! again. Both are paid from one account of processor time that fills at a small share of a core (1 % unless told
//! otherwise), so a server that needs its memory again at once pays for that and is trimmed less often. Whatever the
//! account says, nothing is done unless there is something to gain: what the allocator says it could return where it
//! knows that (jemalloc); otherwise the growth of the resident set since the last trim, or a full collection that
//! has been swept since (it frees memory without the resident set moving). Each trim that brings little doubles what
//! is asked for the next time. When the process falls idle after work, the rest is returned at once: nobody waits.
//!
//! A trim that would hold a lock of the allocator for longer than a thread may be kept waiting (20 ms) is never made
//! while the process is busy. It is left for when the process is idle, and even there it has to be worth it by the
//! rules of a busy one, because an idle process may be one that has a little to do all the time.

mod account;
mod activity;
mod observation;
mod returning;
mod settings;
#[cfg(test)]
mod tests;

pub use observation::{Observation, Outcome};
pub use returning::Returning;
pub use settings::Settings;

use account::Account;
use activity::Activity;
use unbloat_contract::Reason;

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// Largest factor for the growth that is asked for after fruitless trims.
const MAX_BACKOFF: u64 = 64;

/// A resident set that could be read: 0 says that it could not.
fn known(resident_bytes: u64) -> Option<u64> {
    (resident_bytes > 0).then_some(resident_bytes)
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Trim, then call [`Adaptive::trimmed`].
    Trim {
        /// True for the trim of a process that has fallen idle.
        idle: bool,
    },
    /// Do nothing.
    Wait {
        /// The reason.
        reason: Reason,
        /// Nanoseconds after which to look again; `None`: not before the next garbage collection.
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
    /// End of the last trim, `None` before the first.
    last_trim_ns: Option<u64>,
    /// Multiplies the growth that is asked for.
    backoff: u64,
    account: Account,
    activity: Activity,
}

impl Adaptive {
    /// Starts from the process as it is now.
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

    /// Pages of the last trims that were needed again since the last call.
    pub fn take_refaults(&mut self) -> u64 {
        self.account.take_refaults()
    }

    /// Looks at the process and says what to do.
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

    /// Tells the machine what its trim did.
    pub fn trimmed(&mut self, outcome: &Outcome) {
        let took_ms = (outcome.took_ns / MILLISECOND).max(1);
        let fruitful = outcome.returned_bytes() / took_ms >= self.settings.min_yield_per_ms
            && outcome.returned_bytes() >= self.settings.min_growth_bytes / 8;
        self.backoff = if fruitful { 1 } else { (self.backoff * 2).min(MAX_BACKOFF) };
        self.account.pay_trim(outcome);
        self.activity.trimmed();
        self.floor_bytes = known(outcome.after.resident_bytes).unwrap_or(self.floor_bytes);
        self.last_trim_ns = Some(outcome.after.now_ns);
        // Collections that came meanwhile are still to be taken in.
        let Observation { collections, majors, .. } = self.last;
        self.last = Observation { collections, majors, ..outcome.after };
    }

    /// Interval of looks while there is work to be judged.
    fn pace_ns(&self) -> u64 {
        (self.settings.idle_after_ns / 4).max(50 * MILLISECOND)
    }

    /// The process has just fallen idle: trims once, and lets the worker sleep after that.
    fn decide_idle(&mut self, now: &Observation) -> Decision {
        let objection = if self.is_long(now) {
            self.objection(now)
        } else {
            let little = self.settings.min_growth_bytes / 8;
            now.returnable_bytes.is_some_and(|bytes| bytes < little).then_some(Reason::NoGrowth)
        };
        // These three pass; the rest is taken when they have.
        if let Some(reason @ (Reason::TooSoon | Reason::CpuBudget | Reason::Refaulted)) = objection {
            return self.wait(reason);
        }
        self.activity.take_rest();
        objection.map_or(Decision::Trim { idle: true }, |reason| self.wait(reason))
    }

    /// Waits, and looks again while there is work to be judged.
    fn wait(&self, reason: Reason) -> Decision {
        Decision::Wait { reason, look_again_ns: self.activity.has_worked().then(|| self.pace_ns()) }
    }

    /// True if a trim would keep threads waiting for too long.
    fn is_long(&self, now: &Observation) -> bool {
        now.hold_ns > self.settings.max_hold_ns
    }

    /// Reason against trimming a busy process now; `None` when there is none.
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

    /// True if a trim could bring `times` what is asked for.
    fn promises(&self, now: &Observation, times: u64) -> bool {
        let share = self.floor_bytes / 100 * self.settings.min_growth_percent;
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
