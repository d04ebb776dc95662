//! Capabilities of the terminal at stdout.

use console::Term;
use std::io::IsTerminal as _;
use std::ops::RangeInclusive;
use unbloat_report::style::Style;

/// Range of line widths. Wider lines are hard to read; on a narrower terminal lines wrap anyway.
const WIDTHS: RangeInclusive<usize> = 72..=110;

/// Returns the style of text for stdout.
pub(crate) fn style() -> Style {
    style_within(WIDTHS)
}

/// Returns a style like [`style`], with this range of widths.
pub(crate) fn style_within(widths: RangeInclusive<usize>) -> Style {
    if !is_terminal() {
        return Style::PLAIN;
    }
    let (columns, _) = size();
    Style { width: columns.clamp(*widths.start(), *widths.end()), color: has_color() }
}

/// Returns whether colors may be shown on a terminal: not with `NO_COLOR` (<https://no-color.org>: set and
/// not empty), nor on a terminal that declares itself dumb.
pub(crate) fn has_color() -> bool {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !plain && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Returns columns and rows of the terminal. One that does not report them (or reports 0) is assumed to have
/// the traditional size.
pub(crate) fn size() -> (usize, usize) {
    let told = Term::stdout().size_checked().or_else(|| Term::stderr().size_checked());
    let told = told.filter(|&(rows, columns)| rows > 0 && columns > 0);
    told.map_or((80, 24), |(rows, columns)| (columns.into(), rows.into()))
}
