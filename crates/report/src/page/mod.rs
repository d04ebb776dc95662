//! The shell of every page: one style sheet, one script, one switch between light and dark.
//!
//! A page is one self-contained file. Its content security policy keeps it off the network, whatever it
//! contains.

use crate::palette;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use unbloat_untrusted::{json, visible};

const STYLE: &str = include_str!("../../assets/page.css");
const SCRIPT: &str = include_str!("../../assets/page.js");

/// A page and its content.
#[derive(Debug)]
pub(crate) struct Page<'a> {
    /// The command that made it: `unbloat inspect`.
    pub(crate) command: &'a str,
    /// The heading.
    pub(crate) title: &'a str,
    /// Place, time and size, in small print.
    pub(crate) subtitle: &'a str,
    /// The content, as sections.
    pub(crate) body: Markup,
    /// Style sheets and scripts of the content, beside the shell's own.
    pub(crate) parts: &'a [Part],
}

/// The style sheet and script of a component of pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The style sheet.
    pub(crate) style: &'static str,
    /// The script, which may be empty. The shell's own runs first.
    pub(crate) script: &'static str,
}

impl Page<'_> {
    /// Renders the whole file.
    #[must_use]
    pub(crate) fn render(self) -> String {
        let Page { command, title, subtitle, body, parts } = self;
        let (title, subtitle) = (visible(title), visible(subtitle));
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy"
                        content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
                    title { (title) " · " (command) }
                    style {
                        (PreEscaped(palette::style())) (PreEscaped(STYLE))
                        @for part in parts { (PreEscaped(part.style)) }
                    }
                }
                body {
                    header {
                        div {
                            p.tool { (command) }
                            h1 { (title) }
                            p.quiet { (subtitle) }
                        }
                        button #theme type="button" hidden { "light / dark" }
                    }
                    main { (body) }
                    div #tip role="status" hidden {}
                    script { (PreEscaped(SCRIPT)) }
                    @for part in parts.iter().filter(|part| !part.script.is_empty()) { script { (PreEscaped(part.script)) } }
                }
            }
        };
        page.into_string()
    }
}

/// Renders a section under a heading, with a note on how to read it.
#[must_use]
pub(crate) fn section(heading: &str, note: &str, body: &Markup) -> Markup {
    html! {
        section {
            h2 { (visible(heading)) }
            @if !note.is_empty() { p.quiet { (visible(note)) } }
            (body)
        }
    }
}

/// Renders data for a script, escaped such that it cannot end the element.
#[must_use]
pub(crate) fn data(class: &str, data: &impl Serialize) -> Markup {
    let text = serde_json::to_string(data).unwrap_or_else(|error| unreachable!("plain data: {error}"));
    html! { script type="application/json" class=(class) { (PreEscaped(json::in_script(&text))) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</title></script><!--<script><img src=x onerror='alert(1)'>\u{1b}[2J";

    fn page() -> String {
        let body = section(HOSTILE, HOSTILE, &data("data", &HOSTILE));
        let part = Part { style: "b{}", script: "1;" };
        Page { command: "unbloat test", title: HOSTILE, subtitle: HOSTILE, body, parts: &[part] }.render()
    }

    #[test]
    fn nothing_of_a_text_is_markup() {
        let page = page();
        assert!(!page.contains("<img") && !page.contains("<!--") && !page.contains('\u{1b}'), "{page}");
        assert_eq!(page.matches("<script").count(), 3, "the data, the shell's and the part's");
        assert_eq!(page.matches("</script").count(), 3);
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let page = page();
        for forbidden in ["http:", "https:", "@import", "url(", "<link"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
    }
}
