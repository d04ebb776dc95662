//! Documents as JSON text.

use serde::Serialize;
use unbloat_untrusted::json::visible;

/// Formats a document with indentation, for people and programs.
#[must_use]
pub fn pretty(document: &impl Serialize) -> String {
    text(serde_json::to_string_pretty(document))
}

/// Formats a document on one line.
#[must_use]
pub fn line(document: &impl Serialize) -> String {
    text(serde_json::to_string(document))
}

/// Returns the text. Documents are plain structures with string keys, so their serialization cannot fail.
fn text(document: serde_json::Result<String>) -> String {
    visible(&document.unwrap_or_else(|error| unreachable!("{error}")))
}
