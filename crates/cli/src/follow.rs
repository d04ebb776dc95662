//! Progress of long work on stderr: a bar on a terminal, plain lines elsewhere, nothing in quiet mode.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// The form of progress reports.
#[derive(Debug, Clone)]
pub(crate) enum Show {
    /// None.
    Nothing,
    /// A bar on a terminal.
    Bar(ProgressBar),
    /// Plain lines.
    Lines,
}

impl Show {
    /// Chooses the form for the current stderr. `template` is an indicatif template; indicatif draws through
    /// the console crate, which respects NO_COLOR.
    pub(crate) fn new(quiet: bool, template: &str) -> Self {
        if quiet {
            return Show::Nothing;
        }
        if !std::io::stderr().is_terminal() {
            return Show::Lines;
        }
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::no_length().with_style(style);
        bar.enable_steady_tick(Duration::from_millis(250));
        Show::Bar(bar)
    }

    /// Writes a line without disturbing the bar.
    pub(crate) fn say(&self, line: &str) {
        // A closed stderr means that there is no reader.
        let print = || drop(writeln!(std::io::stderr(), "{line}"));
        match self {
            Show::Nothing => {}
            Show::Bar(bar) => bar.suspend(print),
            Show::Lines => print(),
        }
    }

    /// Runs `work` with the bar hidden.
    pub(crate) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Show::Bar(bar) => bar.suspend(work),
            Show::Nothing | Show::Lines => work(),
        }
    }

    /// Clears the bar.
    pub(crate) fn finish(&self) {
        if let Show::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
