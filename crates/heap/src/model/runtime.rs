//! The account that `libunbloat.so` gives of itself in a process that runs under `unbloat run`.

use serde::{Deserialize, Serialize};
use unbloat_contract::{Snapshot, Text, Word};
use unbloat_untrusted::Untrusted;

/// The runtime's account at the moment of the look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runtime {
    /// The policy in force, spelled as `unbloat run --policy` takes it.
    pub policy: Untrusted,
    /// How often it gave freed memory back.
    pub trims: u64,
    /// Bytes by which the resident set shrank over all of those.
    pub returned_bytes: u64,
    /// What of the policy does not work here and why.
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
