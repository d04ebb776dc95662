//! Errors for options that cannot be carried out, raised before anything is sent.

/// The reason why options cannot be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct OptionsError(pub(crate) String);

impl OptionsError {
    /// Returns a refusal with this reason.
    pub(crate) fn because(reason: &str) -> Result<(), Self> {
        Err(Self(reason.to_owned()))
    }
}
