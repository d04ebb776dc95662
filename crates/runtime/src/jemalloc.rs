//! Questions and orders to the jemalloc in the process, through its `mallctl` (jemalloc(3)).

use crate::adaptive::Returning;
use crate::sys::{self, Line};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

type Mallctl = unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

static MALLCTL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// True if the delay of freed pages is the runtime's to change.
static STEERED: AtomicBool = AtomicBool::new(false);
/// True if that delay is 0 now. A forked child inherits it with the arenas.
static AT_ONCE: AtomicBool = AtomicBool::new(false);

/// This is the process's jemalloc. Its delay is left alone if the user has set one, in `MALLOC_CONF`.
pub(crate) fn found(mallctl: *mut c_void) {
    MALLCTL.store(mallctl, Ordering::Release);
    let own =
        sys::environment::<1024>(c"MALLOC_CONF").is_some_and(|conf| conf.as_str().contains("dirty_decay_ms"));
    STEERED.store(!own && delay_ms().is_some_and(|ms| ms > 0), Ordering::Relaxed);
}

/// True if the process's malloc is jemalloc's.
pub(crate) fn is_here() -> bool {
    mallctl().is_some()
}

/// Its version, as `5.3.1`.
pub(crate) fn version() -> &'static str {
    let address: usize = read_value(c"version").unwrap_or(0);
    if address == 0 {
        return "of unknown version";
    }
    // SAFETY: "version" is a constant C string of the library.
    let version = unsafe { CStr::from_ptr(address as *const c_char) }.to_str().unwrap_or_default();
    // "5.3.1-0-g81034ce1f137…": the commit says nothing that the version does not.
    version.split('-').next().unwrap_or_default()
}

/// Gives all free pages back.
pub(crate) fn purge() {
    let Some(mallctl) = mallctl() else { return };
    let none = core::ptr::null_mut();
    // SAFETY: "arena.<MALLCTL_ARENAS_ALL>.purge" takes no arguments (5.0 and later).
    unsafe { mallctl(c"arena.4096.purge".as_ptr(), none, core::ptr::null_mut(), none, 0) };
}

/// Bytes that it holds free and could give back.
pub(crate) fn returnable_bytes() -> Option<u64> {
    mallctl()?;
    let mut epoch = 1_u64;
    write_value(c"epoch", &mut epoch)?;
    let pages: usize = read_value(c"stats.arenas.4096.pdirty")?;
    let page: usize = read_value(c"arenas.page")?;
    Some((pages as u64).saturating_mul(page as u64))
}

/// Pages that it has given back so far, as of the last [`returnable_bytes`]; `None` where it keeps no statistics.
pub(crate) fn returned_pages() -> Option<u64> {
    let dirty: u64 = read_value(c"stats.arenas.4096.dirty_purged")?;
    let muzzy: u64 = read_value(c"stats.arenas.4096.muzzy_purged")?;
    Some(dirty.saturating_add(muzzy))
}

/// Moment at which it returns freed pages; `None` where that is not the runtime's to change.
pub(crate) fn returning() -> Option<Returning> {
    let now = if AT_ONCE.load(Ordering::Relaxed) { Returning::AtOnce } else { Returning::Later };
    STEERED.load(Ordering::Relaxed).then_some(now)
}

/// Changes the moment at which it returns freed pages. Going over to "at once" gives back what is free now, on this thread.
pub(crate) fn set_returning(returning: Returning) {
    let Some(configured_ms) = delay_ms() else { return };
    let mut delay_ms: isize = if returning == Returning::AtOnce { 0 } else { configured_ms };
    AT_ONCE.store(returning == Returning::AtOnce, Ordering::Relaxed);
    // Arenas to come, then those that there are. The arena for oversized blocks, which is not counted in opt.narenas, has a delay
    // of 0 from the start (`arena_choose_huge`, 5.3.1 `src/arena.c`).
    let _ = write_value(c"arenas.dirty_decay_ms", &mut delay_ms);
    for arena in 0..read_value::<u32>(c"opt.narenas").unwrap_or(0) {
        let mut name = Line::<48>::new();
        // It fits; an arena that is not in use yet refuses.
        let _ = write!(name, "arena.{arena}.dirty_decay_ms");
        let _ = write_value(name.as_c_str(), &mut delay_ms);
    }
}

/// The delay that it was started with, in milliseconds; negative: never.
fn delay_ms() -> Option<isize> {
    read_value(c"opt.dirty_decay_ms")
}

/// State of its background threads; `None` for another allocator.
pub(crate) fn background_threads() -> Option<bool> {
    read_value::<u8>(c"background_thread").map(|on| on != 0)
}

/// Starts its background threads again. A forked child loses them and jemalloc leaves them off
/// (`background_thread_postfork_child`, 5.3.1 `src/background_thread.c`).
pub(crate) fn restart_background_threads() {
    let mut on = 1_u8;
    let _ = write_value(c"background_thread", &mut on);
}

fn mallctl() -> Option<Mallctl> {
    let address = MALLCTL.load(Ordering::Acquire);
    // SAFETY: a non-null pointer here is the `mallctl` beside the process's malloc, of jemalloc(3)'s type.
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
