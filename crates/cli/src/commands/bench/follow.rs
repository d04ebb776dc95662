//! Shows the progress of a run, as a bar with the current percentiles on a terminal and as plain lines
//! elsewhere, and listens for Ctrl-C.

use crate::follow::Show;
use anyhow::Context as _;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_load::{Live, Progress};
use unbloat_process::signal;

/// Interval between lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Follows a run on stderr.
pub(super) struct Follower {
    show: Show,
    phase: String,
    /// Time of the last line.
    last: Instant,
    stop: &'static AtomicBool,
}

/// The bar, followed by the current percentiles.
const BAR: &str = "{prefix} {wide_bar:.cyan/blue} {pos}/{len} {elapsed} ({eta} left) {msg}";

impl Follower {
    /// Starts to follow, and to listen for Ctrl-C.
    pub(super) fn start(quiet: bool) -> anyhow::Result<Self> {
        let (show, phase) = (Show::new(quiet, BAR), String::new());
        Ok(Self { show, phase, last: Instant::now(), stop: signal::interruptible()? })
    }

    /// Returns a printer for the result that cooperates with the bar.
    pub(super) fn printer(&self) -> Printer {
        Printer { show: self.show.clone(), failed: RefCell::new(None) }
    }
}

/// Clears the bar.
impl Drop for Follower {
    fn drop(&mut self) {
        self.show.finish();
    }
}

/// Writes the result to stdout without disturbing the bar.
pub(super) struct Printer {
    show: Show,
    /// The first failed write, reported when the run is over, so that the run itself is not affected.
    failed: RefCell<Option<std::io::Error>>,
}

impl Printer {
    /// Writes a text and a line end.
    pub(super) fn line(&self, text: impl Display) {
        self.text(format_args!("{text}\n"));
    }

    /// Writes a text.
    pub(super) fn text(&self, text: impl Display) {
        let write = || write!(std::io::stdout(), "{text}");
        let written = self.show.suspend(write);
        if let Err(error) = written {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Checks that everything was written.
    pub(super) fn check(self) -> anyhow::Result<()> {
        self.failed.into_inner().map_or(Ok(()), |error| Err(error).context("cannot write the result"))
    }
}

impl Progress for Follower {
    fn phase(&mut self, name: &str) {
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.reset();
                bar.set_prefix(name.to_owned());
                bar.set_message("");
            }
            Show::Lines => {
                name.clone_into(&mut self.phase);
                self.last = Instant::now();
                self.show.say(name);
            }
        }
    }

    fn live(&mut self, live: &Live) {
        match &self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.set_length(live.total);
                bar.set_position(live.done);
                bar.set_message(figures(live));
            }
            Show::Lines if self.last.elapsed() >= LINE_EVERY => {
                self.last = Instant::now();
                self.show.say(&format!("{}: {}/{} {}", self.phase, live.done, live.total, figures(live)));
            }
            Show::Lines => {}
        }
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn figures(live: &Live) -> String {
    let ms = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.1} ms", ns as f64 / 1e6));
    let times = live.latency.filter(|(_, summary)| summary.count > 0).map(|(name, summary)| {
        format!("{name} p50 {} p95 {} p99 {}", ms(summary.p50_ns), ms(summary.p95_ns), ms(summary.p99_ns))
    });
    let errors = (live.errors > 0).then(|| format!("{} errors", live.errors));
    times.into_iter().chain(errors).collect::<Vec<_>>().join(", ")
}
