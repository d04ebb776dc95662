//! The status page. Every word is private memory: a store is one relaxed atomic, without a lock or an
//! allocation, safe in any hook.
//!
//! Other processes read a file, to which [`flush`] writes the words from time to time, outside any hook. The
//! file is also mapped, only so that readers find its path in the process's mappings. Nothing in the process
//! touches that mapping, so a truncated or removed file does no harm. The file is reopened each time: the
//! program could close a descriptor kept open, and its number could then belong to another file.

use crate::line::Line;
use crate::sys;
use core::ffi::{CStr, c_int, c_void};
use core::fmt::Write as _;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use unbloat_contract::{
    FileName, MAGIC, PAGE_BYTES, RUNTIME_SUBDIRECTORY, Reason, SHARED_MEMORY_PREFIX, Step, Text, WORDS, Word,
    pack, step_words, text::split_last, trim_bucket, words_of,
};

static PAGE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The mapping that reveals the file's path, never read or written here; null without a file.
static SIGNPOST: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The process that created the file. Another one has inherited its path and must not remove it.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// Device and inode of the file, the only one that is written to.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

const PATH_BYTES: usize = 256;
/// The file's path as a C string. Written by the file's creator, before `OWNER`.
static PATH: [AtomicU64; PATH_BYTES / 8] = [const { AtomicU64::new(0) }; PATH_BYTES / 8];

fn word(place: Word) -> &'static AtomicU64 {
    // The index is a constant of the layout, far below WORDS; the fallback is never used and cannot panic.
    PAGE.get(place as usize).unwrap_or(&PAGE[WORDS - 1])
}

/// Stores a number.
pub(crate) fn set(place: Word, value: u64) {
    word(place).store(value, Ordering::Relaxed);
}

/// Adds to a number.
pub(crate) fn add(place: Word, value: u64) {
    word(place).fetch_add(value, Ordering::Relaxed);
}

/// Raises a number to at least `value`.
pub(crate) fn raise(place: Word, value: u64) {
    word(place).fetch_max(value, Ordering::Relaxed);
}

/// Reads a number.
pub(crate) fn get(place: Word) -> u64 {
    word(place).load(Ordering::Relaxed)
}

/// Records why nothing was done, or that something was.
pub(crate) fn set_reason(reason: Reason) {
    set(Word::LastReason, reason as u64);
}

/// Stores a text.
pub(crate) fn set_text(place: Text, text: &str) {
    for (word, value) in PAGE.iter().skip(place.first_word()).zip(pack(place, text)) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Counts a trim in the histogram of trim times.
pub(crate) fn count_trim_time(ns: u64) {
    if let Some(bucket) = PAGE.get((Word::TrimHistogram as usize).saturating_add(trim_bucket(ns))) {
        bucket.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes a step of the gem. Steps of two threads at once may share a place.
pub(crate) fn note_step(step: Step, now_ns: u64) {
    let (time, code) = step_words(get(Word::Steps));
    for (index, value) in [(time, now_ns), (code, step as u64)] {
        if let Some(word) = PAGE.get(index) {
            word.store(value, Ordering::Relaxed);
        }
    }
    add(Word::Steps, 1);
}

/// Returns a copy of the words, marked as finished.
pub(crate) fn bytes() -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    for (to, from) in bytes.chunks_exact_mut(8).zip(&PAGE) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    if let Some(first) = bytes.first_chunk_mut::<8>() {
        *first = MAGIC.to_ne_bytes();
    }
    bytes
}

/// Creates this process's file, if it has none, and writes the words to it. Call outside any hook, with the
/// GVL: it reads the environment and allocates. Without a usable directory the words stay private.
pub(crate) fn publish() {
    if SIGNPOST.load(Ordering::Acquire).is_null() {
        set(Word::Pid, u64::from(pid().unsigned_abs()));
        set(Word::StartTicks, sys::start_ticks());
        if let Some(directory) = directory() {
            remove_stale(&directory, sys::pid_namespace());
            make_file(&directory);
        }
    }
    flush();
}

/// Writes the words to the file, recreating it if it is gone, as after a logout that removes its user's
/// files. Call outside any hook.
pub(crate) fn flush() {
    if SIGNPOST.load(Ordering::Acquire).is_null() || OWNER.load(Ordering::Acquire) != pid() {
        return;
    }
    let path = stored_path();
    if !write_file(&path) {
        make_file_again(&path);
    }
}

/// Leaves the parent's file to the parent, in a forked child, and starts a new account.
pub(crate) fn forget_parent() {
    let kept = [Word::GcCount, Word::GcMajorCount, Word::ForkGeneration, Word::Hearing];
    let kept = kept.map(|place| (place, get(place)));
    remove_signpost(core::ptr::null_mut());
    for (word, _) in PAGE.iter().zip(0..Text::Policy.first_word()) {
        word.store(0, Ordering::Relaxed);
    }
    for (place, value) in kept {
        set(place, value);
    }
}

fn pid() -> libc::pid_t {
    // SAFETY: getpid only reads.
    unsafe { libc::getpid() }
}

/// Replaces the signpost by another mapping, or by none. Nothing ever holds a reference into it.
fn remove_signpost(next: *mut c_void) {
    let before = SIGNPOST.swap(next, Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: the pointer was to a whole mapping of ours, which nothing refers to.
        unsafe { libc::munmap(before, PAGE_BYTES) };
    }
}

/// Returns the directory of the pages, creating it if necessary. It is only used if it is exclusively ours.
fn directory() -> Option<Line<PATH_BYTES>> {
    let runtime = sys::environment::<PATH_BYTES>(c"XDG_RUNTIME_DIR")
        .filter(|runtime| runtime.as_str().starts_with('/') && !runtime.is_cut());
    if let Some(runtime) = runtime {
        let mut path = Line::<PATH_BYTES>::new();
        let fits = write!(path, "{}/{RUNTIME_SUBDIRECTORY}", runtime.as_str()).is_ok();
        if fits && make_private_directory(&path) {
            return Some(path);
        }
    }
    shared_memory_directory()
}

fn shared_memory_directory() -> Option<Line<PATH_BYTES>> {
    let mut path = Line::<PATH_BYTES>::new();
    // SAFETY: geteuid only reads.
    write!(path, "{SHARED_MEMORY_PREFIX}{}", unsafe { libc::geteuid() }).ok()?;
    make_private_directory(&path).then_some(path)
}

/// Creates a directory with mode 0700, or accepts an existing one that is no link, ours, and closed to
/// others.
fn make_private_directory(path: &Line<PATH_BYTES>) -> bool {
    // SAFETY: the path is a C string.
    unsafe { libc::mkdir(path.as_ptr(), 0o700) };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: geteuid only reads.
    let user = unsafe { libc::geteuid() };
    let is_private = |stat: &libc::stat| stat.st_uid == user && stat.st_mode & 0o077 == 0;
    with_open(path, flags, |_, stat| is_private(stat)).unwrap_or(false)
}

/// Opens a path, passes its descriptor and its state to `work`, and closes it. `None` if it cannot be opened.
fn with_open<T>(
    path: &Line<PATH_BYTES>,
    flags: c_int,
    work: impl FnOnce(c_int, &libc::stat) -> T,
) -> Option<T> {
    // SAFETY: the path is a C string; the mode only matters for a new file; the descriptor is closed below.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if file < 0 {
        return None;
    }
    // SAFETY: an all-zero stat is valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel's fstat fills libc's `struct stat` on the 64-bit targets we build for; glibc's
    // wrapper would tie the library to glibc 2.33.
    let status = unsafe { libc::syscall(libc::SYS_fstat, file, &raw mut stat) };
    let result = (status == 0).then(|| work(file, &stat));
    // SAFETY: the descriptor was opened above and is used by nothing else.
    unsafe { libc::close(file) };
    result
}

/// Creates the file of this process in a directory with mode 0600, never through a link or over another's
/// file, and maps the signpost.
fn make_file(directory: &Line<PATH_BYTES>) -> bool {
    let mut path = Line::<PATH_BYTES>::new();
    let name = FileName { namespace: sys::pid_namespace(), pid: pid().unsigned_abs() };
    if write!(path, "{}/{name}", directory.as_str()).is_err() || !sys::may_write(PAGE_BYTES) {
        return false;
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path is a C string. The name contains our own PID, so an existing file is a leftover of an
    // earlier program with that PID, or of ourselves before an exec.
    unsafe { libc::unlink(path.as_ptr()) };
    let mapped = with_open(&path, flags, |file, stat| {
        FILE[0].store(stat.st_dev, Ordering::Relaxed);
        FILE[1].store(stat.st_ino, Ordering::Relaxed);
        map(file)
    });
    let Some(mapped) = mapped else { return false };
    if mapped == libc::MAP_FAILED {
        // SAFETY: the path is a C string and the file ours.
        unsafe { libc::unlink(path.as_ptr()) };
        return false;
    }
    for (to, from) in PATH.iter().zip(words_of(path.as_str())) {
        to.store(from, Ordering::Relaxed);
    }
    if OWNER.swap(pid(), Ordering::Release) == 0 {
        // SAFETY: registers a function that lives as long as the library, which Ruby never unloads.
        unsafe { libc::atexit(remove_own) };
    }
    write_file(&path);
    remove_signpost(mapped);
    true
}

/// Maps a new file to make its path visible. The space is allocated now, so a full file system shows at once.
fn map(file: c_int) -> *mut c_void {
    // SAFETY: the descriptor is open; the mapping is new, and nothing ever reads from or writes to it.
    unsafe {
        match libc::posix_fallocate(file, 0, PAGE_BYTES as libc::off_t) {
            0 => libc::mmap(core::ptr::null_mut(), PAGE_BYTES, libc::PROT_READ, libc::MAP_SHARED, file, 0),
            _ => libc::MAP_FAILED,
        }
    }
}

/// Creates the file again, in its directory or else in shared memory. The environment is not read, because
/// this may be the worker.
fn make_file_again(path: &Line<PATH_BYTES>) {
    let directory = split_last(path.as_str(), b'/').map_or("", |(directory, _)| directory);
    let directory = Line::<PATH_BYTES>::of(directory);
    if make_private_directory(&directory) && make_file(&directory) {
        return;
    }
    if let Some(directory) = shared_memory_directory() {
        make_file(&directory);
    }
}

/// Writes the words to the file; returns false if it no longer exists. The first word, which marks the page
/// as finished, comes last.
fn write_file(path: &Line<PATH_BYTES>) -> bool {
    let bytes = bytes();
    let (first, rest) = bytes.split_at(size_of::<u64>());
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let written = with_open(path, flags, |file, stat| {
        let known =
            FILE[0].load(Ordering::Relaxed) == stat.st_dev && FILE[1].load(Ordering::Relaxed) == stat.st_ino;
        if known && sys::may_write(PAGE_BYTES) {
            sys::write_at(file, rest, first.len());
            sys::write_at(file, first, 0);
        }
        known
    });
    written.unwrap_or(false)
}

/// Removes the pages of processes that are gone but could not do so because of SIGKILL.
fn remove_stale(directory: &Line<PATH_BYTES>, namespace: u64) {
    // SAFETY: the path is a C string; the stream is closed below. This runs outside any hook: it may allocate.
    let stream = unsafe { libc::opendir(directory.as_ptr()) };
    if stream.is_null() {
        return;
    }
    loop {
        // SAFETY: the stream is open and used by this thread alone.
        let entry = unsafe { libc::readdir64(stream) };
        if entry.is_null() {
            break;
        }
        // SAFETY: readdir returned an entry, whose name is a C string that lives until the next call.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) };
        let Some(page) = name.to_str().ok().and_then(FileName::parse) else { continue };
        let Ok(pid) = libc::pid_t::try_from(page.pid) else { continue };
        // SAFETY: signal 0 only queries; the stream's descriptor is open and the name is a C string.
        unsafe {
            let gone = page.namespace == namespace
                && pid > 0
                && libc::kill(pid, 0) != 0
                && *libc::__errno_location() == libc::ESRCH;
            if gone {
                libc::unlinkat(libc::dirfd(stream), name.as_ptr(), 0);
            }
        }
    }
    // SAFETY: the stream was opened above.
    unsafe { libc::closedir(stream) };
}

/// Removes the file at exit, unless it is a parent's.
extern "C" fn remove_own() {
    if OWNER.load(Ordering::Acquire) != pid() || SIGNPOST.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: PATH holds a C string since before OWNER was set; AtomicU64 has the layout of u64.
    unsafe { libc::unlink(PATH.as_ptr().cast()) };
}

/// Returns the path of the file as created.
fn stored_path() -> Line<PATH_BYTES> {
    let mut bytes = [0_u8; PATH_BYTES];
    for (to, from) in bytes.chunks_exact_mut(8).zip(&PATH) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    let path = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Line::of(path.to_str().unwrap_or_default())
}
