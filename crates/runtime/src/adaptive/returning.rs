//! Chooses when an allocator returns freed pages: at once, or after its own delay.
//!
//! Returning at once keeps the process as small as possible. But the freeing thread then also returns the
//! pages, which prolongs the collection's sweep, and every page that is needed again costs a fault. A burst
//! pays this once at its end; a working server would pay it all the time. So both modes are tried: returns
//! and faults are paid from the account of trims. While the account is positive, memory is returned at once.
//! When it is overdrawn the allocator keeps its delay, and trims take the rest, until the account is full
//! again.

use super::Adaptive;
use super::observation::Observation;

/// The moment at which freed memory is returned to the kernel. The discriminant is the value of the word
/// `Returning` of the status page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returning {
    /// As soon as it is freed, by the freeing thread.
    AtOnce = 1,
    /// After the allocator's initial delay.
    Later = 2,
}

impl Adaptive {
    /// Returns the mode for the allocator from now on; `None` if it is not controllable, or does not count
    /// returned pages, which then could not be paid for. Call after [`Adaptive::decide`].
    pub fn returning(&self) -> Option<Returning> {
        self.last.returned_pages?;
        Some(match self.last.returning? {
            Returning::AtOnce if self.account.is_overdrawn() => Returning::Later,
            Returning::Later if self.account.is_full() => Returning::AtOnce,
            unchanged => unchanged,
        })
    }

    /// Pays for the pages that were returned at once since the last look, and for those of them that were
    /// needed again. The page behind a fault is unknown, so each fault is attributed to one of them as long
    /// as there are any.
    pub(super) fn pay_returns(&mut self, now: &Observation) {
        if now.returning == Some(Returning::AtOnce) {
            let pages = |observation: &Observation| observation.returned_pages.unwrap_or(0);
            let returned = pages(now).saturating_sub(pages(&self.last));
            let faults = now.minor_faults.saturating_sub(self.last.minor_faults);
            self.account.pay_returned(returned, faults.min(returned));
        }
    }
}
