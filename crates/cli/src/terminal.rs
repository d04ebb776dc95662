//! What the terminal at stdout can show.

use std::io::IsTerminal as _;
use unbloat_report::style::Style;

/// Wider lines than these are hard to read.
const WIDEST: usize = 110;
/// On a narrower terminal lines break anyhow.
const NARROWEST: usize = 72;

/// How text for stdout shall look: colors only on a terminal and without `NO_COLOR` (<https://no-color.org>: set and
/// not empty).
pub(crate) fn style() -> Style {
    if !is_terminal() {
        return Style::PLAIN;
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let columns = crossterm::terminal::size().map_or(Style::PLAIN.width, |(columns, _)| usize::from(columns));
    Style { width: columns.clamp(NARROWEST, WIDEST), color: !plain }
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}
