//! The process that makes a call while events happen to it and around it.

use super::event::{self, Script};
use super::{LIBC, Libc, Ready, came_too_late};
use crate::remote::{Borrowed, Returned, Safety};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// The variable that names the injector's target.
const INJECTOR: &str = "UNBLOAT_TEST_INJECTOR";

/// Runs the call in a separate process, to which and around which events happen.
pub(super) fn injected(script: &Script, pid: i32, attendance: Duration) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "remote::tests::injector::the_injector", "--test-threads=1", "--quiet"])
        .env(INJECTOR, format!("{pid} {} {}", attendance.as_secs(), LIBC.to_text()))
        .env(event::SCRIPT, script.to_string())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
}

/// Not a test by itself: the process started by [`injected`].
#[test]
fn the_injector() {
    let Ok(orders) = std::env::var(INJECTOR) else { return };
    let mut words = orders.split(' ');
    let pid = words.next().unwrap().parse().unwrap();
    let attendance = Duration::from_secs(words.next().unwrap().parse().unwrap());
    let ready = Ready::of(pid, &Libc::from_words(words));
    event::begin(pid);
    let code = match ready.call(attendance, || Safety::Safe) {
        Ok(Borrowed { returned: Returned::Back, .. }) => DONE,
        Ok(Borrowed { returned: Returned::LeftAlone(_), .. }) => LEFT_ALONE,
        Err(refusal) if came_too_late(&refusal) => TOO_LATE,
        Err(_) => REFUSED,
    };
    std::process::exit(code + if event::all_have_happened() { HAPPENED } else { 0 });
}

/// Exit statuses of the injector: the outcome of the call, and whether the script was completed.
const DONE: i32 = 0;
const LEFT_ALONE: i32 = 1;
const REFUSED: i32 = 2;
/// It came too late to do anything.
pub(super) const TOO_LATE: i32 = 3;
pub(super) const HAPPENED: i32 = 16;
