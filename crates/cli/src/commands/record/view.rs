//! Shows a recording while it runs: a view redrawn in place on its own terminal, or occasional lines.

use crate::in_place::InPlace;
use crate::terminal;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unbloat_record::{Ending, Progress};
use unbloat_report::recording::live;
use unbloat_report::style::Style;
use unbloat_untrusted::Untrusted;

/// Interval between drawings in place.
const FRAME: Duration = Duration::from_millis(250);
/// Interval between lines if nothing else is shown.
const LINE: Duration = Duration::from_secs(10);
/// Interval between lines among a command's own output on a terminal.
const RARE_LINE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Quiet,
    Drawn,
    Lines(Duration),
}

/// The view.
#[derive(Debug)]
pub(super) struct View {
    path: PathBuf,
    name: Untrusted,
    mode: Mode,
    color: bool,
    shown: Option<Instant>,
    place: InPlace,
    file_failure_told: bool,
}

impl View {
    pub(super) fn new(path: &Path, name: &str, quiet: bool, own_terminal: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let mode = match (quiet, terminal, own_terminal) {
            (true, ..) => Mode::Quiet,
            (_, true, true) => Mode::Drawn,
            (_, true, false) => Mode::Lines(RARE_LINE),
            (_, false, _) => Mode::Lines(LINE),
        };
        let view = View {
            path: path.to_owned(),
            name: name.into(),
            mode,
            color: terminal::has_color(),
            shown: None,
            place: InPlace::default(),
            file_failure_told: false,
        };
        if mode != Mode::Quiet {
            let _ = writeln!(io::stderr(), "unbloat: recording {} to {}", view.name, view.path.display());
        }
        view
    }

    /// Shows the state; a terminal that cannot be written to is no reason to stop.
    pub(super) fn show(&mut self, progress: &Progress) {
        self.tell_of_failure(progress);
        let due = |every| self.shown.is_none_or(|shown| shown.elapsed() >= every);
        match self.mode {
            Mode::Drawn if due(FRAME) => {
                let _ = self.draw(progress);
            }
            // The first line comes after its interval, since there is nothing to report at once.
            Mode::Lines(every) if due(every) => {
                if self.shown.is_some() {
                    let _ = writeln!(io::stderr(), "unbloat: {}", live::line(progress));
                }
            }
            _ => return,
        }
        self.shown = Some(Instant::now());
    }

    /// Reports how the recording ended.
    pub(super) fn summary(&self, ending: &Ending) -> io::Result<()> {
        if self.mode == Mode::Quiet {
            return Ok(());
        }
        let path = self.path.display();
        let mut err = io::stderr();
        let left = match ending.left_running {
            0 => String::new(),
            1 => "; one process still runs".to_owned(),
            n => format!("; {n} processes still run"),
        };
        writeln!(err, "unbloat: the recording ended because {}{left}", ending.reason)?;
        writeln!(
            err,
            "unbloat: see `unbloat show {path}`, `unbloat plot {path} -o memory.html`, `unbloat growth {path}`"
        )
    }

    fn tell_of_failure(&mut self, progress: &Progress) {
        if progress.file_failed && !self.file_failure_told {
            self.file_failure_told = true;
            let text = "the file can no longer be written; the command continues without being recorded";
            let _ = writeln!(io::stderr(), "unbloat: {}: {text}", self.path.display());
        }
    }

    fn draw(&mut self, progress: &Progress) -> io::Result<()> {
        let (columns, _) = terminal::size();
        // The last column stays free.
        let style = Style { width: columns.max(30) - 1, color: self.color };
        self.place.draw(&mut io::stderr().lock(), &live::lines(self.name.raw(), progress, &style))
    }
}
