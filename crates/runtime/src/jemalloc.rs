//! Queries and commands for the jemalloc in the process, through its `mallctl` (jemalloc(3)).

use crate::adaptive::Returning;
use crate::line::Line;
use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use unbloat_contract::text::parts;

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

static MALLCTL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The runtime may change the decay time of freed pages.
static STEERED: AtomicBool = AtomicBool::new(false);
/// The decay time is currently 0. A forked child inherits it with the arenas.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// Registers the process's jemalloc. Its decay time is left alone if the user has set one in `MALLOC_CONF`.
pub(crate) fn register(mallctl: *mut c_void) {
    MALLCTL.store(mallctl, Ordering::Release);
    let own =
        sys::environment::<1024>(c"MALLOC_CONF").is_some_and(|conf| conf.as_str().contains("dirty_decay_ms"));
    STEERED.store(!own && delay_ms().is_some_and(|ms| ms > 0), Ordering::Relaxed);
}

/// Returns whether the process's malloc is jemalloc's.
pub(crate) fn is_here() -> bool {
    mallctl().is_some()
}

/// Returns its version, as `5.3.1`.
pub(crate) fn version() -> &'static str {
    let address: usize = read_value(c"version").unwrap_or(0);
    if address == 0 {
        return "of unknown version";
    }
    // SAFETY: "version" is a constant C string of the library.
    let version = unsafe { CStr::from_ptr(address as *const c_char) }.to_str().unwrap_or_default();
    // "5.3.1-0-g81034ce1f137…": the commit adds nothing to the version.
    parts(version, b"-").next().unwrap_or_default()
}

/// Returns all free pages to the kernel.
pub(crate) fn purge() {
    let Some(mallctl) = mallctl() else { return };
    let none = core::ptr::null_mut();
    // SAFETY: "arena.<MALLCTL_ARENAS_ALL>.purge" takes no arguments (5.0 and later).
    unsafe { mallctl(c"arena.4096.purge".as_ptr(), none, core::ptr::null_mut(), none, 0) };
}

/// Returns the number of free bytes that it holds and could return.
pub(crate) fn returnable_bytes() -> Option<u64> {
    mallctl()?;
    let mut epoch = 1_u64;
    write_value(c"epoch", &mut epoch)?;
    let pages: usize = read_value(c"stats.arenas.4096.pdirty")?;
    let page: usize = read_value(c"arenas.page")?;
    Some((pages as u64).saturating_mul(page as u64))
}

/// Returns the number of pages that it has returned so far, as of the last [`returnable_bytes`]; `None`
/// without statistics.
pub(crate) fn returned_pages() -> Option<u64> {
    let dirty: u64 = read_value(c"stats.arenas.4096.dirty_purged")?;
    let muzzy: u64 = read_value(c"stats.arenas.4096.muzzy_purged")?;
    Some(dirty.saturating_add(muzzy))
}

/// Returns when it returns freed pages; `None` if the runtime may not change that.
pub(crate) fn returning() -> Option<Returning> {
    let now = if AT_ONCE.load(Ordering::Relaxed) { Returning::AtOnce } else { Returning::Later };
    STEERED.load(Ordering::Relaxed).then_some(now)
}

/// Changes when it returns freed pages. Switching to "at once" returns currently free pages, on this thread.
pub(crate) fn set_returning(returning: Returning) {
    let Some(configured_ms) = delay_ms() else { return };
    let mut delay_ms: isize = if returning == Returning::AtOnce { 0 } else { configured_ms };
    AT_ONCE.store(returning == Returning::AtOnce, Ordering::Relaxed);
    // Future arenas, then existing ones. The arena for oversized blocks, which is not counted in opt.narenas,
    // has a decay time of 0 from the start (`arena_choose_huge`, 5.3.1 `src/arena.c`).
    let _ = write_value(c"arenas.dirty_decay_ms", &mut delay_ms);
    for arena in 0..read_value::<u32>(c"opt.narenas").unwrap_or(0) {
        let mut name = Line::<48>::new();
        // It fits; an arena that is not in use yet refuses.
        let _ = write!(name, "arena.{arena}.dirty_decay_ms");
        let _ = write_value(name.as_c_str(), &mut delay_ms);
    }
}

/// Returns its initial decay time in milliseconds; negative: never.
fn delay_ms() -> Option<isize> {
    read_value(c"opt.dirty_decay_ms")
}

/// Returns the state of its background threads; `None` for another allocator.
pub(crate) fn background_threads() -> Option<bool> {
    read_value::<u8>(c"background_thread").map(|on| on != 0)
}

/// Restarts its background threads. A forked child loses them and jemalloc leaves them off
/// (`background_thread_postfork_child`, 5.3.1 `src/background_thread.c`).
pub(crate) fn restart_background_threads() {
    let mut on = 1_u8;
    let _ = write_value(c"background_thread", &mut on);
}

/// Gives up the calling thread's cache, for good. A fork leaves the caches of all threads but its own behind in the child: what
/// they hold and their own memory stay allocated there for ever (`arena_postfork_child`, 5.3.1 `src/arena.c`).
pub(crate) fn give_up_cache() {
    let mut enabled = 0_u8;
    let _ = write_value(c"thread.tcache.enabled", &mut enabled);
}

/// Empties the calling thread's cache.
pub(crate) fn flush_cache() {
    let Some(mallctl) = mallctl() else { return };
    let none = core::ptr::null_mut();
    // SAFETY: "thread.tcache.flush" takes no arguments (jemalloc(3)); a thread without a cache is refused.
    unsafe { mallctl(c"thread.tcache.flush".as_ptr(), none, core::ptr::null_mut(), none, 0) };
}

fn mallctl() -> Option<Mallctl> {
    let address = MALLCTL.load(Ordering::Acquire);
    // SAFETY: a non-null pointer here is the `mallctl` of the library with the process's malloc, of
    // jemalloc(3)'s type.
    (!address.is_null()).then(|| unsafe { core::mem::transmute::<*mut c_void, Mallctl>(address) })
}

fn read_value<T: Default>(name: &CStr) -> Option<T> {
    let mut value = T::default();
    let mut size = size_of::<T>();
    // SAFETY: the name is a C string; value and size are live, and jemalloc refuses a size that does not fit.
    let status = unsafe {
        mallctl()?(name.as_ptr(), (&raw mut value).cast(), &raw mut size, core::ptr::null_mut(), 0)
    };
    (status == 0).then_some(value)
}

fn write_value<T>(name: &CStr, value: &mut T) -> Option<()> {
    let size = size_of::<T>();
    // SAFETY: as in `read_value`.
    let status = unsafe {
        mallctl()?(
            name.as_ptr(),
            core::ptr::null_mut(),
            core::ptr::null_mut(),
            core::ptr::from_mut(value).cast(),
            size,
        )
    };
    (status == 0).then_some(())
}
