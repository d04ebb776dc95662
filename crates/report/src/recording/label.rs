//! Readable names of classes and of origins of code.

use unbloat_recording::{Label, PathStep};

/// Returns a readable name: Ruby's own kinds of objects are in angle brackets.
pub(crate) fn name(label: &Label) -> String {
    let name = label.name.shown();
    match label.kind.raw() {
        "anonymous" => format!("without a name, below {name}"),
        "hidden" => format!("<hidden {name}>"),
        "singleton" | "internal" => format!("<{name}>"),
        "gem" => match &label.version {
            Some(version) => format!("{name} {version}"),
            None => name,
        },
        "application" => "the application".to_owned(),
        "standard_library" => "the standard library".to_owned(),
        "ruby" => "Ruby itself".to_owned(),
        "evaluated" => "evaluated code".to_owned(),
        "rest" => "everything else".to_owned(),
        // Objects and code of which nothing is known, and kinds of a later version.
        kind if label.name.is_empty() => format!("<{}>", unbloat_untrusted::visible(kind)),
        _ => name,
    }
}

/// Renders a path, the root first.
pub(crate) fn path(steps: &[PathStep]) -> String {
    let step = |step: &PathStep| match step.by.is_empty() {
        true => step.what.shown(),
        false => format!("{} {}", step.by, step.what),
    };
    steps.iter().map(step).collect::<Vec<_>>().join(" → ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_name_and_control_characters_none() {
        let label = |kind: &str, text: &str, version: Option<&str>| {
            name(&Label { kind: kind.into(), name: text.into(), version: version.map(Into::into) })
        };
        assert_eq!(label("class", "Leak", None), "Leak");
        assert_eq!(label("internal", "iseq", None), "<iseq>");
        assert_eq!(label("gem", "rack", Some("2.2.4")), "rack 2.2.4");
        assert_eq!(label("rest", "", None), "everything else");
        assert_eq!(label("unknown", "", None), "<unknown>");
        assert!(!label("class\u{1b}", "\u{1b}[2J", None).contains('\u{1b}'));
        assert!(!label("\u{1b}[2J", "", None).contains('\u{1b}'));
    }
}
