//! How often PSS and the census may be taken.
//!
//! Both cost CPU in proportion to the target's size, which nobody knows beforehand. So each has an account that fills
//! with time and from which every reading is paid at what it did cost, afterwards: a reading may be taken while the
//! account is not in debt. The two share what the budget leaves after the cheap samples; what one does not need, because
//! it is not wanted more often, the other gets.

use std::time::Duration;

/// What is taken within the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// PSS, USS and swap of the whole tree.
    Pss,
    /// What the memory is made of.
    Census,
}

/// CPU seconds that an account holds at most: what was saved up in quiet times must not come out as one long burst.
const MOST: f64 = 0.05;

/// About what the census of one GiB costs on a machine of 2023, in CPU seconds: only for the first.
const CENSUS_S_A_GIB: f64 = 0.4;

/// How long after the start the first census is taken, when it is cheap.
const FIRST_CENSUS: Duration = Duration::from_millis(500);

/// How long the first reading waits at most for its account to fill. PSS costs an eighth of a census and does not wait.
const PSS_PATIENCE: Duration = Duration::ZERO;
const CENSUS_PATIENCE: Duration = Duration::from_secs(15);

/// The least share of the budget that PSS and census have, if the cheap samples alone use it up.
const LEAST_SHARE: f64 = 0.25;

/// The two accounts.
#[derive(Debug, Clone)]
pub struct Budget {
    /// CPU seconds a second.
    rate: f64,
    pss: Account,
    census: Account,
}

#[derive(Debug, Clone)]
struct Account {
    interval: Duration,
    since_last: Duration,
    balance: f64,
    first: First,
}

/// What is known of the first reading before it is taken.
#[derive(Debug, Clone, Copy)]
enum First {
    /// It is still to be taken: expected to cost so many seconds, for which is saved up for so long at most.
    Awaited { expected: f64, patience: Duration },
    /// It is taken; this much of its cost is paid already.
    Taken { paid: f64 },
}

impl Account {
    fn new(interval: Duration, patience: Duration) -> Self {
        let first = First::Awaited { expected: 0.0, patience };
        Account { interval, since_last: interval, balance: MOST, first }
    }

    fn is_due(&self) -> bool {
        let Some(over) = self.since_last.checked_sub(self.interval) else { return false };
        self.balance > 0.0 || matches!(self.first, First::Awaited { patience, .. } if over >= patience)
    }

    /// In intervals.
    fn waited(&self) -> f64 {
        self.since_last.as_secs_f64() / self.interval.as_secs_f64()
    }

    /// Pays in; returns what the account does not take.
    fn pay_in(&mut self, seconds: f64) -> f64 {
        let after = self.balance + seconds;
        self.balance = after.min(MOST);
        after - self.balance
    }
}

impl Budget {
    /// `rate` in CPU seconds a second (0.02 is 2 % of one core); the intervals are the shortest that are wanted.
    #[must_use]
    pub fn new(rate: f64, pss_interval: Duration, census_interval: Duration) -> Self {
        let mut census = Account::new(census_interval, CENSUS_PATIENCE);
        // The first census comes a moment after the first PSS: it takes longer, and servers are still starting.
        census.since_last = census_interval.saturating_sub(FIRST_CENSUS);
        Budget { rate, pss: Account::new(pss_interval, PSS_PATIENCE), census }
    }

    /// The first census will be of so many resident bytes. It is saved up for while patience lasts, as every later one is
    /// paid for afterwards. What it really costs is settled then.
    pub fn expect(&mut self, rss_bytes: u64) {
        if let First::Awaited { expected, .. } = &mut self.census.first {
            *expected = rss_bytes as f64 / f64::from(1 << 30) * CENSUS_S_A_GIB;
            self.census.balance -= *expected;
        }
    }

    /// Time has passed in which everything else has used `other_cpu_s` of CPU.
    pub fn pass(&mut self, elapsed: Duration, other_cpu_s: f64) {
        let all = self.rate * elapsed.as_secs_f64();
        let left = (all - other_cpu_s).max(all * LEAST_SHARE);
        let over = self.pss.pay_in(left / 2.0);
        let over = self.census.pay_in(left / 2.0 + over);
        self.pss.pay_in(over);
        self.pss.since_last += elapsed;
        self.census.since_last += elapsed;
    }

    /// What may be taken now; the census first, which is asked for less often, unless PSS has waited for more of its
    /// intervals: a census that takes longer than its own is due again at once, and would leave nothing to PSS.
    #[must_use]
    pub fn due(&self) -> Option<Work> {
        if self.rate <= 0.0 {
            return None;
        }
        match (self.census.is_due(), self.pss.is_due()) {
            (true, true) if self.pss.waited() > self.census.waited() + 1.0 => Some(Work::Pss),
            (true, _) => Some(Work::Census),
            (_, true) => Some(Work::Pss),
            _ => None,
        }
    }

    /// A reading is being taken: the next is due an interval from now.
    pub fn begin(&mut self, work: Work) {
        let account = self.account(work);
        account.since_last = Duration::ZERO;
        if let First::Awaited { expected, .. } = account.first {
            account.first = First::Taken { paid: expected };
        }
    }

    /// A reading has been taken and has cost that much.
    pub fn spend(&mut self, work: Work, cpu_s: f64) {
        let account = self.account(work);
        let paid = match &mut account.first {
            First::Taken { paid } => std::mem::take(paid),
            First::Awaited { .. } => 0.0,
        };
        account.balance -= cpu_s - paid;
    }

    fn account(&mut self, work: Work) -> &mut Account {
        match work {
            Work::Pss => &mut self.pss,
            Work::Census => &mut self.census,
        }
    }
}

#[cfg(test)]
mod tests {
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
                Some(Work::Pss) => (&mut pss, 1),
                None => continue,
            };
            *count += 1;
            budget.pass(Duration::from_secs(seconds), 0.0);
            work.into_iter().for_each(|work| budget.spend(work, 0.1));
        }
        assert!(pss > 20 && census > 20, "{pss} readings of PSS, {census} censuses");
    }

    /// Runs an hour; returns (PSS readings, censuses, their CPU).
    fn hour(budget: &mut Budget, pss_cost: f64, census_cost: f64, other_a_tick: f64) -> (u32, u32, f64) {
        let (mut pss, mut census, mut cpu) = (0, 0, 0.0);
        for _ in 0..36_000 {
            if let Some(work) = budget.due() {
                let cost = match work {
                    Work::Pss => {
                        pss += 1;
                        pss_cost
                    }
                    Work::Census => {
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

    /// Runs until so many seconds have passed; returns when PSS and censuses were taken, and the CPU of all.
    fn run(budget: &mut Budget, seconds: u32, costs: (f64, f64)) -> (Vec<u32>, Vec<u32>, f64) {
        let (mut pss, mut census, mut cpu) = (Vec::new(), Vec::new(), 0.0);
        for tick in 0..seconds * 10 {
            budget.pass(TICK, 0.0);
            let Some(work) = budget.due() else { continue };
            let (times, cost) = match work {
                Work::Pss => (&mut pss, costs.0),
                Work::Census => (&mut census, costs.1),
            };
            times.push(tick);
            cpu += cost;
            budget.begin(work);
            budget.spend(work, cost);
        }
        (pss, census, cpu)
    }

    #[test]
    fn a_large_tree_has_its_first_looks_early_and_pays_for_them() {
        let mut budget = budget();
        budget.expect(4 << 30);
        let (pss, census, cpu) = run(&mut budget, 600, (0.2, 1.6));
        assert_eq!(pss[0], 0);
        assert!((140..=160).contains(&census[0]), "{census:?} in tenths of a second");
        assert!(census[1] > 1500, "{census:?}: the first is paid before the second");
        assert!(cpu / 600.0 < 0.0205 + 1.6 / 600.0, "{cpu} s: all is paid but the last");
        assert_eq!(Budget { rate: 0.0, ..budget }.due(), None);
    }

    #[test]
    fn half_a_minute_of_a_process_of_400_mb_has_both() {
        let mut budget = budget();
        budget.expect(400 << 20);
        let (pss, census, cpu) = run(&mut budget, 30, (0.02, 0.16));
        assert!(pss.len() > 5 && !census.is_empty() && cpu < 0.02 * 30.0 + 0.2, "{pss:?} {census:?} {cpu}");
    }

    #[test]
    fn a_crowd_of_processes_does_not_stop_pss_altogether() {
        let (pss, _, _) = hour(&mut budget(), 0.5, 100.0, 0.01);
        assert!(pss >= 15, "{pss}");
    }
}
