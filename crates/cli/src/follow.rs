//! Following long work on stderr: a bar on a terminal, plain lines elsewhere, nothing if the user wants it quiet.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// The place where progress is shown.
#[derive(Debug, Clone)]
pub(crate) enum Show {
    /// Nowhere.
    Nothing,
    /// A bar on a terminal.
    Bar(ProgressBar),
    /// Lines.
    Lines,
}

impl Show {
    /// Chooses by what stderr is. `template` is the bar's, as indicatif has it; NO_COLOR is respected by the console crate, which
    /// indicatif draws with.
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

    /// Writes a line, with the bar kept out of its way.
    pub(crate) fn say(&self, line: &str) {
        // A closed stderr is nobody's problem.
        let print = || drop(writeln!(std::io::stderr(), "{line}"));
        match self {
            Show::Nothing => {}
            Show::Bar(bar) => bar.suspend(print),
            Show::Lines => print(),
        }
    }

    /// Does something with the bar out of its way.
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
