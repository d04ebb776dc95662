//! The few system calls of the runtime, and symbol lookup by name.
//!
//! Nothing here allocates. For functions that glibc 2.34 moved into libc (with a new version), the call goes
//! through [`symbol`] or straight to the kernel, so that one build loads on glibc 2.31 and later.

use crate::line::Line;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

core::arch::global_asm!(
    ".weak unbloat_dlsym",
    #[cfg(target_arch = "x86_64")]
    ".symver unbloat_dlsym, dlsym@GLIBC_2.2.5",
    #[cfg(target_arch = "aarch64")]
    ".symver unbloat_dlsym, dlsym@GLIBC_2.17",
);

unsafe extern "C" {
    // `dlsym` in its location before glibc 2.34 (libdl), under our own name so that the old version can be
    // requested.
    fn unbloat_dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Returns the address of a symbol exported by anything in the process.
pub(crate) fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string; RTLD_DEFAULT is null on Linux. dlsym takes the loader's lock and
    // allocates nothing if it succeeds.
    let address = unsafe { unbloat_dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Returns a copy of an environment variable's value, truncated after `N - 1` bytes; `None` if unset or not
/// UTF-8.
///
/// A copy, because the value in the environment lives only until the program changes it.
pub(crate) fn environment<const N: usize>(name: &CStr) -> Option<Line<N>> {
    // SAFETY: getenv takes a C string. The runtime calls it with the GVL, under which Ruby changes the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a non-null result is a C string, copied before anything else can run.
    unsafe { CStr::from_ptr(value) }.to_str().ok().map(Line::of)
}

/// Reads `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the CPU time of the calling thread in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    nanoseconds(time.tv_sec as u64, time.tv_nsec as u64)
}

fn nanoseconds(seconds: u64, fraction_ns: u64) -> u64 {
    seconds.wrapping_mul(1_000_000_000).wrapping_add(fraction_ns)
}

/// Returns the minor faults and CPU nanoseconds of the whole process so far.
pub(crate) fn usage() -> (u64, u64) {
    // SAFETY: an all-zero rusage is a valid one.
    let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let ns = |time: libc::timeval| nanoseconds(time.tv_sec as u64, (time.tv_usec as u64).wrapping_mul(1000));
    (usage.ru_minflt as u64, ns(usage.ru_utime).wrapping_add(ns(usage.ru_stime)))
}

/// Returns the resident set in bytes, from `/proc/self/statm`; 0 if it cannot be read (no `/proc`, no free
/// descriptor).
pub(crate) fn resident_bytes() -> u64 {
    let mut text = [0_u8; 128];
    let length = read_file(c"/proc/self/statm", &mut text);
    let mut fields = text.get(..length).unwrap_or_default().split(|&byte| byte == b' ');
    fields.nth(1).and_then(decimal).unwrap_or(0).saturating_mul(page_bytes())
}

/// Returns the start time of this process, in clock ticks since boot: field 22 of `/proc/self/stat`
/// (proc(5)).
pub(crate) fn start_ticks() -> u64 {
    let mut text = [0_u8; 1024];
    let length = read_file(c"/proc/self/stat", &mut text);
    let text = text.get(..length).unwrap_or_default();
    // The command (field 2) may contain anything; the fields after its closing parenthesis start with number
    // 3.
    let Some(end) = text.iter().rposition(|&byte| byte == b')') else { return 0 };
    let mut fields = text.get(end..).unwrap_or_default().split(|&byte| byte == b' ');
    fields.nth(22 - 2).and_then(decimal).unwrap_or(0)
}

/// Returns the inode of the PID namespace, from `/proc/self/ns/pid` (`pid:[4026531836]`); 0 if unknown.
pub(crate) fn pid_namespace() -> u64 {
    let mut text = [0_u8; 64];
    // SAFETY: the path is a C string and the buffer has the given length.
    let length =
        unsafe { libc::readlink(c"/proc/self/ns/pid".as_ptr(), text.as_mut_ptr().cast(), text.len()) };
    let text = text.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
    let digits = text.split(|byte| !byte.is_ascii_digit()).find(|part| !part.is_empty());
    digits.and_then(decimal).unwrap_or(0)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf only reads.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Reads the beginning of a file; returns the number of bytes read, 0 on any error.
fn read_file(path: &CStr, buffer: &mut [u8]) -> usize {
    // SAFETY: the path is a C string; the descriptor is ours and closed below.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return 0;
    }
    // SAFETY: the buffer has the given length; the descriptor is open.
    let length = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
    // SAFETY: the descriptor was opened above and is used by nothing else.
    unsafe { libc::close(file) };
    usize::try_from(length).unwrap_or(0)
}

/// Reads a file to its end; returns the number of bytes, or `None` on an error or if the buffer is too small.
pub(crate) fn read_whole_file(path: &CStr, buffer: &mut [u8]) -> Option<usize> {
    // SAFETY: the path is a C string; the descriptor is ours and closed below.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let mut length = 0;
    let result = loop {
        let Some(unfilled) = buffer.get_mut(length..).filter(|unfilled| !unfilled.is_empty()) else {
            break None;
        };
        // SAFETY: the unfilled part has the given length; the descriptor is open.
        let read = unsafe { libc::read(file, unfilled.as_mut_ptr().cast(), unfilled.len()) };
        match usize::try_from(read) {
            Ok(0) => break Some(length),
            Ok(read) => length = length.saturating_add(read),
            Err(_) => break None,
        }
    };
    // SAFETY: the descriptor was opened above and is used by nothing else.
    unsafe { libc::close(file) };
    result
}

/// Writes to a file at an offset, best effort.
pub(crate) fn write_at(file: c_int, bytes: &[u8], offset: usize) {
    // SAFETY: the bytes have the given length.
    unsafe { libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), offset as libc::off_t) };
}

/// Returns whether this process may write files of this many bytes; otherwise the write would kill it
/// (SIGXFSZ).
pub(crate) fn may_write(bytes: usize) -> bool {
    // SAFETY: an all-zero rlimit is valid.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a live rlimit.
    let status = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    status == 0 && limit.rlim_cur >= bytes as u64
}

/// Writes a line to stderr, best effort.
pub(crate) fn log(text: &str) {
    // SAFETY: the bytes have the given length.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Waits until `word` differs from `seen`, another thread wakes it, or the timeout expires (`None`: never).
pub(crate) fn futex_wait(word: &AtomicU32, seen: u32, timeout_ns: Option<u64>) {
    let time = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let time = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word lives as long as the call; the timespec is null or live.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, seen, time)
    };
}

/// Wakes any thread waiting on `word`. Neither blocks nor allocates.
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word lives as long as the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, c_int::MAX)
    };
}

/// A one-word mutex, which a forked child can simply recreate.
#[derive(Debug)]
pub(crate) struct Mutex(AtomicU32);

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

impl Mutex {
    /// Creates an unlocked mutex.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Locks the mutex, sleeping while another thread holds it.
    pub(crate) fn lock(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex_wait(&self.0, CONTENDED, None);
        }
    }

    /// Unlocks the mutex. Also correct in a forked child, whichever thread of the parent had locked it.
    pub(crate) fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            futex_wake(&self.0);
        }
    }

    /// Runs `work` with the mutex held.
    pub(crate) fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        self.lock();
        let result = work();
        self.unlock();
        result
    }
}

/// A value that is set once, before the threads that read it start.
pub(crate) struct Once<T: Copy> {
    set: AtomicU32,
    value: core::cell::UnsafeCell<Option<T>>,
}

// SAFETY: the value is written once, before `set`, and only read after `set` was seen.
unsafe impl<T: Copy + Send> Sync for Once<T> {}

impl<T: Copy> Once<T> {
    /// Creates an unset value.
    pub(crate) const fn new() -> Self {
        Self { set: AtomicU32::new(0), value: core::cell::UnsafeCell::new(None) }
    }

    /// Sets the value; a second call is ignored. Must only be called by one thread.
    pub(crate) fn set(&self, value: T) {
        if self.set.load(Ordering::Acquire) == 0 {
            // SAFETY: one thread sets, and nothing reads before the store below.
            unsafe { *self.value.get() = Some(value) };
            self.set.store(1, Ordering::Release);
        }
    }

    /// Returns the value, if set.
    pub(crate) fn get(&self) -> Option<T> {
        if self.set.load(Ordering::Acquire) == 0 {
            return None;
        }
        // SAFETY: set, and never written again.
        unsafe { *self.value.get() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_process_is_seen_as_the_kernel_sees_it() {
        assert!(resident_bytes() > 1 << 20);
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let expected = stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap();
        assert_eq!(start_ticks().to_string(), expected);
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(format!("pid:[{}]", pid_namespace()), namespace.to_string_lossy());
    }

    #[test]
    fn the_mutex_excludes() {
        static MUTEX: Mutex = Mutex::new();
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        MUTEX.with(|| {
                            assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
                            INSIDE.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
    }

    #[test]
    fn symbols_are_found_by_name() {
        assert!(symbol(c"malloc").is_some());
        assert!(symbol(c"unbloat_no_such_symbol").is_none());
    }
}
