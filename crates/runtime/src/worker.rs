//! The thread that decides and trims. It is not a Ruby thread, never takes the GVL, blocks every signal, and
//! sleeps without waking while there is nothing to judge.
//!
//! It is started by the first collection of a process, at Ruby's next safe point, and likewise in a forked
//! child. A process that never collects (most short scripts) has no such thread.

use crate::adaptive::{Adaptive, Decision, Observation, Returning, TrimOutcome};
use crate::foresight::{Foresight, Heap};
use crate::settings::Settings;
use crate::sys::{self, Mutex};
use crate::{allocator, collector, jemalloc, page};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use unbloat_contract::{Reason, Trim, Word};

/// Held while the worker looks, decides or trims. A fork waits for it, so no child starts in the middle of
/// that.
static WORK: Mutex = Mutex::new();
/// Counts events for the worker, which sleeps on it.
static EVENTS: AtomicU32 = AtomicU32::new(0);
/// The worker is asleep. Waking it costs a system call only then.
static ASLEEP: AtomicBool = AtomicBool::new(false);
/// This process has the thread.
static RUNNING: AtomicBool = AtomicBool::new(false);
/// `CLOCK_MONOTONIC` time before which the worker does not trim, because a fork has just happened.
static QUIET_UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// Number of open `Unbloat.suspend` blocks.
static SUSPENDED: AtomicU32 = AtomicU32::new(0);
/// Experience with the duration of trims; kept across forks. Written with [`WORK`] held.
static FORESIGHT: Foresight = Foresight::new();
/// The worker's orders.
static ORDERS: sys::Once<Orders> = sys::Once::new();

/// Time for which a server is left alone after a fork, in nanoseconds: workers boot one after the other, and
/// a trim between two of them would have to be repeated by each.
const AFTER_FORK_NS: u64 = 200_000_000;

/// Time from a collection's mark to the worker's look: the sweep is lazy and finishes with the allocations
/// that follow.
const SETTLE_NS: u64 = 30_000_000;

/// Stack of the worker in addition to the space that every stack needs for thread-local variables.
const STACK_BYTES: usize = 128 << 10;
/// Stack for thread-local variables if glibc does not report their size.
const UNKNOWN_TLS_BYTES: usize = 1 << 20;

/// The worker's orders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders {
    trim: Trim,
    adaptive: crate::adaptive::Settings,
}

impl Orders {
    /// Returns the worker's part of the settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { trim: settings.trim, adaptive: settings.adaptive }
    }
}

/// Sets the worker's orders, before the first collection is observed.
pub(crate) fn give_orders(orders: Orders) {
    ORDERS.set(orders);
}

/// Notifies the worker of a collection. Runs in a collection: one system call at most.
pub(crate) fn wake() {
    // Sequentially consistent with the store before the sleep: one of the two sees the other.
    EVENTS.fetch_add(1, Ordering::SeqCst);
    if ASLEEP.load(Ordering::SeqCst) {
        sys::futex_wake(&EVENTS);
    }
}

/// Starts the thread in this process, if it has none. At a safe point, because creating a thread allocates.
pub(crate) fn start() {
    if ORDERS.get().is_none() || RUNNING.swap(true, Ordering::AcqRel) {
        return;
    }
    if !spawn() {
        // The system has no thread left to give: the next collection asks again.
        RUNNING.store(false, Ordering::Release);
        collector::want_worker();
        page::set_reason(Reason::NoThread);
        page::flush();
    }
}

/// Trims now, on the calling thread, at the program's request, and returns the bytes returned to the kernel.
/// Must not be called with the GVL.
pub(crate) fn trim_on_request() -> u64 {
    if !allocator::is_known() {
        return 0;
    }
    page::add(Word::RequestedTrims, 1);
    WORK.with(|| {
        let returned_bytes = trim().returned_bytes();
        page::flush();
        returned_bytes
    })
}

/// Starts or ends a period in which the worker trims nothing.
pub(crate) fn suspend(open: bool) {
    let count = if open {
        SUSPENDED.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    } else {
        let before =
            SUSPENDED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1));
        before.unwrap_or(0).saturating_sub(1)
    };
    page::set(Word::Suspended, u64::from(count));
    wake();
}

/// Prepares for a fork: waits until the worker is between two decisions.
pub(crate) fn before_fork() {
    WORK.lock();
}

/// Continues after a fork, in the parent.
pub(crate) fn after_fork() {
    QUIET_UNTIL_NS.store(sys::now_ns().saturating_add(AFTER_FORK_NS), Ordering::Relaxed);
    WORK.unlock();
}

/// Continues after a fork, in the child, which has no worker. The thread that suspended trimming may not
/// exist here to resume it.
pub(crate) fn after_fork_in_child() {
    SUSPENDED.store(0, Ordering::Release);
    ASLEEP.store(false, Ordering::Release);
    RUNNING.store(false, Ordering::Release);
    WORK.unlock();
    collector::want_worker();
}

/// Leaves the lock open for good: the calling thread stops, and a fork must not wait for it.
#[cfg(any(test, feature = "standalone"))]
pub(crate) fn abandon() {
    WORK.unlock();
}

/// Returns the current state of the process.
fn observe() -> Observation {
    let (minor_faults, cpu_ns) = sys::usage();
    let heap = heap();
    Observation {
        now_ns: sys::now_ns(),
        resident_bytes: heap.resident_bytes,
        hold_ns: if allocator::trims_hold_a_lock() { FORESIGHT.trim_ns(heap) } else { 0 },
        returning: jemalloc::returning(),
        returnable_bytes: jemalloc::returnable_bytes(),
        returned_pages: jemalloc::returned_pages(),
        minor_faults,
        cpu_ns: cpu_ns.saturating_sub(page::get(Word::ThreadCpuNs)),
        collections: collector::observed().0,
        majors: heap.majors,
    }
}

/// Returns the current state of the heap.
fn heap() -> Heap {
    Heap { resident_bytes: sys::resident_bytes(), majors: collector::observed().1 }
}

/// Trims and updates the counts. With [`WORK`] held.
fn trim() -> TrimOutcome {
    let before = heap();
    let before_bytes = before.resident_bytes;
    let start = sys::now_ns();
    allocator::give_back();
    let took_ns = sys::now_ns().saturating_sub(start);
    let outcome = TrimOutcome { after: observe(), before_bytes, took_ns };
    FORESIGHT.learn(took_ns, before, outcome.after.resident_bytes);
    page::add(Word::Trims, 1);
    page::add(Word::TrimReturnedBytes, outcome.returned_bytes());
    page::add(Word::TrimNs, took_ns);
    page::raise(Word::TrimMaxNs, took_ns);
    page::count_trim_time(took_ns);
    page::set(Word::LastTrimBeforeBytes, before_bytes);
    page::set(Word::LastTrimAfterBytes, outcome.after.resident_bytes);
    page::set(Word::LastTrimAtNs, outcome.after.now_ns);
    page::set_reason(Reason::Trimmed);
    outcome
}

/// Makes the allocator return freed memory at once or later, if it supports that. The page is updated each
/// time: a forked child has its own page and its parent's allocator.
fn set_returning(wanted: Option<Returning>) {
    let Some(wanted) = wanted else { return };
    if jemalloc::returning() != Some(wanted) {
        jemalloc::set_returning(wanted);
    }
    page::set(Word::Returning, wanted as u64);
}

/// The worker's state between looks.
struct State {
    trim: Trim,
    adaptive: Adaptive,
    /// Collections and full collections that have been handled.
    seen: (u64, u64),
}

impl State {
    fn new(orders: Orders) -> Self {
        let seen = collector::heard_before_worker();
        Self { trim: orders.trim, adaptive: Adaptive::new(orders.adaptive, observe()), seen }
    }

    /// Looks once and acts; returns nanoseconds until the next look, or `None` for not before the next
    /// collection.
    fn step(&mut self) -> Option<u64> {
        if let Some((reason, look_again_ns)) = self.obstacle() {
            page::set_reason(reason);
            return look_again_ns;
        }
        let (reason, look_again_ns) = match self.trim {
            Trim::Off => (Reason::PolicyDoesNotTrim, None),
            Trim::Every => {
                (self.trim_after(collector::observed().0 > self.seen.0, Reason::NothingHeard), None)
            }
            Trim::Major => {
                (self.trim_after(collector::observed().1 > self.seen.1, Reason::MinorCollection), None)
            }
            Trim::Adaptive => self.adapt(),
        };
        self.seen = collector::observed();
        page::set_reason(reason);
        look_again_ns
    }

    /// Returns the obstacle to trimming under any policy, if any, and the time until the next look.
    fn obstacle(&self) -> Option<(Reason, Option<u64>)> {
        if !allocator::is_known() {
            return Some((Reason::UnknownAllocator, None));
        }
        if SUSPENDED.load(Ordering::Acquire) > 0 {
            if self.trim == Trim::Adaptive {
                set_returning(jemalloc::returning().and(Some(Returning::Later)));
            }
            return Some((Reason::Suspended, None));
        }
        let quiet = QUIET_UNTIL_NS.load(Ordering::Relaxed).saturating_sub(sys::now_ns());
        (quiet > 0).then_some((Reason::Forking, Some(quiet)))
    }

    /// Applies the fixed policies: trims if a collection of their kind was observed.
    fn trim_after(&self, heard: bool, otherwise: Reason) -> Reason {
        if !heard {
            return otherwise;
        }
        trim();
        Reason::Trimmed
    }

    fn adapt(&mut self) -> (Reason, Option<u64>) {
        let now = observe();
        if now.resident_bytes == 0 {
            return (Reason::NothingHeard, None); // no descriptor left to look with
        }
        let decision = self.adaptive.decide(&now);
        page::add(Word::Refaults, self.adaptive.take_refaults());
        set_returning(self.adaptive.returning());
        match decision {
            Decision::Wait { reason, look_again_ns } => (reason, look_again_ns),
            Decision::Trim { idle } => {
                page::add(Word::IdleTrims, u64::from(idle));
                self.adaptive.trimmed(&trim());
                (Reason::Trimmed, Some(SETTLE_NS))
            }
        }
    }
}

/// Runs the thread.
extern "C" fn run(_argument: *mut c_void) -> *mut c_void {
    // SAFETY: names the calling thread; the name is a C string of less than 16 bytes.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"unbloat".as_ptr()) };
    let Some(orders) = ORDERS.get() else { return core::ptr::null_mut() };
    jemalloc::give_up_cache();
    let mut state = WORK.with(|| State::new(orders));
    loop {
        let seen = EVENTS.load(Ordering::Acquire);
        let look_again_ns = WORK.with(|| {
            let pause = state.step();
            page::set(Word::ThreadCpuNs, sys::thread_cpu_ns());
            page::flush();
            pause
        });
        ASLEEP.store(true, Ordering::SeqCst);
        sys::futex_wait(&EVENTS, seen, look_again_ns);
        ASLEEP.store(false, Ordering::Release);
        if EVENTS.load(Ordering::Acquire) != seen && state.trim == Trim::Adaptive {
            sleep(SETTLE_NS);
        }
    }
}

/// Sleeps without a futex word.
fn sleep(ns: u64) {
    let nowhere = AtomicU32::new(0);
    sys::futex_wait(&nowhere, 0, Some(ns));
}

type Attributes = libc::pthread_attr_t;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const Attributes,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// `__pthread_get_minstack`: the smallest stack of a thread, including its static thread-local variables
/// (glibc 2.15 and later, nptl/nptl-stack.c).
type MinStack = unsafe extern "C" fn(*const Attributes) -> usize;

type SetStackSize = unsafe extern "C" fn(*mut Attributes, usize) -> c_int;

/// Returns the bytes of every stack that hold thread-local variables.
fn tls_bytes(attributes: &Attributes) -> usize {
    let Some(min_stack) = sys::symbol(c"__pthread_get_minstack") else { return UNKNOWN_TLS_BYTES };
    // SAFETY: the symbol has always had this type; Rust's standard library relies on it as well.
    let min_stack: MinStack = unsafe { core::mem::transmute(min_stack) };
    // SAFETY: the attributes are initialized.
    unsafe { min_stack(attributes) }
}

/// Creates the detached thread with all signals blocked, since signals are for Ruby's threads.
fn spawn() -> bool {
    let Some(create) = sys::symbol(c"pthread_create") else { return false };
    // SAFETY: the symbol is pthread_create(3).
    let create: Create = unsafe { core::mem::transmute(create) };
    // SAFETY: attribute and signal sets are initialized by the calls before they are used; the thread's function
    // never returns into anything that could have been unloaded.
    unsafe {
        let mut attributes: Attributes = core::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        if let Some(set) = sys::symbol(c"pthread_attr_setstacksize") {
            let set: SetStackSize = core::mem::transmute(set);
            set(&raw mut attributes, STACK_BYTES.saturating_add(tls_bytes(&attributes)));
        }
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut before: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let status = create(&raw mut thread, &raw const attributes, run, core::ptr::null_mut());
        libc::sigprocmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        status == 0
    }
}
