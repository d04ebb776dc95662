//! The search that led to a comparison: setups tried and not tried.

use crate::page::section;
use crate::tune::{NOTE, columns, fate, left_out, ratio};
use maud::{Markup, html};
use unbloat_lab::tune::SearchResult;
use unbloat_untrusted::visible;

/// Renders the section; empty without a search.
pub(super) fn tried(search: Option<&SearchResult>) -> Markup {
    let Some(found) = search else { return html! {} };
    let columns = columns(&found.tried);
    let body = html! {
        div.wide {
            table.sortable {
                thead {
                    tr {
                        th { "setup" }
                        th { "blocks" }
                        @for metric in &columns { th title=(metric.words()) { (metric.short()) } }
                        th { "then" }
                    }
                }
                tbody {
                    @for tried in &found.tried {
                        tr {
                            td { (visible(&tried.variant.name)) }
                            td { (tried.blocks) }
                            @for metric in &columns { td { (ratio(tried, *metric).unwrap_or_default()) } }
                            td { (visible(&fate(&tried.fate))) }
                        }
                    }
                }
            }
        }
        @if !found.left_out.is_empty() {
            h3 { "Not tried" }
            ul.notes {
                @for (why, names) in left_out(&found.left_out) {
                    li { (visible(&names.join(", "))) ": " (visible(&why)) }
                }
            }
        }
    };
    section("What was tried", NOTE, &body)
}
