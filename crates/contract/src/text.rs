//! Functions to cut and split texts that cannot panic, unlike the standard library's searches by character:
//! the runtime must not panic.

/// Returns the longest prefix of a text that has at most `max_bytes` bytes and ends between characters.
pub fn cut(text: &str, max_bytes: usize) -> &str {
    (0..=max_bytes.min(text.len())).rev().find_map(|end| text.get(..end)).unwrap_or_default()
}

/// Splits a text at its separators, which are ASCII.
pub fn parts<'a>(text: &'a str, separators: &'static [u8]) -> impl DoubleEndedIterator<Item = &'a str> {
    let parts = text.as_bytes().split(|byte| separators.contains(byte));
    parts.map(|part| core::str::from_utf8(part).unwrap_or_default())
}

/// Splits a text at the first separator, which is ASCII.
pub fn split_once(text: &str, separator: u8) -> Option<(&str, &str)> {
    let end = text.bytes().position(|byte| byte == separator)?;
    Some((text.get(..end)?, text.get(end.saturating_add(1)..)?))
}

/// Splits a text at the last separator, which is ASCII.
pub fn split_last(text: &str, separator: u8) -> Option<(&str, &str)> {
    let end = text.bytes().rposition(|byte| byte == separator)?;
    Some((text.get(..end)?, text.get(end.saturating_add(1)..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!((cut("aé", 2), cut("aé", 3), cut("aé", 9), cut("é", 0)), ("a", "aé", "aé", ""));
    }

    #[test]
    fn splitting_is_that_of_the_standard_library() {
        for text in ["", ":", "a", "a:b", ":a:é:b:", "é::"] {
            assert!(parts(text, b":").eq(text.split(':')), "{text}");
            assert_eq!(split_once(text, b':'), text.split_once(':'));
            assert_eq!(split_last(text, b':'), text.rsplit_once(':'));
        }
        assert!(parts("a b:c", b" :").eq(["a", "b", "c"]));
    }
}
