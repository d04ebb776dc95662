//! Text chosen by somebody else: command lines, titles, paths, names from memory and from recordings.
//!
//! A process chooses its own name, and Unbloat shows that name to root. So [`Untrusted`] text is only output
//! through an escape that fits the destination:
//!
//! | place | escape |
//! |---|---|
//! | terminals, logs, messages | `Display`: nothing that a terminal acts on, nothing that hides or reorders text |
//! | HTML, SVG | `Display`, then the template's own escape of markup |
//! | shells | [`shell::quoted`], each word by itself |
//! | CSV | [`csv::cell`], no formula |
//! | JSON | serde, then [`json::visible`]; within a script [`json::in_script`] |
//!
//! | module | concept |
//! |---|---|
//! | `visible` | text for the eye: terminals, logs, pages |
//! | `shell` | words for a POSIX shell |
//! | `csv` | cells that no spreadsheet computes |
//! | `json` | documents on terminals, and within a page's script |
//!
//! [`Untrusted::raw`] is only for comparing and storing.

pub mod csv;
pub mod json;
pub mod shell;
mod visible;

pub use visible::visible;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A text chosen by somebody else.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Untrusted(String);

impl Untrusted {
    /// Wraps a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Untrusted(text.into())
    }

    /// Wraps bytes. Invalid UTF-8 becomes U+FFFD.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Untrusted(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns the original text: to compare or store it, never to show it.
    #[must_use]
    pub fn raw(&self) -> &str {
        &self.0
    }

    /// Returns the text as formatted by `Display`, where a `&str` is needed.
    #[must_use]
    pub fn shown(&self) -> String {
        visible(&self.0)
    }

    /// Returns whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Untrusted {
    /// Formats the visible text, honoring width and alignment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&visible(&self.0))
    }
}

impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&visible(&self.0), f)
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Untrusted(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Untrusted(text.to_owned())
    }
}

impl From<&Path> for Untrusted {
    fn from(path: &Path) -> Self {
        Self::from_bytes(path.as_os_str().as_encoded_bytes())
    }
}

impl PartialEq<str> for Untrusted {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Untrusted {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_it_is_formatted_a_terminal_sees_text() {
        let title = Untrusted::from("puma\u{1b}]0;owned\u{7}\u{202e}gnp.exe\nroot# ");
        for shown in [title.to_string(), format!("{title:?}"), format!("{title:>60}"), title.shown()] {
            assert!(!shown.chars().any(char::is_control), "{shown:?}");
            assert!(!shown.contains('\u{202e}'), "{shown:?}");
        }
        assert_eq!(format!("{:<6}|{:>4}", Untrusted::from("ab"), Untrusted::from("c")), "ab    |   c");
    }

    #[test]
    fn json_keeps_the_text_as_it_is() {
        let title = Untrusted::from("a\u{1b}b");
        let document = serde_json::to_string(&title).unwrap_or_default();
        assert_eq!(document, r#""a\u001bb""#);
        assert_eq!(serde_json::from_str::<Untrusted>(&document).ok(), Some(title));
    }
}
