//! The status that `libunbloat.so` reports in a process started by `unbloat run`.

use serde::{Deserialize, Serialize};
use unbloat_contract::{Snapshot, Text, Word};
use unbloat_untrusted::Untrusted;

/// The runtime's status at the moment of the inspection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The policy in force, in the spelling of `unbloat run --policy`.
    pub policy: Untrusted,
    /// Number of times it returned freed memory.
    pub trims: u64,
    /// Total bytes by which this shrank the resident set.
    pub returned_bytes: u64,
    /// The part of the policy that does not work here, and the reason.
    pub problem: Option<Untrusted>,
}

impl From<&Snapshot> for Runtime {
    fn from(page: &Snapshot) -> Self {
        let text = |place| -> Untrusted { page.text(place, &mut [0; 256]).trim().into() };
        Runtime {
            policy: text(Text::Policy),
            trims: page.word(Word::Trims),
            returned_bytes: page.word(Word::TrimReturnedBytes),
            problem: Some(text(Text::Notice)).filter(|notice: &Untrusted| !notice.is_empty()),
        }
    }
}
