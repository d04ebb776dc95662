//! Ctrl-C in long work: the first one asks it to end well, the second one ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the first Ctrl-C (or SIGTERM) sets. To be called once.
pub(crate) fn interruptible() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let pressed = Arc::clone(&interrupted);
    ctrlc::set_handler(move || {
        if pressed.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(interrupted)
}
