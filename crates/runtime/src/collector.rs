//! Observes the garbage collector.
//!
//! There are two ways, depending on the policy:
//!
//! - **The mark of a sentinel.** A hidden object that is never promoted is marked in every collection,
//!   including minor ones, and its mark function is the signal. It costs nothing between collections.
//! - **The end of the sweep** (`RUBY_INTERNAL_EVENT_GC_END_SWEEP`), for the policies that trim after each
//!   sweep. With any collector event hooked, CRuby up to 3.2 sends every single allocation down its slow path
//!   (`gc_event_hook_available_p` in `newobj_of`, gc.c of 3.1.2): 25 % on an allocation-only loop. So it is
//!   limited to those policies.
//!
//! A sweep has ended at the latest when the next collection marks, so the first way loses nothing that a
//! short wait does not make up for. Code here runs inside a collection: it stores numbers and wakes a thread.

use crate::ruby::{DataType, Postpone, Ruby, Value};
use crate::{page, sys, worker};
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use unbloat_contract::Word;

/// `RUBY_INTERNAL_EVENT_GC_END_SWEEP` (include/ruby/internal/event.h).
const END_SWEEP: u32 = 0x100_0000;

static SENTINEL: DataType = DataType {
    name: c"unbloat".as_ptr(),
    mark: Some(on_mark),
    free: None,
    size: None,
    compact: None,
    reserved: core::ptr::null_mut(),
    parent: core::ptr::null(),
    data: core::ptr::null_mut(),
    flags: 0,
    padding: [0; 8],
};

/// `rb_gc_stat`, for the hooks.
static GC_STAT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static MAJOR_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Number of full collections whose sweep had begun at the last event.
static MAJORS: AtomicU64 = AtomicU64::new(0);
/// Number of collections at the last event.
static COLLECTIONS: AtomicU64 = AtomicU64::new(0);
/// Both numbers when the worker was last requested.
static COLLECTIONS_BEFORE: AtomicU64 = AtomicU64::new(0);
static MAJORS_BEFORE: AtomicU64 = AtomicU64::new(0);

/// The worker has to be started by a job, and has not been yet.
static WANTED: AtomicBool = AtomicBool::new(false);
static JOB: sys::Once<Postpone> = sys::Once::new();

/// The moment of a collection to observe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The mark, through the sentinel.
    Mark,
    /// The end of the sweep, through an event hook.
    EndOfSweep,
}

/// Returns the numbers of collections and full collections observed so far.
pub(crate) fn observed() -> (u64, u64) {
    (COLLECTIONS.load(Ordering::Relaxed), MAJORS.load(Ordering::Relaxed))
}

/// Returns whether this Ruby's collector keeps the counts that the hooks need: `rb_gc_stat` raises for
/// unknown keys, and MMTk (Ruby 3.4 and later) has no full collections.
pub(crate) fn counts(ruby: &Ruby) -> bool {
    ruby.holds(c"GC.stat.key?(:count) && GC.stat.key?(:major_gc_count)")
}

/// Starts to observe. Call with the GVL, outside a collection, with a collector that [`counts`]. Returns
/// false if this Ruby lacks a requirement.
pub(crate) fn listen(ruby: &Ruby, moment: Moment, job: Postpone) -> bool {
    let (count, major_count) = (ruby.symbol(c"count"), ruby.symbol(c"major_gc_count"));
    // SAFETY: symbols of `GC.stat`. The first call makes rb_gc_stat intern its symbols, which is impossible
    // during a collection.
    let (collections, majors) = unsafe { ((ruby.gc_stat)(count), (ruby.gc_stat)(major_count)) };
    COLLECTIONS.store(collections as u64, Ordering::Relaxed);
    MAJORS.store(majors as u64, Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
    MAJOR_COUNT.store(major_count, Ordering::Relaxed);
    GC_STAT.store(ruby.gc_stat as *mut c_void, Ordering::Release);
    JOB.set(job);
    want_worker();
    match moment {
        Moment::Mark => {
            // SAFETY: a hidden object (class 0) whose data is never touched but must not be null: CRuby skips
            // the mark function of an object without data.
            let sentinel =
                unsafe { (ruby.wrap)(0, (&raw const SENTINEL).cast_mut().cast(), &raw const SENTINEL) };
            // SAFETY: keeps the object forever.
            unsafe { (ruby.keep)(sentinel) };
            true
        }
        Moment::EndOfSweep => hook_end_of_sweep(ruby),
    }
}

/// Records that no worker runs in this process: from the next collection on, each requests one until it
/// starts. A request can get lost, because it waits on the thread that collects, which may end before its
/// next safe point.
pub(crate) fn want_worker() {
    let (collections, majors) = observed();
    COLLECTIONS_BEFORE.store(collections, Ordering::Relaxed);
    MAJORS_BEFORE.store(majors, Ordering::Relaxed);
    WANTED.store(true, Ordering::Release);
}

/// Records that the worker is starting.
pub(crate) fn worker_comes() {
    WANTED.store(false, Ordering::Release);
}

/// The counts of collections heard, at the time the worker was requested, since a forked child has its parent's counts.
pub(crate) fn heard_before_worker() -> (u64, u64) {
    (COLLECTIONS_BEFORE.load(Ordering::Relaxed), MAJORS_BEFORE.load(Ordering::Relaxed))
}

fn hook_end_of_sweep(ruby: &Ruby) -> bool {
    let (Some(new), Some(enable)) = (sys::symbol(c"rb_tracepoint_new"), sys::symbol(c"rb_tracepoint_enable"))
    else {
        return false;
    };
    // SAFETY: types as in include/ruby/debug.h.
    let new: unsafe extern "C" fn(Value, u32, extern "C" fn(Value, *mut c_void), *mut c_void) -> Value =
        unsafe { core::mem::transmute(new) };
    // SAFETY: as above.
    let enable: unsafe extern "C" fn(Value) -> Value = unsafe { core::mem::transmute(enable) };
    // SAFETY: with the GVL, outside a collection; the hook takes no data.
    unsafe {
        let tracepoint = new(0, END_SWEEP, on_end_of_sweep, core::ptr::null_mut());
        (ruby.keep)(tracepoint);
        enable(tracepoint);
    }
    true
}

extern "C" fn on_mark(_data: *mut c_void) {
    on_event();
}

extern "C" fn on_end_of_sweep(_tracepoint: Value, _data: *mut c_void) {
    on_event();
}

/// Runs in a collection, on whichever thread collects: stores the counts and wakes the worker.
fn on_event() {
    let gc_stat = GC_STAT.load(Ordering::Acquire);
    if gc_stat.is_null() {
        return;
    }
    // SAFETY: a non-null pointer here is rb_gc_stat.
    let gc_stat: unsafe extern "C" fn(Value) -> usize = unsafe { core::mem::transmute(gc_stat) };
    // SAFETY: with symbols it knows, rb_gc_stat reads two counters of the object space and nothing else.
    let (count, majors) = unsafe {
        (gc_stat(COUNT.load(Ordering::Relaxed)) as u64, gc_stat(MAJOR_COUNT.load(Ordering::Relaxed)) as u64)
    };
    COLLECTIONS.store(count, Ordering::Relaxed);
    MAJORS.store(majors, Ordering::Relaxed);
    page::set(Word::GcCount, count);
    page::set(Word::GcMajorCount, majors);
    if let Some(job) = JOB.get().filter(|_| WANTED.load(Ordering::Acquire)) {
        job.request();
    }
    worker::wake();
}
