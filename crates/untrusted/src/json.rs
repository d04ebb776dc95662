//! JSON within the `<script>` of a page.

/// A JSON document as an element's content: `<` is written as `\u003c`, so that nothing in it is taken for the end of the
/// script, or for a comment after which that end is not seen (HTML, "Restrictions for contents of script elements").
#[must_use]
pub fn in_script(document: &str) -> String {
    document.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_the_script_and_the_text_comes_back() {
        let text = "</script><!--<script>";
        let document = serde_json::to_string(text).unwrap_or_default();
        let inside = in_script(&document);
        assert!(!inside.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&inside).ok().as_deref(), Some(text));
    }
}
