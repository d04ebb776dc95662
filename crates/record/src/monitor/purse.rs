//! The CPU time that may be spent on readings of single processes.

/// A kind of reading that the purse pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// PSS and USS.
    Pss,
    /// A look: the census and everything that comes with it.
    Census,
}

/// Maximum CPU seconds saved beyond the cost of the next reading.
const MOST: f64 = 0.05;
/// Minimum share of the budget for readings, if everything else uses it up.
const LEAST_SHARE: f64 = 0.25;

/// Two accounts, one for each kind of reading, so that neither waits for the other's savings. What one does not need
/// goes to the other.
#[derive(Debug, Clone)]
pub(super) struct Purse {
    /// CPU seconds per second.
    rate: f64,
    pss: f64,
    census: f64,
}

impl Purse {
    pub(super) fn new(rate: f64) -> Self {
        Purse { rate, pss: MOST.min(rate), census: MOST.min(rate) }
    }

    /// Lets time pass during which everything else used `other_s` of CPU. `next` is the expected cost of the next
    /// reading of each kind: PSS, census.
    pub(super) fn pass(&mut self, elapsed_s: f64, other_s: f64, next: [f64; 2]) {
        let all = self.rate * elapsed_s;
        let left = (all - other_s).max(all * LEAST_SHARE);
        let over = pay_in(&mut self.pss, left / 2.0, next[0]);
        let over = pay_in(&mut self.census, left / 2.0 + over, next[1]);
        pay_in(&mut self.pss, over, next[0]);
    }

    /// Returns whether a reading of this expected cost may be taken now.
    pub(super) fn affords(&self, work: Work, expected_s: f64) -> bool {
        let balance = match work {
            Work::Pss => self.pss,
            Work::Census => self.census,
        };
        balance > 0.0 && balance >= expected_s
    }

    /// Charges a reading with its actual cost.
    pub(super) fn spend(&mut self, work: Work, cost_s: f64) {
        match work {
            Work::Pss => self.pss -= cost_s,
            Work::Census => self.census -= cost_s,
        }
    }
}

/// Pays in; returns the part that the account does not accept.
fn pay_in(balance: &mut f64, seconds: f64, next: f64) -> f64 {
    let after = *balance + seconds;
    *balance = after.min(MOST.max(next));
    after - *balance
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates ten minutes of readings that are always wanted; returns their number and CPU.
    fn ten_minutes(pss_s: f64, census_s: f64, other_s: f64) -> ([u32; 2], f64) {
        let (mut purse, mut taken, mut cpu) = (Purse::new(0.02), [0, 0], 0.0);
        for _ in 0..6000 {
            purse.pass(0.1, other_s * 0.1, [pss_s, census_s]);
            for (i, (work, cost)) in [(Work::Pss, pss_s), (Work::Census, census_s)].into_iter().enumerate() {
                if purse.affords(work, cost) {
                    purse.spend(work, cost);
                    taken[i] += 1;
                    cpu += cost;
                }
            }
        }
        (taken, cpu)
    }

    #[test]
    fn the_budget_is_kept_and_neither_kind_starves() {
        for (pss_s, census_s) in [(0.001, 0.01), (0.05, 2.0), (0.5, 0.001)] {
            let ([pss, census], cpu) = ten_minutes(pss_s, census_s, 0.0);
            assert!(cpu <= 0.02 * 600.0 + 2.0 * MOST, "{cpu} s");
            assert!(pss > 0 && census > 0, "{pss} {census}");
        }
    }

    #[test]
    fn everything_else_is_paid_first() {
        let (_, alone) = ten_minutes(0.001, 0.01, 0.0);
        let (_, beside) = ten_minutes(0.001, 0.01, 0.01);
        assert!(beside + 0.01 * 600.0 <= 0.02 * 600.0 + 2.0 * MOST, "{beside}");
        assert!(beside < alone);
        assert!(ten_minutes(0.001, 0.01, 1.0).0[0] > 0, "a quarter is left in any case");
    }

    #[test]
    fn what_was_not_expected_is_paid_off() {
        let mut purse = Purse::new(0.02);
        purse.spend(Work::Census, 4.0);
        purse.pass(100.0, 0.0, [0.0, 0.0]);
        assert!(!purse.affords(Work::Census, 0.0) && purse.affords(Work::Pss, 0.01));
        purse.pass(200.0, 0.0, [0.0, 0.0]);
        assert!(purse.affords(Work::Census, 0.0));
        assert!(!Purse::new(0.0).affords(Work::Pss, 0.0));
    }
}
