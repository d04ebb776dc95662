//! Texts with `{{name}}` placeholders.

/// Iterates over the names in a text.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}").map(|(name, _)| name.trim()))
}

/// Replaces each name in the text; names without a value stay unchanged.
pub(super) fn fill(text: &str, value: &mut impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        out.push_str(before);
        match after.split_once("}}").and_then(|(name, after)| Some((value(name.trim())?, after))) {
            Some((value, after)) => {
                out.push_str(&value);
                rest = after;
            }
            None => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_unknown_ones_stay() {
        let mut value = |name: &str| (name == "a").then(|| "1".to_owned());
        assert_eq!(fill("/x/{{a}}?{{ a }}={{b}}&{{", &mut value), "/x/1?1={{b}}&{{");
        assert_eq!(names("{{a}} {{ b }} {{").collect::<Vec<_>>(), ["a", "b"]);
    }
}
