//! What an inspection could not tell, and why.

/// A limitation of one inspection, in one sentence, with a code that scripts can rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Stable identifier, for example `ruby-layout-unknown`.
    pub code: &'static str,
    /// What is missing, why, and what can be done.
    pub text: String,
}
