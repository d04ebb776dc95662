//! Suggestions for unknown words.

/// Returns the nearest of the known keys, to be appended to serde's "unknown field `x`, expected one of `a`,
/// `b`".
pub(super) fn nearest_key(message: &str) -> String {
    if !message.starts_with("unknown field") && !message.starts_with("unknown variant") {
        return String::new();
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(unknown) = quoted.next() else { return String::new() };
    let known: Vec<&str> = quoted.collect();
    nearest(unknown, &known).map_or(String::new(), |near| format!("did you mean `{near}`?\n"))
}

/// Returns the known word that is most similar to another.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let scored = known.iter().map(|k| (*k, strsim::jaro_winkler(word, k)));
    scored.filter(|(_, score)| *score > 0.7).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(k, _)| k)
}
