//! JSON on terminals, and within a page's `<script>`.

use crate::visible::is_hidden;
use std::fmt::Write as _;

/// Returns an equivalent document with nothing that a terminal acts on. Control characters, and characters
/// that hide or reorder text, only occur in strings; they are written as `\u` escapes.
#[must_use]
pub fn visible(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for c in document.chars() {
        if c == '\n' || !is_hidden(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

/// Formats a JSON document as an element's content: `<` is written as `\u003c`, so that nothing in it is
/// mistaken for the end of the script, or for a comment that hides that end (HTML, "Restrictions for contents
/// of script elements").
#[must_use]
pub fn in_script(document: &str) -> String {
    document.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_on_a_terminal_says_the_same() {
        let text = "\u{9b}31m \u{7f} \u{1b} \n \u{202e} \u{e0001} é 日本";
        let document = serde_json::to_string_pretty(&[text]).unwrap_or_default();
        let shown = visible(&document);
        assert!(!shown.contains(|c: char| c != '\n' && is_hidden(c)), "{shown:?}");
        assert!(
            shown.contains("\\u009b31m") && shown.contains("\\udb40\\udc01") && shown.contains("é 日本"),
            "{shown}"
        );
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).ok(), Some(vec![text.to_owned()]));
    }

    #[test]
    fn nothing_ends_the_script_and_the_text_comes_back() {
        let text = "</script><!--<script>";
        let document = serde_json::to_string(text).unwrap_or_default();
        let inside = in_script(&document);
        assert!(!inside.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&inside).ok().as_deref(), Some(text));
    }
}
