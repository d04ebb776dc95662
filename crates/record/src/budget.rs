//! Decides how often PSS, the census and looks at Rubies may be taken.
//!
//! All cost CPU in proportion to the target's size. Each has an account that fills over time. A reading is
//! taken when its account holds the expected cost: that of the last reading, plus a rate for the target's
//! growth since. The account then pays the actual cost. They share whatever the cheap samples leave of the
//! budget; the unused part of one account goes to the others. Where there is no Ruby, there is no account for it.

use std::time::Duration;

/// A reading that requires a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// PSS, USS and swap of the whole tree.
    Pss,
    /// The census.
    Census,
    /// Objects by class and code by gem, of Rubies.
    Classes,
    /// The holders of some classes, paid by the account of [`Work::Classes`]. It may cost more than that has
    /// saved; then the next look waits.
    Holders,
}

/// Maximum CPU seconds in an account beyond the cost of its next reading: savings from quiet times must not
/// turn into one long burst.
const MOST: f64 = 0.05;

/// Approximate cost of reading one GiB for the first time on a machine of 2023, in CPU seconds.
const PSS_S_A_GIB: f64 = 0.02;
const CENSUS_S_A_GIB: f64 = 0.4;
const CLASSES_S_A_GIB: f64 = 2.0;

/// Time from the start to the first census, if it is cheap.
const FIRST_CENSUS: Duration = Duration::from_millis(500);

/// Minimum share of the budget for PSS and census, if the cheap samples alone use it up.
const LEAST_SHARE: f64 = 0.25;

/// The accounts.
#[derive(Debug, Clone)]
pub struct Budget {
    /// CPU seconds per second.
    rate: f64,
    /// Resident bytes of the tree.
    size: u64,
    pss: Account,
    census: Account,
    /// Absent until a census has found a Ruby.
    classes: Option<Account>,
    class_interval: Option<Duration>,
}

#[derive(Debug, Clone)]
struct Account {
    interval: Duration,
    since_last: Duration,
    balance: f64,
    /// Cost of bytes that were not read before, in seconds per GiB.
    a_gib: f64,
    /// The last reading: its cost, and the number of bytes read.
    last: (f64, u64),
}

impl Account {
    fn new(interval: Duration, a_gib: f64) -> Self {
        Account { interval, since_last: interval, balance: MOST, a_gib, last: (0.0, 0) }
    }

    /// Returns the expected cost of the next reading in CPU seconds.
    fn expected(&self, size: u64) -> f64 {
        let (cost, read) = self.last;
        cost + size.saturating_sub(read) as f64 / f64::from(1 << 30) * self.a_gib
    }

    fn is_due(&self, size: u64) -> bool {
        self.since_last >= self.interval && self.balance > 0.0 && self.balance >= self.expected(size)
    }

    /// Returns the time since the last reading, in intervals.
    fn waited(&self) -> f64 {
        self.since_last.as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Pays in; returns the part that the account does not accept.
    fn pay_in(&mut self, seconds: f64, size: u64) -> f64 {
        let after = self.balance + seconds;
        self.balance = after.min(MOST.max(self.expected(size)));
        after - self.balance
    }
}

impl Budget {
    /// Creates a budget. `rate` is in CPU seconds per second (0.02 is 2 % of one core); the intervals are
    /// minimums.
    #[must_use]
    pub fn new(rate: f64, pss_interval: Duration, census_interval: Duration) -> Self {
        let mut census = Account::new(census_interval, CENSUS_S_A_GIB);
        // The first census follows shortly after the first PSS: it takes longer, and servers are still
        // starting.
        census.since_last = census_interval.saturating_sub(FIRST_CENSUS);
        let pss = Account::new(pss_interval, PSS_S_A_GIB);
        Budget { rate, size: 0, pss, census, classes: None, class_interval: None }
    }

    /// Allows looks at Rubies, at least this interval apart.
    #[must_use]
    pub fn with_classes(self, interval: Option<Duration>) -> Self {
        Budget { class_interval: interval, ..self }
    }

    /// Starts or ends paying for looks at Rubies, depending on their existence.
    pub fn want_classes(&mut self, wanted: bool) {
        let interval = self.class_interval.filter(|_| wanted);
        let account = self.classes.take();
        self.classes =
            interval.map(|interval| account.unwrap_or_else(|| Account::new(interval, CLASSES_S_A_GIB)));
    }

    /// Updates the tree's resident bytes.
    pub fn resize(&mut self, rss_bytes: u64) {
        self.size = rss_bytes;
    }

    /// Lets time pass during which everything else used `other_cpu_s` of CPU.
    pub fn pass(&mut self, elapsed: Duration, other_cpu_s: f64) {
        let size = self.size;
        let all = self.rate * elapsed.as_secs_f64();
        let left = (all - other_cpu_s).max(all * LEAST_SHARE);
        let share = left / if self.classes.is_some() { 3.0 } else { 2.0 };
        let mut surplus = self.pss.pay_in(share, size);
        if let Some(classes) = &mut self.classes {
            surplus = classes.pay_in(share + surplus, size);
            classes.since_last += elapsed;
        }
        let mut surplus = self.census.pay_in(share + surplus, size);
        if let Some(classes) = &mut self.classes {
            surplus = classes.pay_in(surplus, size);
        }
        self.pss.pay_in(surplus, size);
        self.pss.since_last += elapsed;
        self.census.since_last += elapsed;
    }

    /// Returns the reading that may be taken now. Those that are requested less often come first, unless another
    /// has waited for more of its intervals: a census that takes longer than its own interval is
    /// due again at once, and would leave nothing to PSS.
    #[must_use]
    pub fn due(&self) -> Option<Work> {
        if self.rate <= 0.0 {
            return None;
        }
        let mut due: Option<(Work, f64)> = None;
        // The rarest first.
        let accounts = [
            (Work::Classes, self.classes.as_ref()),
            (Work::Census, Some(&self.census)),
            (Work::Pss, Some(&self.pss)),
        ];
        for (work, account) in accounts {
            let Some(account) = account.filter(|account| account.is_due(self.size)) else { continue };
            if due.is_none_or(|(_, waited)| account.waited() > waited + 1.0) {
                due = Some((work, account.waited()));
            }
        }
        due.map(|(work, _)| work)
    }

    /// Starts a reading; the next is due an interval from now.
    pub fn begin(&mut self, work: Work) {
        if let Some(account) = self.account(work) {
            account.since_last = Duration::ZERO;
        }
    }

    /// Charges a finished reading with its cost.
    pub fn spend(&mut self, work: Work, cpu_s: f64) {
        let size = self.size;
        let Some(account) = self.account(work) else { return };
        account.balance -= cpu_s;
        // A search for holders says nothing about the cost of the next look.
        if work != Work::Holders {
            account.last = (cpu_s, size);
        }
    }

    /// Returns the account that pays; `None` if the Rubies have ended meanwhile.
    fn account(&mut self, work: Work) -> Option<&mut Account> {
        match work {
            Work::Pss => Some(&mut self.pss),
            Work::Census => Some(&mut self.census),
            Work::Classes | Work::Holders => self.classes.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    #[test]
    fn a_census_that_takes_longer_than_its_interval_leaves_time_for_pss() {
        let mut budget = Budget::new(1.0, TICK, Duration::from_secs(1));
        let (mut pss, mut census) = (0, 0);
        for _ in 0..100 {
            let work = budget.due();
            work.into_iter().for_each(|work| budget.begin(work));
            let (count, seconds) = match work {
                Some(Work::Census) => (&mut census, 2),
                Some(_) => (&mut pss, 1),
                None => continue,
            };
            *count += 1;
            budget.pass(Duration::from_secs(seconds), 0.0);
            work.into_iter().for_each(|work| budget.spend(work, 0.1));
        }
        assert!(pss > 20 && census > 20, "{pss} readings of PSS, {census} censuses");
    }

    /// Runs for an hour; returns (PSS readings, censuses, their CPU).
    fn hour(budget: &mut Budget, pss_cost: f64, census_cost: f64, other_a_tick: f64) -> (u32, u32, f64) {
        let (mut pss, mut census, mut cpu) = (0, 0, 0.0);
        for _ in 0..36_000 {
            if let Some(work) = budget.due() {
                let cost = match work {
                    Work::Pss => {
                        pss += 1;
                        pss_cost
                    }
                    _ => {
                        census += 1;
                        census_cost
                    }
                };
                budget.begin(work);
                budget.spend(work, cost);
                cpu += cost;
            }
            budget.pass(TICK, other_a_tick);
        }
        (pss, census, cpu)
    }

    fn budget() -> Budget {
        Budget::new(0.02, TICK, Duration::from_secs(10))
    }

    #[test]
    fn cheap_targets_are_read_as_often_as_asked_and_not_more() {
        let (pss, census, _) = hour(&mut budget(), 0.0002, 0.005, 0.0001);
        assert!((35_000..=36_000).contains(&pss), "{pss}");
        assert_eq!(census, 360);
    }

    #[test]
    fn dear_targets_are_read_as_the_budget_allows_and_neither_starves() {
        let other = 0.0005;
        let (pss, census, cpu) = hour(&mut budget(), 0.045, 6.0, other);
        let whole = (cpu + other * 36_000.0) / 3600.0;
        // The last census may still be unpaid.
        assert!(whole < 0.0205 + 6.0 / 3600.0, "{whole} of a core");
        assert!(pss > 500 && census >= 4, "{pss} {census}");
    }

    #[test]
    fn what_one_does_not_need_the_other_gets() {
        let (_, census, cpu) = hour(&mut budget(), 0.00001, 1.0, 0.0);
        assert!(census > 60, "{census}: more than its own half allows (36)");
        assert!(cpu / 3600.0 < 0.0205 + 1.0 / 3600.0);
    }

    /// Simulates ten minutes of a tree of this size whose readings cost as much as expected. At no moment has
    /// more been spent than the budget plus the accounts' initial balances. Returns the times of PSS readings
    /// and censuses, in tenths of a second.
    fn ten_minutes(size: u64) -> (Vec<u32>, Vec<u32>) {
        let (mut budget, gib) = (budget(), size as f64 / f64::from(1 << 30));
        budget.resize(size);
        let (mut pss, mut census, mut cpu) = (Vec::new(), Vec::new(), 0.0);
        for tick in 0..6000 {
            budget.pass(TICK, 0.0);
            let Some(work) = budget.due() else { continue };
            let (times, cost) = match work {
                Work::Pss => (&mut pss, PSS_S_A_GIB * gib),
                _ => (&mut census, CENSUS_S_A_GIB * gib),
            };
            times.push(tick);
            cpu += cost;
            budget.begin(work);
            budget.spend(work, cost);
            let allowed = 2.0 * MOST + 0.02 * f64::from(tick + 1) / 10.0;
            assert!(cpu <= allowed + 1e-9, "{cpu} s of {allowed} s spent after {tick} ticks");
        }
        (pss, census)
    }

    #[test]
    fn the_readings_of_a_large_tree_are_saved_up_for() {
        let (pss, census) = ten_minutes(4 << 30);
        assert!(pss[0] < 50 && pss.len() > 60, "{pss:?}");
        assert!(census.len() >= 3, "{census:?}");
        assert_eq!(Budget { rate: 0.0, ..budget() }.due(), None);
    }

    #[test]
    fn half_a_minute_of_a_process_of_400_mb_has_both() {
        let (pss, census) = ten_minutes(400 << 20);
        assert_eq!(pss[0], 0);
        assert!(census[0] < 200, "{census:?}");
    }

    #[test]
    fn a_tree_that_grows_after_its_first_census_is_not_mistaken_for_a_small_one() {
        let mut budget = budget();
        budget.resize(1 << 20);
        budget.pass(TICK * 10, 0.0);
        for work in [Work::Pss, Work::Census] {
            budget.begin(work);
            budget.spend(work, 0.001);
        }
        budget.resize(4 << 30);
        budget.pass(Duration::from_secs(20), 0.0);
        assert_eq!(budget.due(), Some(Work::Pss), "a census of 4 GiB is not affordable yet");
    }

    /// An hour with Rubies; returns the numbers of (PSS, censuses, looks, searches), and all CPU.
    fn hour_with_rubies(costs: [f64; 4]) -> ([u32; 4], f64) {
        let mut budget = budget().with_classes(Some(Duration::from_secs(30)));
        budget.want_classes(true);
        let (mut counts, mut cpu) = ([0; 4], 0.0);
        for _ in 0..36_000 {
            if let Some(due) = budget.due() {
                // Every fourth look is a search.
                let work = if due == Work::Classes && counts[2] % 4 == 3 { Work::Holders } else { due };
                let place =
                    [Work::Pss, Work::Census, Work::Classes, Work::Holders].iter().position(|w| *w == work);
                let place = place.unwrap();
                counts[place] += 1;
                counts[2] += u32::from(work == Work::Holders);
                cpu += costs[place];
                budget.begin(work);
                budget.spend(work, costs[place]);
            }
            budget.pass(TICK, 0.0);
        }
        (counts, cpu)
    }

    #[test]
    fn looks_at_rubies_are_saved_up_for_and_starve_nothing() {
        let ([pss, census, looks, searches], cpu) = hour_with_rubies([0.01, 0.15, 0.4, 1.6]);
        assert!(cpu / 3600.0 < 0.0205 + 1.6 / 3600.0, "{} of a core", cpu / 3600.0);
        assert!(
            pss > 1500 && census > 100 && looks > 24 && searches > 5,
            "{pss} {census} {looks} {searches}"
        );
    }

    #[test]
    fn cheap_looks_at_rubies_keep_their_interval_and_end_with_them() {
        let ([_, census, looks, _], _) = hour_with_rubies([0.0001, 0.001, 0.002, 0.002]);
        assert_eq!((census, looks), (360, 120));
        let mut budget = budget().with_classes(Some(TICK));
        assert_ne!(budget.due(), Some(Work::Classes), "no Ruby was found yet");
        budget.want_classes(true);
        assert_eq!(budget.due(), Some(Work::Classes));
        budget.want_classes(false);
        assert_ne!(budget.due(), Some(Work::Classes));
        let mut budget = budget.with_classes(None);
        budget.want_classes(true);
        assert_ne!(budget.due(), Some(Work::Classes));
    }

    #[test]
    fn a_crowd_of_processes_does_not_stop_pss_altogether() {
        let (pss, _, _) = hour(&mut budget(), 0.5, 100.0, 0.01);
        assert!(pss >= 15, "{pss}");
    }
}
