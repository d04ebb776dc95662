//! Documents as JSON text.

use serde::Serialize;
use unbloat_untrusted::json::visible;

/// A document for people and programs: indented.
#[must_use]
pub fn pretty(document: &impl Serialize) -> String {
    text(serde_json::to_string_pretty(document))
}

/// A document in one line.
#[must_use]
pub fn line(document: &impl Serialize) -> String {
    text(serde_json::to_string(document))
}

/// Documents are plain structures with text as keys, whose serialization has no way to fail.
fn text(document: serde_json::Result<String>) -> String {
    visible(&document.unwrap_or_else(|error| unreachable!("{error}")))
}
