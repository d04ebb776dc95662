//! When to trim: a state machine that is fed with observations and answers with a decision. No I/O, no clock.
//!
//! Trimming costs twice: the walk over the free memory, and the page faults when what was given back is needed
//! again. Both are paid from one account of processor time that fills at a small share of a core (1 % unless told
//! otherwise), so a server that needs its memory again at once pays for that and is trimmed less often. Whatever the
//! account says, nothing is done unless there is something to gain: what the allocator says it could return where it
//! knows that (jemalloc); otherwise the growth of the resident set since the last trim, or a full collection that
//! has been swept since (it frees memory without the resident set moving). Each trim that brings little doubles what
//! is asked for the next time. When the process falls idle after work, the rest is returned at once: nobody waits.

use unbloat_status_page::Reason;

const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;

/// What one minor fault on a fresh page costs, in nanoseconds: the exception, the zeroing and the page table.
///
/// Measured at 0.5–0.9 µs on x86-64 virtual machines; the exact figure matters little, only its order does.
const FAULT_NS: u64 = 700;

/// Bytes of a page as the kernel counts faults. A larger page makes the estimate of refaults an overestimate.
const PAGE_BYTES: u64 = 4096;

/// How long after a trim a fault still counts as caused by it, in nanoseconds.
const REFAULT_WINDOW_NS: u64 = 5_000 * MILLISECOND;

/// After how long a full collection is presumed to have been swept, in nanoseconds.
const SWEEP_NS: u64 = 500 * MILLISECOND;

/// How far the growth that is asked for can be multiplied after fruitless trims.
const MAX_BACKOFF: u64 = 64;

/// What the state machine may be told to do differently. All have defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Growth of the resident set since the last trim below which nothing is done, in bytes.
    pub min_growth_bytes: u64,
    /// The same as a share of the resident set after the last trim, in percent; the larger of the two counts.
    pub min_growth_percent: u64,
    /// Shortest time from the end of one trim to the begin of the next, in nanoseconds.
    pub min_interval_ns: u64,
    /// Share of one core that trimming and its page faults may take, in thousandths.
    pub budget_permille: u64,
    /// Bytes per millisecond of trimming below which a trim was not worth it.
    pub min_yield_per_ms: u64,
    /// How long the process has to be idle before the rest is returned, in nanoseconds.
    pub idle_after_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_growth_bytes: 8 * MIB,
            min_growth_percent: 5,
            min_interval_ns: 250 * MILLISECOND,
            budget_permille: 10,
            min_yield_per_ms: 256 << 10,
            idle_after_ns: 1_000 * MILLISECOND,
        }
    }
}

/// The process at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observation {
    /// `CLOCK_MONOTONIC` in nanoseconds.
    pub now_ns: u64,
    /// Resident set in bytes.
    pub resident_bytes: u64,
    /// Bytes that the allocator says it could give back, where it knows.
    pub returnable_bytes: Option<u64>,
    /// Minor page faults of the process so far.
    pub minor_faults: u64,
    /// Processor time of the process so far without what the runtime itself used, in nanoseconds.
    pub cpu_ns: u64,
    /// Garbage collections so far.
    pub collections: u64,
    /// Full ones among them.
    pub majors: u64,
}

/// What a trim did.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The process just after it.
    pub after: Observation,
    /// Resident set just before it, in bytes.
    pub before_bytes: u64,
    /// Wall time it took, in nanoseconds.
    pub took_ns: u64,
}

impl Outcome {
    /// Bytes by which the resident set shrank.
    pub fn returned_bytes(&self) -> u64 {
        self.before_bytes.saturating_sub(self.after.resident_bytes)
    }
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Trim, then call [`Adaptive::trimmed`].
    Trim {
        /// Whether it is the trim of a process that has fallen idle.
        idle: bool,
    },
    /// Do nothing.
    Wait {
        /// Why.
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
    /// The account, in nanoseconds of processor time; negative when overdrawn.
    account_ns: i64,
    /// Multiplies the growth that is asked for.
    backoff: u64,
    /// Since when the process has been idle.
    idle_since_ns: Option<u64>,
    /// Whether the process has collected garbage since the last idle trim: without work there is nothing to return.
    worked: bool,
    /// Full collections that have been swept and not been followed by a trim.
    swept_majors: u64,
    /// When the full collection that is perhaps still being swept was first seen.
    sweeping_since_ns: Option<u64>,
    returned: Returned,
    /// Refaulted pages that nobody has asked for yet.
    refaults: u64,
}

/// The bytes of the last trim and how many of them came back.
#[derive(Debug, Clone, Copy, Default)]
struct Returned {
    at_ns: u64,
    pages: u64,
    faults: u64,
    resident_bytes: u64,
    again_pages: u64,
}

impl Adaptive {
    /// Starts from the process as it is now.
    pub fn new(settings: Settings, start: Observation) -> Self {
        Self {
            settings,
            last: start,
            floor_bytes: start.resident_bytes,
            last_trim_ns: None,
            account_ns: account_limit_ns(&settings),
            backoff: 1,
            idle_since_ns: None,
            worked: false,
            swept_majors: 0,
            sweeping_since_ns: None,
            returned: Returned::default(),
            refaults: 0,
        }
    }

    /// Pages of the last trims that were needed again since the last call.
    pub fn take_refaults(&mut self) -> u64 {
        core::mem::take(&mut self.refaults)
    }

    /// Looks at the process and says what to do.
    pub fn decide(&mut self, now: &Observation) -> Decision {
        self.charge_refaults(now);
        self.refill(now);
        self.note_activity(now);
        self.note_sweeps(now);
        self.floor_bytes = self.floor_bytes.min(now.resident_bytes);
        self.last = *now;
        if let Some(decision) = self.decide_idle(now) {
            return decision;
        }
        match self.objection(now) {
            None => Decision::Trim { idle: false },
            Some(reason) => Decision::Wait { reason, look_again_ns: self.worked.then(|| self.pace_ns()) },
        }
    }

    /// Tells the machine what its trim did.
    pub fn trimmed(&mut self, outcome: &Outcome) {
        let after = outcome.after;
        self.account_ns = self.account_ns.saturating_sub(signed(outcome.took_ns));
        let took_ms = (outcome.took_ns / MILLISECOND).max(1);
        let fruitful = outcome.returned_bytes() / took_ms >= self.settings.min_yield_per_ms
            && outcome.returned_bytes() >= self.settings.min_growth_bytes / 8;
        self.backoff = if fruitful { 1 } else { (self.backoff * 2).min(MAX_BACKOFF) };
        self.floor_bytes = after.resident_bytes;
        self.swept_majors = 0;
        self.last_trim_ns = Some(after.now_ns);
        self.returned = Returned {
            at_ns: after.now_ns,
            pages: outcome.returned_bytes() / PAGE_BYTES,
            faults: after.minor_faults,
            resident_bytes: after.resident_bytes,
            again_pages: 0,
        };
        self.last = after;
    }

    /// How often to look while there is work to be judged.
    fn pace_ns(&self) -> u64 {
        (self.settings.idle_after_ns / 4).max(50 * MILLISECOND)
    }

    /// Idleness: trims once when it has lasted, and lets the worker sleep after that.
    fn decide_idle(&mut self, now: &Observation) -> Option<Decision> {
        let idle_for = now.now_ns.saturating_sub(self.idle_since_ns?);
        if !self.worked || idle_for < self.settings.idle_after_ns {
            return None;
        }
        self.worked = false;
        if now.returnable_bytes.is_some_and(|bytes| bytes < self.settings.min_growth_bytes / 8) {
            return Some(Decision::Wait { reason: Reason::NoGrowth, look_again_ns: None });
        }
        Some(Decision::Trim { idle: true })
    }

    /// Why not to trim a busy process now; `None` when nothing speaks against it.
    fn objection(&self, now: &Observation) -> Option<Reason> {
        if now.collections == 0 {
            return Some(Reason::NothingHeard);
        }
        if !self.worked {
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
        if self.account_ns < 0 {
            let refaulted = self.returned.pages > 0 && self.returned.again_pages * 2 >= self.returned.pages;
            return Some(if refaulted { Reason::Refaulted } else { Reason::CpuBudget });
        }
        None
    }

    /// Whether a trim could bring `times` what is asked for.
    fn promises(&self, now: &Observation, times: u64) -> bool {
        let share = self.floor_bytes / 100 * self.settings.min_growth_percent;
        let asked = self.settings.min_growth_bytes.max(share).saturating_mul(times);
        match now.returnable_bytes {
            Some(bytes) => bytes >= asked,
            None => {
                let grown = now.resident_bytes.saturating_sub(self.floor_bytes);
                grown >= asked || self.swept_majors >= times
            }
        }
    }

    fn refill(&mut self, now: &Observation) {
        let elapsed = now.now_ns.saturating_sub(self.last.now_ns);
        let earned = elapsed / 1000 * self.settings.budget_permille;
        self.account_ns =
            self.account_ns.saturating_add(signed(earned)).min(account_limit_ns(&self.settings));
    }

    /// A process is idle while it uses less than a twentieth of a core.
    fn note_activity(&mut self, now: &Observation) {
        let elapsed = now.now_ns.saturating_sub(self.last.now_ns);
        let used = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        if used.saturating_mul(20) >= elapsed.max(1) {
            self.idle_since_ns = None;
        } else if self.idle_since_ns.is_none() {
            self.idle_since_ns = Some(self.last.now_ns);
        }
        if now.collections > self.last.collections {
            self.worked = true;
        }
    }

    /// A full collection counts once it has been swept: at the latest when the next collection begins, and
    /// presumably after a while.
    fn note_sweeps(&mut self, now: &Observation) {
        let swept = self.sweeping_since_ns.is_some_and(|since| {
            now.collections > self.last.collections || now.now_ns.saturating_sub(since) >= SWEEP_NS
        });
        if swept {
            self.sweeping_since_ns = None;
            self.swept_majors += 1;
        }
        if now.majors > self.last.majors {
            self.sweeping_since_ns = Some(now.now_ns);
        }
    }

    /// Pays for the pages that were returned and are resident again.
    fn charge_refaults(&mut self, now: &Observation) {
        if now.now_ns.saturating_sub(self.returned.at_ns) > REFAULT_WINDOW_NS {
            return;
        }
        let faults = now.minor_faults.saturating_sub(self.returned.faults);
        let grown = now.resident_bytes.saturating_sub(self.returned.resident_bytes) / PAGE_BYTES;
        let again = faults.min(grown).min(self.returned.pages - self.returned.again_pages);
        self.returned.again_pages += again;
        self.returned.faults = now.minor_faults;
        self.returned.resident_bytes = self.returned.resident_bytes.max(now.resident_bytes);
        self.refaults += again;
        self.account_ns = self.account_ns.saturating_sub(signed(again.saturating_mul(FAULT_NS)));
    }
}

/// The account holds what ten seconds earn: a burst may be answered at once, not for long.
fn account_limit_ns(settings: &Settings) -> i64 {
    signed(settings.budget_permille.saturating_mul(10 * MILLISECOND))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000 * MILLISECOND;

    /// A process that is moved by hand, and the machine that watches it.
    struct Scene {
        now: Observation,
        machine: Adaptive,
    }

    impl Scene {
        fn new(settings: Settings) -> Self {
            let now = Observation { now_ns: SECOND, resident_bytes: 100 * MIB, ..Observation::default() };
            Self { now, machine: Adaptive::new(settings, now) }
        }

        /// Lets time pass on a busy core, with one minor collection.
        fn work(&mut self, ns: u64) -> &mut Self {
            self.now.now_ns += ns;
            self.now.cpu_ns += ns;
            self.now.collections += 1;
            self
        }

        fn rest(&mut self, ns: u64) -> &mut Self {
            self.now.now_ns += ns;
            self
        }

        fn grow(&mut self, bytes: u64) -> &mut Self {
            self.now.resident_bytes += bytes;
            self.now.minor_faults += bytes / PAGE_BYTES;
            self
        }

        fn decide(&mut self) -> Decision {
            self.machine.decide(&self.now)
        }

        fn reason(&mut self) -> Reason {
            match self.decide() {
                Decision::Wait { reason, .. } => reason,
                Decision::Trim { .. } => Reason::Trimmed,
            }
        }

        fn trim(&mut self, returned: u64, took_ns: u64) {
            let before_bytes = self.now.resident_bytes;
            self.now.now_ns += took_ns;
            self.now.resident_bytes -= returned;
            self.machine.trimmed(&Outcome { after: self.now, before_bytes, took_ns });
        }
    }

    #[test]
    fn growth_after_a_collection_is_trimmed() {
        let mut scene = Scene::new(Settings::default());
        assert_eq!(scene.work(SECOND).grow(7 * MIB).reason(), Reason::NoGrowth);
        assert_eq!(scene.work(SECOND).grow(2 * MIB).decide(), Decision::Trim { idle: false });
    }

    #[test]
    fn growth_without_a_collection_is_left_alone() {
        let mut scene = Scene::new(Settings::default());
        assert_eq!(scene.rest(SECOND).grow(500 * MIB).reason(), Reason::NothingHeard);
    }

    #[test]
    fn the_share_of_a_large_process_counts_more_than_the_bytes() {
        let mut scene = Scene::new(Settings::default());
        scene.grow(900 * MIB).work(SECOND).decide();
        scene.trim(0, 0);
        scene.machine.backoff = 1;
        assert_eq!(scene.work(SECOND).grow(49 * MIB).reason(), Reason::NoGrowth);
        assert_eq!(scene.work(SECOND).grow(2 * MIB).reason(), Reason::Trimmed);
    }

    #[test]
    fn the_interval_is_counted_from_the_end_of_the_last_trim() {
        let mut scene = Scene::new(Settings::default());
        scene.work(SECOND).grow(20 * MIB).decide();
        scene.trim(20 * MIB, MILLISECOND);
        assert_eq!(scene.work(200 * MILLISECOND).grow(20 * MIB).reason(), Reason::TooSoon);
        assert_eq!(scene.work(51 * MILLISECOND).reason(), Reason::Trimmed);
    }

    #[test]
    fn time_spent_is_paid_for_before_the_next_trim() {
        let mut scene = Scene::new(Settings::default());
        scene.work(SECOND).grow(64 * MIB).decide();
        // 130 ms at one percent: 100 ms were on the account, 30 ms are three seconds' worth.
        scene.trim(64 * MIB, 130 * MILLISECOND);
        scene.now.minor_faults = 0;
        assert_eq!(scene.work(2 * SECOND).grow(0).reason(), Reason::NoGrowth);
        scene.now.resident_bytes += 64 * MIB;
        assert_eq!(scene.work(SECOND / 2).reason(), Reason::CpuBudget);
        assert_eq!(scene.work(SECOND).reason(), Reason::Trimmed);
    }

    #[test]
    fn pages_needed_again_at_once_are_paid_for_and_named() {
        let mut scene = Scene::new(Settings::default());
        scene.work(SECOND).grow(1024 * MIB).decide();
        scene.trim(1024 * MIB, MILLISECOND);
        assert_eq!(scene.work(SECOND).grow(1024 * MIB).reason(), Reason::Refaulted);
        assert_eq!(scene.machine.take_refaults(), 1024 * MIB / PAGE_BYTES);
        assert_eq!(scene.machine.take_refaults(), 0);
        // 183 ms of faults against 100 ms on the account: nine seconds later it is paid.
        assert_eq!(scene.work(10 * SECOND).reason(), Reason::Trimmed);
    }

    #[test]
    fn faults_that_do_not_grow_the_process_are_not_refaults() {
        let mut scene = Scene::new(Settings::default());
        scene.work(SECOND).grow(64 * MIB).decide();
        scene.trim(64 * MIB, MILLISECOND);
        scene.now.minor_faults += 100_000;
        scene.work(SECOND).decide();
        assert_eq!(scene.machine.take_refaults(), 0);
    }

    #[test]
    fn fruitless_trims_ask_for_ever_more() {
        let mut scene = Scene::new(Settings::default());
        let mut trims = 0;
        for _ in 0..200 {
            scene.work(SECOND).grow(9 * MIB);
            if scene.decide() == (Decision::Trim { idle: false }) {
                scene.trim(0, 10 * MILLISECOND);
                trims += 1;
            }
        }
        assert!(trims < 12, "{trims} trims that brought nothing");
        scene.work(10 * SECOND).grow(2_000 * MIB).decide();
        scene.trim(1_000 * MIB, 20 * MILLISECOND);
        assert_eq!(scene.machine.backoff, 1, "one fruitful trim is trusted");
    }

    #[test]
    fn a_full_collection_counts_once_it_is_swept() {
        let mut scene = Scene::new(Settings::default());
        scene.work(SECOND);
        scene.now.majors += 1;
        assert_eq!(scene.reason(), Reason::NoGrowth);
        assert_eq!(scene.work(100 * MILLISECOND).reason(), Reason::Trimmed);
        scene.trim(30 * MIB, MILLISECOND);
        scene.work(SECOND);
        scene.now.majors += 1;
        assert_eq!(scene.reason(), Reason::NoGrowth);
        scene.now.cpu_ns += 600 * MILLISECOND;
        assert_eq!(scene.rest(600 * MILLISECOND).reason(), Reason::Trimmed);
    }

    #[test]
    fn what_the_allocator_knows_counts_more_than_the_resident_set() {
        let mut scene = Scene::new(Settings::default());
        scene.now.returnable_bytes = Some(0);
        assert_eq!(scene.work(SECOND).grow(100 * MIB).reason(), Reason::NoGrowth);
        scene.now.returnable_bytes = Some(40 * MIB);
        assert_eq!(scene.work(SECOND).reason(), Reason::Trimmed);
    }

    #[test]
    fn falling_idle_returns_the_rest_once_and_then_sleeps() {
        let mut scene = Scene::new(Settings::default());
        scene.machine.account_ns = -signed(60 * SECOND);
        assert_eq!(scene.work(SECOND).grow(50 * MIB).reason(), Reason::CpuBudget);
        let Decision::Wait { look_again_ns: Some(pause), .. } = scene.rest(MILLISECOND).decide() else {
            panic!("a process that has worked is looked at again");
        };
        assert!(pause <= SECOND);
        assert_eq!(scene.rest(SECOND).decide(), Decision::Trim { idle: true });
        scene.trim(50 * MIB, 10 * MILLISECOND);
        let sleep = scene.rest(10 * SECOND).decide();
        assert!(matches!(sleep, Decision::Wait { look_again_ns: None, .. }), "{sleep:?}");
        // It works again and rests again: once more.
        scene.work(SECOND).decide();
        scene.rest(MILLISECOND).decide();
        assert_eq!(scene.rest(2 * SECOND).decide(), Decision::Trim { idle: true });
    }

    #[test]
    fn a_busy_process_is_never_idle() {
        let mut scene = Scene::new(Settings { budget_permille: 0, ..Settings::default() });
        scene.machine.account_ns = -1;
        for _ in 0..100 {
            let decision = scene.work(SECOND).grow(MIB).decide();
            assert!(matches!(decision, Decision::Wait { look_again_ns: Some(_), .. }), "{decision:?}");
        }
    }
}
