//! Events that happen to the target and to the injector at chosen moments of a call.

use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// The variable that passes the script to the injector.
pub(super) const SCRIPT: &str = "UNBLOAT_TEST_SCRIPT";

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// Unbloat is killed.
    Kill,
    /// The target is stopped and continued.
    StopContinue,
    /// The target gets a signal that it handles.
    Signal,
    /// Another thread of the target becomes another program.
    Exec,
    /// Another thread of the target ends.
    ThreadExit,
}

impl Event {
    pub(super) const ALL: [Event; 5] =
        [Event::Kill, Event::StopContinue, Event::Signal, Event::Exec, Event::ThreadExit];

    fn name(self) -> &'static str {
        match self {
            Event::Kill => "kill",
            Event::StopContinue => "stop",
            Event::Signal => "signal",
            Event::Exec => "exec",
            Event::ThreadExit => "exit",
        }
    }

    fn happen(self, target: i32) {
        use nix::sys::signal::{Signal, kill, raise};
        let pid = nix::unistd::Pid::from_raw(target);
        let send = |signal| {
            let _ = kill(pid, signal); // it may have ended
        };
        match self {
            Event::Kill => raise(Signal::SIGKILL).unwrap(),
            Event::StopContinue => {
                send(Signal::SIGSTOP);
                std::thread::sleep(Duration::from_millis(20));
                send(Signal::SIGCONT);
            }
            Event::Signal => send(Signal::SIGUSR1),
            Event::Exec => order(target, b"e"),
            Event::ThreadExit => order(target, b"x"),
        }
    }
}

/// Sends an order to the target's helper, through the target's own stdin.
fn order(target: i32, order: &[u8]) {
    let stdin = std::fs::File::options().write(true).open(format!("/proc/{target}/fd/0"));
    if let Ok(mut stdin) = stdin {
        std::io::Write::write_all(&mut stdin, order).unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
}

/// Events with their moments, counted from 1; in list order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Script(pub(super) Vec<(u32, Event)>);

impl Script {
    pub(super) fn killed_at(moment: u32) -> Self {
        Script(vec![(moment, Event::Kill)])
    }

    pub(super) fn has(&self, event: Event) -> bool {
        self.0.iter().any(|&(_, e)| e == event)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (moment, event) in &self.0 {
            write!(f, "{moment}:{} ", event.name())?;
        }
        Ok(())
    }
}

impl FromStr for Script {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parse = |word: &str| {
            let (moment, name) = word.split_once(':')?;
            let event = Event::ALL.into_iter().find(|event| event.name() == name)?;
            Some((moment.parse().ok()?, event))
        };
        text.split_whitespace().map(parse).collect::<Option<_>>().map(Script).ok_or(())
    }
}

static TARGET: AtomicI32 = AtomicI32::new(0);
static MOMENTS: AtomicU32 = AtomicU32::new(0);
static TO_COME: Mutex<Script> = Mutex::new(Script(Vec::new()));

/// Starts to count the moments of a call in a target.
pub(super) fn begin(target: i32) {
    *TO_COME.lock().unwrap() = std::env::var(SCRIPT).unwrap_or_default().parse().unwrap();
    MOMENTS.store(0, Ordering::Relaxed);
    TARGET.store(target, Ordering::Relaxed);
}

/// Triggers the events of the next moment.
pub(super) fn at_moment() {
    let target = TARGET.load(Ordering::Relaxed);
    if target == 0 {
        return;
    }
    let now = MOMENTS.fetch_add(1, Ordering::Relaxed) + 1;
    let mut to_come = TO_COME.lock().unwrap();
    let (happening, later) = to_come.0.iter().partition(|&&(moment, _)| moment == now);
    to_come.0 = later;
    drop(to_come);
    let happening: Vec<(u32, Event)> = happening;
    happening.into_iter().for_each(|(_, event)| event.happen(target));
}

/// Returns whether all events have happened.
pub(super) fn all_have_happened() -> bool {
    TO_COME.lock().unwrap().0.is_empty()
}
