//! Text for display: on terminals, in logs, on pages.

/// Returns text in which a terminal finds nothing to act on and a reader nothing hidden: control characters,
/// and characters that change the direction of text or have no width, become U+FFFD; line ends and tabs
/// become spaces.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// Returns whether a terminal acts on the character, or a reader does not see it.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control() || is_format(c)
}

/// Returns whether a character only affects the display of others: the category Cf of Unicode 16.0
/// (`UnicodeData.txt`), without those needed to read languages (soft hyphen, joiners, Arabic and Kaithi
/// signs), plus the line and paragraph separators. "Trojan Source" (Boucher and Anderson, 2021) uses these.
fn is_format(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_of_a_terminal_are_taken_apart() {
        assert_eq!(
            visible("\u{1b}[2J\u{9b}31m\u{1b}]52;c;\u{7}"),
            "\u{fffd}[2J\u{fffd}31m\u{fffd}]52;c;\u{fffd}"
        );
        assert_eq!(visible("a\r\nb\tc"), "a  b c");
        assert_eq!(visible("\u{202e}cba\u{2066}\u{200b}"), "\u{fffd}cba\u{fffd}\u{fffd}");
        assert_eq!(visible("naïve café 日本語 👩\u{200d}💻"), "naïve café 日本語 👩\u{200d}💻");
    }

    proptest! {
        #[test]
        fn nothing_but_what_is_dangerous_changes(text in any::<String>()) {
            let shown = visible(&text);
            prop_assert_eq!(shown.chars().count(), text.chars().count());
            prop_assert!(!shown.chars().any(is_hidden));
            prop_assert_eq!(visible(&shown), shown);
        }
    }
}
