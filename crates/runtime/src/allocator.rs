//! The allocator that serves this process, and its ways of returning freed memory.
//!
//! The allocator is identified by what is actually loaded, not by what was requested: the library that
//! defines the `malloc` in use. jemalloc is recognized by `mallctl` in the same library as that `malloc`,
//! glibc by `gnu_get_libc_version`; any other library that exports its own `malloc_trim` (tcmalloc does,
//! `tcmalloc/libc_override.h`) is trimmed through that.

use crate::line::Line;
use crate::sys;
use crate::{jemalloc, page};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicPtr, Ordering};
use unbloat_contract::text::parts;
use unbloat_contract::{Text, Variable};

type MallocTrim = unsafe extern "C" fn(usize) -> c_int;
type Mallopt = unsafe extern "C" fn(c_int, c_int) -> c_int;
type DlAddr = unsafe extern "C" fn(*const c_void, *mut libc::Dl_info) -> c_int;

static MALLOC_TRIM: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

/// Identifies the allocator, records it on the page, and pins glibc's thresholds if it is glibc.
pub(crate) fn recognize(threshold_bytes: Option<u64>) {
    let Some(malloc) = object(c"malloc") else { return };
    let beside = |name| {
        sys::symbol(name).filter(|_| object(name).is_some_and(|object| object.dli_fbase == malloc.dli_fbase))
    };
    let mut name = Line::<64>::new();
    // A name too long for the page is truncated.
    if let Some(mallctl) = beside(c"mallctl") {
        jemalloc::register(mallctl);
        let _ = write!(name, "jemalloc {}", jemalloc::version());
    } else if let Some(version) = beside(c"gnu_get_libc_version") {
        MALLOC_TRIM.store(beside(c"malloc_trim").unwrap_or(core::ptr::null_mut()), Ordering::Release);
        let _ = write!(name, "glibc {}", glibc_version(version));
        let threshold_bytes = threshold_bytes.filter(|_| !user_has_pinned());
        if let (Some(bytes), Some(mallopt)) = (threshold_bytes, beside(c"mallopt")) {
            pin_thresholds(mallopt, bytes);
        }
    } else {
        MALLOC_TRIM.store(beside(c"malloc_trim").unwrap_or(core::ptr::null_mut()), Ordering::Release);
        let _ = write!(name, "unknown ({})", file_name(&malloc));
    }
    page::set_text(Text::Allocator, name.as_str());
}

/// Returns whether [`give_back`] can do anything.
pub(crate) fn is_known() -> bool {
    jemalloc::is_here() || !MALLOC_TRIM.load(Ordering::Acquire).is_null()
}

/// Returns freed memory to the kernel, which may take milliseconds. Must not be called from a garbage
/// collection hook.
pub(crate) fn give_back() {
    if jemalloc::is_here() {
        return jemalloc::purge();
    }
    let trim = MALLOC_TRIM.load(Ordering::Acquire);
    if !trim.is_null() {
        // SAFETY: a non-null pointer here is the `malloc_trim` of the library with the process's malloc; its
        // type is that of malloc_trim(3).
        let trim: MallocTrim = unsafe { core::mem::transmute(trim) };
        // SAFETY: as above; it may be called at any time outside the allocator.
        unsafe { trim(0) };
    }
}

/// Returns whether [`give_back`] holds a lock that allocations wait for. jemalloc holds none while it returns
/// pages: it takes one extent at a time out of reach, and drops its decay lock meanwhile
/// (`pac_decay_to_limit`, 5.3.1 `src/pac.c`).
pub(crate) fn trims_hold_a_lock() -> bool {
    !jemalloc::is_here()
}

fn glibc_version(function: *mut c_void) -> &'static str {
    // SAFETY: the symbol is gnu_get_libc_version(3), which takes nothing and returns a constant C string.
    let function: unsafe extern "C" fn() -> *const c_char = unsafe { core::mem::transmute(function) };
    // SAFETY: as above.
    unsafe { CStr::from_ptr(function()) }.to_str().unwrap_or_default()
}

/// Returns whether the user has set one of glibc's thresholds, any of which stops both from adapting
/// (`do_set_mmap_threshold` and similar functions), without giving us another.
fn user_has_pinned() -> bool {
    let variables =
        [c"MALLOC_TRIM_THRESHOLD_", c"MALLOC_MMAP_THRESHOLD_", c"MALLOC_TOP_PAD_", c"MALLOC_MMAP_MAX_"];
    let tunables = sys::environment::<1024>(c"GLIBC_TUNABLES").unwrap_or_default();
    let names = ["trim_threshold", "mmap_threshold", "top_pad", "mmap_max"];
    let tuned = parts(tunables.as_str(), b":").filter_map(|tunable| tunable.strip_prefix("glibc.malloc."));
    let pinned = variables.iter().any(|name| sys::environment::<8>(name).is_some())
        || tuned.into_iter().any(|tunable| names.iter().any(|name| tunable.starts_with(name)));
    pinned && sys::environment::<8>(Variable::TrimThreshold.c_name()).is_none()
}

/// Pins `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD`. Unless pinned, freeing one mapped chunk of 20 MB makes
/// every arena keep up to 40 MB from then on (`munmap_chunk`, glibc 2.27–2.42 `malloc/malloc.c`).
fn pin_thresholds(mallopt: *mut c_void, bytes: u64) {
    // SAFETY: the symbol is glibc's mallopt(3).
    let mallopt: Mallopt = unsafe { core::mem::transmute(mallopt) };
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    for parameter in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: as above; the parameters are documented.
        unsafe { mallopt(parameter, bytes) };
    }
}

/// Limits glibc's arenas, if glibc serves this process.
pub(crate) fn limit_arenas(limit: c_int) {
    let (Some(malloc), Some(version)) = (object(c"malloc"), object(c"gnu_get_libc_version")) else { return };
    let Some(mallopt) = sys::symbol(c"mallopt").filter(|_| malloc.dli_fbase == version.dli_fbase) else {
        return;
    };
    // SAFETY: glibc serves, so the symbol is its mallopt(3).
    let mallopt: Mallopt = unsafe { core::mem::transmute(mallopt) };
    // SAFETY: as above; the parameter is documented.
    unsafe { mallopt(libc::M_ARENA_MAX, limit) };
}

/// Returns the object (program or library) that defines a symbol.
fn object(name: &CStr) -> Option<libc::Dl_info> {
    let address = sys::symbol(name)?;
    let dladdr = sys::symbol(c"dladdr")?;
    // SAFETY: the symbol is dladdr(3).
    let dladdr: DlAddr = unsafe { core::mem::transmute(dladdr) };
    // SAFETY: an all-zero Dl_info is valid.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr only compares the address with the loaded objects and fills the live structure.
    (unsafe { dladdr(address, &raw mut info) } != 0).then_some(info)
}

/// Returns an object's file name without directories.
fn file_name(object: &libc::Dl_info) -> &str {
    if object.dli_fname.is_null() {
        return "";
    }
    // SAFETY: the name that dladdr gave is a C string that lives as long as the object is loaded.
    let path = unsafe { CStr::from_ptr(object.dli_fname) }.to_str().unwrap_or_default();
    parts(path, b"/").next_back().unwrap_or_default()
}
