//! Searches a process for a thread that can be borrowed, until one is found or the time is up.

use super::borrow::{Loaned, borrow};
use super::call::{Borrowed, Call, Safety};
use super::host::Host;
use super::refusal::{Failure, Refusal};
use super::threads;
use crate::Pid;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Pauses between attempts: the first, and the longest.
const BACKOFF: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(64);

/// Calls a function on a thread that is blocked in a listed system call, and brings the thread back.
///
/// `check` is called while the thread is stopped and everything else runs; it must be quick.
///
/// # Errors
/// No thread could be borrowed within `timeout`, or the process is gone or may not be touched.
pub fn call(
    host: &Host<'_>,
    call: &Call,
    timeout: Duration,
    mut check: impl FnMut() -> Safety,
) -> Result<Borrowed, Refusal> {
    let start = Instant::now();
    let (mut retries, mut backoff) = (0, BACKOFF.start);
    loop {
        let why = match attempt_any(host, call, &mut check, &mut retries) {
            Ok(borrowed) => return Ok(borrowed),
            Err(NotBorrowed::Refused(refusal)) => return Err(refusal),
            Err(NotBorrowed::NotNow(why)) => why,
        };
        if start.elapsed() + backoff > timeout {
            return Err(Refusal::NoSafePoint { waited: start.elapsed(), why });
        }
        std::thread::sleep(backoff);
        backoff = (backoff * 2).min(BACKOFF.end);
    }
}

/// The reason why no thread was borrowed in one round.
enum NotBorrowed {
    NotNow(String),
    Refused(Refusal),
}

/// Tries every thread that is blocked in a listed call, once.
fn attempt_any(
    host: &Host<'_>,
    call: &Call,
    check: &mut impl FnMut() -> Safety,
    retries: &mut u32,
) -> Result<Borrowed, NotBorrowed> {
    let candidates = threads::candidates(host.pid, |pc| host.call_number_before(pc))
        .map_err(|error| NotBorrowed::Refused(error.into()))?;
    let mut why = "no thread is blocked in a system call that can be interrupted unnoticed".to_owned();
    for blocked in candidates {
        match borrow(host, &blocked, call, check) {
            Ok(Loaned { held, borrowed, returned }) => {
                let (thread, wait) = (Pid(blocked.tid), blocked.known.call.name());
                return Ok(Borrowed { thread, wait, held, borrowed, retries: *retries, returned });
            }
            Err(Failure::Refused(refusal)) => return Err(NotBorrowed::Refused(refusal)),
            Err(Failure::Busy(busy)) => {
                *retries += 1;
                return Err(NotBorrowed::NotNow(busy.to_owned()));
            }
            Err(Failure::Unfit(unfit)) => {
                *retries += 1;
                why = unfit.to_string();
            }
        }
    }
    Err(NotBorrowed::NotNow(why))
}
