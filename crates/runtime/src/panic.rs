//! What happens on a panic: the runtime goes to sleep for good and the server lives on.
//!
//! The library is built so that there is no panic to be had in a hook; this is for the worker, should there be a
//! mistake in it after all.

use crate::{page, worker};
use unbloat_status_page::Reason;

#[panic_handler]
fn stop(_info: &core::panic::PanicInfo<'_>) -> ! {
    page::set_reason(Reason::InternalError);
    worker::abandon();
    loop {
        // SAFETY: pause only waits; every signal is blocked on the worker.
        unsafe { libc::pause() };
    }
}
