//! Shows how far a run is: a bar with the current percentiles on a terminal, plain lines elsewhere; and listens for Ctrl-C.

use crate::follow::Show;
use crate::interrupt::interruptible;
use anyhow::Context as _;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_load::{Live, Progress};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Follows a run on stderr.
pub(super) struct Follower {
    show: Show,
    phase: String,
    /// When the last line was written.
    last: Instant,
    stop: Arc<AtomicBool>,
}

/// The bar, with the current percentiles behind it.
const BAR: &str = "{prefix} {wide_bar:.cyan/blue} {pos}/{len} {elapsed} ({eta} left) {msg}";

impl Follower {
    /// Begins to follow, and to listen for Ctrl-C.
    pub(super) fn start(quiet: bool) -> anyhow::Result<Self> {
        let (show, phase) = (Show::new(quiet, BAR), String::new());
        Ok(Self { show, phase, last: Instant::now(), stop: interruptible()? })
    }

    /// The printer of the result while this follows.
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

/// Writes the result to stdout, with the bar kept out of its way.
pub(super) struct Printer {
    show: Show,
    /// The first write that failed: told when the run is over, because the run itself need not suffer from it.
    failed: RefCell<Option<std::io::Error>>,
}

impl Printer {
    /// Writes a text and ends the line.
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

    /// Returns whether all could be written.
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
