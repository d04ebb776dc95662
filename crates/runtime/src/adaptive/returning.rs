//! Choice of when an allocator gives back freed pages: at once, or after its own delay.
//!
//! At once keeps the process as small as it can be. But the thread that frees also returns the pages, which makes the
//! sweep of a collection longer, and every page that is needed again costs a fault. A burst that is over pays this
//! once; a server at work would pay it all the time. So both are tried: returns and faults are paid from the account
//! of trims. While it pays, memory goes back at once; when it is overdrawn the allocator keeps its delay, and trims
//! take what is left over, until the account is full again.

use super::Adaptive;
use super::observation::Observation;

/// Moment at which freed memory goes back to the kernel. The discriminant is what the word `Returning` of the status page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returning {
    /// As it is freed, by whoever frees it.
    AtOnce = 1,
    /// After the delay that the allocator was started with.
    Later = 2,
}

impl Adaptive {
    /// The allocator's orders from now on; `None` where it cannot be told, or does not count what it gives back: that could not be
    /// paid for. After [`Adaptive::decide`].
    pub fn returning(&self) -> Option<Returning> {
        self.last.returned_pages?;
        Some(match self.last.returning? {
            Returning::AtOnce if self.account.is_overdrawn() => Returning::Later,
            Returning::Later if self.account.is_full() => Returning::AtOnce,
            unchanged => unchanged,
        })
    }

    /// Pays for the pages that went back at once since the last look, and for those of them that were needed again. Which fault was on
    /// which page is not known: each is taken for one of them, as long as there are any.
    pub(super) fn pay_returns(&mut self, now: &Observation) {
        if now.returning == Some(Returning::AtOnce) {
            let pages = |observation: &Observation| observation.returned_pages.unwrap_or(0);
            let returned = pages(now).saturating_sub(pages(&self.last));
            let faults = now.minor_faults.saturating_sub(self.last.minor_faults);
            self.account.pay_returned(returned, faults.min(returned));
        }
    }
}
