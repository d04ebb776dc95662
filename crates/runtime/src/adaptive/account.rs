//! The account of trimming costs: CPU time, from which both the trims and the page faults on returned memory
//! are paid.

use super::{MILLISECOND, Observation, Settings, TrimOutcome};

/// Cost of one minor fault on a fresh page, in nanoseconds: the exception, the zeroing and the page table.
///
/// Measured at 0.5–0.9 µs on x86-64 virtual machines; only the order of magnitude matters.
const FAULT_NS: u64 = 700;

/// Cost of returning a page for the thread that frees it, in nanoseconds: mostly `madvise`.
///
/// `bench/stalls`: collections that freed 50 MiB took up to 37 ms longer with a delay of 0 than without.
const RETURN_NS: u64 = 2_900;

/// Size of a page for fault counting. A larger page makes the estimate of refaults an overestimate.
pub(super) const PAGE_BYTES: u64 = 4096;

/// Time after a trim during which a fault counts as caused by it, in nanoseconds.
const REFAULT_WINDOW_NS: u64 = 5_000 * MILLISECOND;

/// An account that fills at a small share of a core, and is empty or overdrawn while trimming has to wait.
#[derive(Debug)]
pub(super) struct Account {
    /// Income in thousandths of a core.
    income_permille: u64,
    /// Nanoseconds of CPU time; negative if overdrawn.
    balance_ns: i64,
    returned: Returned,
    /// Refaulted pages that have not been collected yet.
    refaults: u64,
}

/// The bytes of the last trim, and how many of them came back.
#[derive(Debug, Clone, Copy, Default)]
struct Returned {
    at_ns: u64,
    pages: u64,
    faults: u64,
    resident_bytes: u64,
    again_pages: u64,
}

impl Account {
    /// Creates a full account.
    pub(super) fn new(settings: &Settings) -> Self {
        let income_permille = settings.budget_permille;
        Self {
            income_permille,
            balance_ns: limit_ns(income_permille),
            returned: Returned::default(),
            refaults: 0,
        }
    }

    /// Returns whether nothing may be spent now.
    pub(super) fn is_overdrawn(&self) -> bool {
        self.balance_ns < 0
    }

    /// Returns whether nothing was spent for so long that no more is saved.
    pub(super) fn is_full(&self) -> bool {
        self.income_permille > 0 && self.balance_ns >= limit_ns(self.income_permille)
    }

    /// Returns whether at least half of the last trim's memory was needed again.
    pub(super) fn was_refaulted(&self) -> bool {
        self.returned.pages > 0 && self.returned.again_pages.saturating_mul(2) >= self.returned.pages
    }

    /// Returns the pages of recent trims that were needed again since the last call.
    pub(super) fn take_refaults(&mut self) -> u64 {
        core::mem::take(&mut self.refaults)
    }

    /// Earns for the time since `before`.
    pub(super) fn earn(&mut self, before: &Observation, now: &Observation) {
        let elapsed = now.now_ns.saturating_sub(before.now_ns);
        let earned = signed((elapsed / 1000).saturating_mul(self.income_permille));
        self.balance_ns = self.balance_ns.saturating_add(earned).min(limit_ns(self.income_permille));
    }

    /// Pays for a trim, and starts to watch the returned memory.
    pub(super) fn pay_trim(&mut self, outcome: &TrimOutcome) {
        self.pay(outcome.took_ns);
        self.returned = Returned {
            at_ns: outcome.after.now_ns,
            pages: outcome.returned_bytes() / PAGE_BYTES,
            faults: outcome.after.minor_faults,
            resident_bytes: outcome.after.resident_bytes,
            again_pages: 0,
        };
    }

    /// Pays for returned pages that are resident again.
    pub(super) fn pay_refaults(&mut self, now: &Observation) {
        if now.now_ns.saturating_sub(self.returned.at_ns) > REFAULT_WINDOW_NS {
            return;
        }
        let faults = now.minor_faults.saturating_sub(self.returned.faults);
        let grown = now.resident_bytes.saturating_sub(self.returned.resident_bytes) / PAGE_BYTES;
        let again = faults.min(grown).min(self.returned.pages.saturating_sub(self.returned.again_pages));
        self.returned.again_pages = self.returned.again_pages.saturating_add(again);
        self.returned.faults = now.minor_faults;
        self.returned.resident_bytes = self.returned.resident_bytes.max(now.resident_bytes);
        self.pay_faults(again);
    }

    /// Pays for pages that were returned one by one, and for those of them that were needed again.
    pub(super) fn pay_returned(&mut self, pages: u64, again: u64) {
        self.pay(pages.saturating_mul(RETURN_NS));
        self.pay_faults(again);
    }

    /// Pays for pages that had been returned and were needed again.
    fn pay_faults(&mut self, pages: u64) {
        self.refaults = self.refaults.saturating_add(pages);
        self.pay(pages.saturating_mul(FAULT_NS));
    }

    fn pay(&mut self, ns: u64) {
        self.balance_ns = self.balance_ns.saturating_sub(signed(ns));
    }

    #[cfg(test)]
    pub(super) fn overdraw(&mut self) {
        self.balance_ns = -signed(60_000 * MILLISECOND);
    }
}

/// Returns the maximum balance, ten seconds of income, so that a burst is answered at once but not for long.
fn limit_ns(income_permille: u64) -> i64 {
    signed(income_permille.saturating_mul(10 * MILLISECOND))
}

fn signed(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
