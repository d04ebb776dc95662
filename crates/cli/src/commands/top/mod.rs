//! `unbloat top`: running processes live, with inspection, trim and recording at a key.

mod effects;

use crate::arguments::{interval, share};
use crate::exit::Exit;
use crate::terminal;
use crate::watched::Watched;
use anyhow::{Context as _, bail};
use effects::Effects;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;
use unbloat_process::signal::{Requests, Woken};
use unbloat_record::monitor::{Monitor, Options, Selects};
use unbloat_top::{Effect, State, draw};

/// Options of `unbloat top`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Keys: Enter inspects the selected process, t trims it, r records it, ? shows all of them.\n\nExample: \
                  unbloat top --name puma"
)]
pub(crate) struct Args {
    /// Processes by PID; their descendants are included.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pids: Vec<i32>,
    #[command(flatten)]
    watched: Watched,
    /// Watch all processes, not only Rubies.
    #[arg(long, conflicts_with_all = ["pids", "name", "cgroup", "unit"])]
    all: bool,
    /// Share of one core that everything together may use; with 0 there is no PSS and no look.
    #[arg(long, default_value = "2%", value_parser = share, value_name = "SHARE")]
    budget: f64,
    /// Interval between lists of processes; PSS is read at most this often.
    #[arg(long, default_value = "2s", value_parser = interval, value_name = "TIME")]
    interval: Duration,
    /// Minimum interval between looks into a process (the composition of its memory).
    #[arg(long, default_value = "10s", value_parser = interval, value_name = "TIME")]
    look: Duration,
}

/// Time between two drawings, if no key is pressed.
const FRAME: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if !terminal::is_terminal() || !std::io::stdin().is_terminal() {
        bail!(
            "top needs a terminal at stdin and stdout. `unbloat inspect --name puma` prints once, also into a file"
        );
    }
    // Before any thread is started, so that it holds for all of them.
    let requests = Requests::take_over().context("cannot take over the signals")?;
    let options = Options {
        interval: args.interval,
        pss_interval: args.interval,
        look_interval: args.look,
        budget: args.budget,
    };
    let selects: Selects = match args.all {
        true => Box::new(|_| true),
        false => args.watched.selects(&args.pids),
    };
    let monitor = Monitor::start(selects, options).context("cannot start the monitor")?;
    let mut terminal = ratatui::try_init().context("cannot take over the terminal")?;
    let shown = show(&mut terminal, &monitor, &requests);
    ratatui::restore();
    shown
}

fn show(terminal: &mut DefaultTerminal, monitor: &Monitor, requests: &Requests) -> anyhow::Result<Exit> {
    let mut state = State::new(terminal::has_color());
    let mut effects = Effects::new();
    let stdin = std::io::stdin();
    loop {
        let latest = monitor.latest();
        if !Arc::ptr_eq(&latest, &state.snapshot) {
            state.update(latest);
        }
        while let Some(answer) = effects.answer() {
            state.answer(answer);
        }
        // The size of the terminal is asked for, so that a resize needs no event.
        terminal.draw(|frame| draw(&mut state, frame)).context("cannot draw")?;
        // crossterm reads a terminal that is gone forever, so it is only asked when there is something to read.
        let goes_on = match requests.wait(stdin.as_fd(), FRAME) {
            Woken::Timeout => true,
            Woken::Input => keys(&mut state, &mut effects)?,
            Woken::Request | Woken::HungUp => false,
        };
        if !goes_on {
            break;
        }
    }
    effects.end();
    Ok(Exit::Done)
}

/// Handles the keys that were pressed. Returns whether the view goes on.
fn keys(state: &mut State, effects: &mut Effects) -> anyhow::Result<bool> {
    while event::poll(Duration::ZERO).context("cannot read the keys")? {
        let event = event::read().context("cannot read the keys")?;
        let Event::Key(key) = event else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match state.press(key) {
            Some(Effect::Quit) => return Ok(false),
            Some(effect) => effects.begin(effect, state),
            None => {}
        }
    }
    Ok(true)
}
