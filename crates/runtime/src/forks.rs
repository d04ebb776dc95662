//! Forks: Puma clusters, Unicorn, re-forking, daemons, `fork { }`.
//!
//! Before a fork the worker is brought to a point between two decisions. Afterwards the parent continues, and
//! the child starts without a worker and without any state of its parent's, including the status page: both
//! are created at its first collection. Children that exec at once (`system`, `spawn`) are mostly created by
//! vfork and never reach these handlers.

use crate::{jemalloc, page, sys, worker};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use unbloat_contract::Word;

/// jemalloc's background threads were running before the current fork.
static HAD_BACKGROUND_THREADS: AtomicBool = AtomicBool::new(false);
/// This process is a child that has to restart them.
static LOST_BACKGROUND_THREADS: AtomicBool = AtomicBool::new(false);

type Handler = unsafe extern "C" fn();
type RegisterAtFork =
    unsafe extern "C" fn(Option<Handler>, Option<Handler>, Option<Handler>, *mut c_void) -> c_int;

/// Registers the handlers. In the child they run after jemalloc's own (registered later,
/// `pthread_atfork(3)`).
pub(crate) fn watch() {
    // `pthread_atfork` itself is linked statically from glibc's libc_nonshared.a; this is the function it
    // calls.
    let Some(register) = sys::symbol(c"__register_atfork") else { return };
    // SAFETY: the symbol has had this type since glibc 2.3.2.
    let register: RegisterAtFork = unsafe { core::mem::transmute(register) };
    // SAFETY: the handlers live as long as the process, since Ruby never unloads an extension. A null handle
    // means that they belong to no object that could be unloaded.
    unsafe { register(Some(prepare), Some(parent), Some(child), core::ptr::null_mut()) };
}

/// Starts jemalloc's background threads in a child, at a safe point, if the parent had them.
pub(crate) fn restore_background_threads() {
    if LOST_BACKGROUND_THREADS.swap(false, Ordering::AcqRel) {
        jemalloc::restart_background_threads();
    }
}

unsafe extern "C" fn prepare() {
    // The child's first thread is this one, and a server's hardly allocates again. jemalloc's own handler, which takes its locks,
    // comes after (registered earlier).
    jemalloc::flush_cache();
    worker::before_fork();
    HAD_BACKGROUND_THREADS.store(jemalloc::background_threads() == Some(true), Ordering::Relaxed);
}

unsafe extern "C" fn parent() {
    worker::after_fork();
}

unsafe extern "C" fn child() {
    page::forget_parent();
    page::add(Word::ForkGeneration, 1);
    // A child that forks before it has restarted them passes the task on.
    if HAD_BACKGROUND_THREADS.load(Ordering::Relaxed) {
        LOST_BACKGROUND_THREADS.store(true, Ordering::Relaxed);
    }
    worker::after_fork_in_child();
}
