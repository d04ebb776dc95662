//! The refusal of options that cannot be carried out, before anything is sent.

/// Why a plan cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub(crate) String);

impl OptionsError {
    /// A refusal.
    pub(crate) fn because(reason: &str) -> Result<(), Self> {
        Err(Self(reason.to_owned()))
    }
}
