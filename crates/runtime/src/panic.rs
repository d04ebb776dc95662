//! The end of a thread that has panicked: the runtime goes to sleep for good.
//!
//! On the worker the server would live on; on a Ruby thread the GVL would stay taken. So the library may have no path to
//! a panic at all: what is below is in a section of its own, which the linker drops when nothing leads to it, and a test of
//! `crates/bundle` looks for that section in the library as built.

use crate::{page, worker};
use unbloat_contract::Reason;

#[cfg(not(test))]
#[panic_handler]
fn panicked(_info: &core::panic::PanicInfo<'_>) -> ! {
    stop()
}

#[cfg(not(test))]
#[cold]
#[inline(never)]
#[unsafe(link_section = ".unbloat.panic")]
fn stop() -> ! {
    give_up();
    loop {
        // SAFETY: pause only waits; every signal is blocked on the worker.
        unsafe { libc::pause() };
    }
}

/// Records the event on the page, and releases whatever the thread may hold.
fn give_up() {
    page::set_reason(Reason::InternalError);
    worker::abandon();
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;
    use unbloat_contract::Word;

    #[test]
    fn a_worker_that_fails_in_the_middle_of_its_work_holds_up_no_fork() {
        std::thread::spawn(|| {
            worker::before_fork(); // takes the lock that every decision holds
            give_up();
        })
        .join()
        .unwrap();
        let (done, forked) = channel();
        std::thread::spawn(move || {
            worker::before_fork();
            worker::after_fork();
            done.send(()).unwrap();
        });
        forked.recv_timeout(Duration::from_secs(10)).expect("the fork waits for the worker that failed");
        assert_eq!(page::get(Word::LastReason), Reason::InternalError as u64);
    }
}
