//! Showing how far a run is: a bar with the current percentiles on a terminal, plain lines elsewhere; and Ctrl-C.

use crate::interrupt::interruptible;
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::RefCell;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unbloat_load::{Live, Progress};

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Follows a run on stderr.
pub(super) struct Follower {
    show: Show,
    stop: Arc<AtomicBool>,
}

enum Show {
    Nothing,
    Bar(ProgressBar),
    Lines { phase: String, last: Instant },
}

impl Follower {
    /// Begins to follow, and to listen for Ctrl-C.
    pub(super) fn start(quiet: bool) -> anyhow::Result<Self> {
        let show = if quiet {
            Show::Nothing
        } else if std::io::stderr().is_terminal() {
            Show::Bar(ProgressBar::no_length().with_style(style()))
        } else {
            Show::Lines { phase: String::new(), last: Instant::now() }
        };
        Ok(Self { show, stop: interruptible()? })
    }

    /// What writes the result while this follows.
    pub(super) fn printer(&self) -> Printer {
        let bar = if let Show::Bar(bar) = &self.show { Some(bar.clone()) } else { None };
        Printer { bar, failed: RefCell::new(None) }
    }
}

/// Clears the bar.
impl Drop for Follower {
    fn drop(&mut self) {
        if let Show::Bar(bar) = &self.show {
            bar.finish_and_clear();
        }
    }
}

/// Writes the result to stdout, with the bar kept out of its way.
pub(super) struct Printer {
    bar: Option<ProgressBar>,
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
        let written = self.bar.as_ref().map_or_else(write, |bar| bar.suspend(write));
        if let Err(error) = written {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// Whether all could be written.
    pub(super) fn check(self) -> anyhow::Result<()> {
        self.failed.into_inner().map_or(Ok(()), |error| Err(error).context("cannot write the result"))
    }
}

/// NO_COLOR is respected by the console crate, which indicatif draws with.
fn style() -> ProgressStyle {
    let template = "{prefix} {wide_bar:.cyan/blue} {pos}/{len} {elapsed} (rest {eta}) {msg}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Progress for Follower {
    fn phase(&mut self, name: &str) {
        match &mut self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.reset();
                bar.set_prefix(name.to_owned());
                bar.set_message("");
            }
            Show::Lines { phase, last } => {
                *phase = name.to_owned();
                *last = Instant::now();
                drop(writeln!(std::io::stderr(), "{name}"));
            }
        }
    }

    fn live(&mut self, live: &Live) {
        let figures = figures(live);
        match &mut self.show {
            Show::Nothing => {}
            Show::Bar(bar) => {
                bar.set_length(live.total);
                bar.set_position(live.done);
                bar.set_message(figures);
            }
            Show::Lines { phase, last } if last.elapsed() >= LINE_EVERY => {
                *last = Instant::now();
                drop(writeln!(std::io::stderr(), "{phase}: {}/{} {figures}", live.done, live.total));
            }
            Show::Lines { .. } => {}
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
