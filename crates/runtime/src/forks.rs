//! Forks: Puma clusters, Unicorn, re-forking, daemons, `fork { }`.
//!
//! Before a fork the worker is brought between two decisions; after it the parent goes on, and the child starts with
//! no worker, no status page of its own, and nothing of its parent's: both come with its first collection. Children
//! that are made to exec at once (`system`, `spawn`) mostly come by vfork and never see these handlers.

use crate::{jemalloc, page, sys, worker};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use unbloat_contract::Word;

/// True if jemalloc's background threads ran before the fork that is under way.
static HAD_BACKGROUND_THREADS: AtomicBool = AtomicBool::new(false);
/// True if this process is a child that has to start them again.
static LOST_BACKGROUND_THREADS: AtomicBool = AtomicBool::new(false);

type Handler = unsafe extern "C" fn();
type RegisterAtFork =
    unsafe extern "C" fn(Option<Handler>, Option<Handler>, Option<Handler>, *mut c_void) -> c_int;

/// Registers the handlers. They run after jemalloc's own in the child (registered later, `pthread_atfork(3)`).
pub(crate) fn watch() {
    // `pthread_atfork` itself is linked statically from glibc's libc_nonshared.a; this is what it calls.
    let Some(register) = sys::symbol(c"__register_atfork") else { return };
    // SAFETY: the symbol has had this type since glibc 2.3.2.
    let register: RegisterAtFork = unsafe { core::mem::transmute(register) };
    // SAFETY: the handlers live as long as the process: Ruby never unloads an extension. A null handle says that they
    // belong to no object that could be unloaded.
    unsafe { register(Some(prepare), Some(parent), Some(child), core::ptr::null_mut()) };
}

/// In a child, at a safe point: starts jemalloc's background threads if the parent had them.
pub(crate) fn restore_background_threads() {
    if LOST_BACKGROUND_THREADS.swap(false, Ordering::AcqRel) {
        jemalloc::restart_background_threads();
    }
}

unsafe extern "C" fn prepare() {
    worker::before_fork();
    HAD_BACKGROUND_THREADS.store(jemalloc::background_threads() == Some(true), Ordering::Relaxed);
}

unsafe extern "C" fn parent() {
    worker::after_fork();
}

unsafe extern "C" fn child() {
    page::forget_parent();
    page::add(Word::ForkGeneration, 1);
    // A child that forks before it has started them again passes that on.
    if HAD_BACKGROUND_THREADS.load(Ordering::Relaxed) {
        LOST_BACKGROUND_THREADS.store(true, Ordering::Relaxed);
    }
    worker::after_fork_in_child();
}
