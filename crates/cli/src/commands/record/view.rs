//! What a recording shows while it runs: a view drawn in place on a terminal of its own, else a line now and then.

use crossterm::cursor::MoveUp;
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{QueueableCommand as _, terminal};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use unbloat_record::{Outcome, Progress};
use unbloat_report::recording::live;
use unbloat_report::style::Style;

/// Between two drawings in place.
const FRAME: Duration = Duration::from_millis(250);
/// Between two lines where they are all there is.
const LINE: Duration = Duration::from_secs(10);
/// Between two lines among a command's own output on a terminal.
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
    name: String,
    mode: Mode,
    color: bool,
    shown: Option<Instant>,
    /// Widths of the lines on the screen, in columns.
    drawn: Vec<usize>,
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
        let color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let (path, name) = (path.to_owned(), name.to_owned());
        let shown = None;
        let view = View { path, name, mode, color, shown, drawn: Vec::new(), file_failure_told: false };
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
            // The first line comes after its time, not at once: there is nothing to say yet.
            Mode::Lines(every) if due(every) => {
                if self.shown.is_some() {
                    let _ = writeln!(io::stderr(), "unbloat: {}", live::line(progress));
                }
            }
            _ => return,
        }
        self.shown = Some(Instant::now());
    }

    /// Called when the recording is over; the lines stay on the screen.
    pub(super) fn end(&mut self) {
        self.drawn.clear();
    }

    /// What came of it.
    pub(super) fn summary(&self, outcome: &Outcome) -> io::Result<()> {
        if self.mode == Mode::Quiet {
            return Ok(());
        }
        let path = self.path.display();
        let mut err = io::stderr();
        let left = match outcome.left_running {
            0 => String::new(),
            1 => "; one process still runs".to_owned(),
            n => format!("; {n} processes still run"),
        };
        writeln!(err, "unbloat: the recording ended because {}{left}", outcome.reason)?;
        writeln!(
            err,
            "unbloat: see `unbloat show {path}`, `unbloat plot {path} -o memory.html`, `unbloat growth {path}`"
        )
    }

    fn tell_of_failure(&mut self, progress: &Progress) {
        if progress.file_failed && !self.file_failure_told {
            self.file_failure_told = true;
            let text = "the file cannot be written any more; the command goes on without being recorded";
            let _ = writeln!(io::stderr(), "unbloat: {}: {text}", self.path.display());
        }
    }

    fn draw(&mut self, progress: &Progress) -> io::Result<()> {
        let width = usize::from(terminal::size().map_or(80, |(columns, _)| columns)).max(30);
        // The last column stays free: some terminals wrap when it is written.
        let style = Style { width: width - 1, color: self.color };
        let lines = live::lines(&self.name, progress, &style);
        let mut err = io::stderr().lock();
        err.queue(BeginSynchronizedUpdate)?;
        // A terminal that has become narrower has wrapped what stood there.
        let rows: usize = self.drawn.iter().map(|columns| columns.div_ceil(width).max(1)).sum();
        if rows > 0 {
            err.queue(MoveUp(u16::try_from(rows).unwrap_or(u16::MAX)))?;
        }
        let same_place = self.drawn.iter().all(|&columns| columns <= width);
        if !same_place {
            err.queue(Clear(ClearType::FromCursorDown))?;
        }
        for line in &lines {
            write!(err, "\r{line}")?;
            err.queue(Clear(ClearType::UntilNewLine))?;
            writeln!(err)?;
        }
        err.queue(Clear(ClearType::FromCursorDown))?;
        err.queue(EndSynchronizedUpdate)?;
        err.flush()?;
        self.drawn = lines.iter().map(|line| visible(line)).collect();
        Ok(())
    }
}

/// Columns of a line, escape sequences left out.
fn visible(line: &str) -> usize {
    let mut rest = line;
    let mut columns = 0;
    while let Some((before, after)) = rest.split_once('\x1b') {
        columns += before.chars().count();
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    columns + rest.chars().count()
}
