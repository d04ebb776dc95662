//! Writing the status page. Every store is one relaxed atomic: no lock, no allocation, safe in any hook.
//!
//! Until the file is there, and when it cannot be made, the words go to a private page of the same shape, so that
//! nobody who writes has to ask. A forked child goes back to the private page before it does anything else: its
//! parent's file is its parent's.

use crate::sys::{self, Line};
use core::ffi::CStr;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use unbloat_contract::{
    FileName, MAGIC, PAGE_BYTES, RUNTIME_SUBDIRECTORY, Reason, SHARED_MEMORY_PREFIX, Text, WORDS, Word, pack,
    trim_bucket,
};

static PRIVATE: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// The mapped file, or null while the words go to [`PRIVATE`].
static SHARED: AtomicPtr<[AtomicU64; WORDS]> = AtomicPtr::new(core::ptr::null_mut());
/// The process that made the file; another one has inherited the mapping and must not remove it.
static OWNER: AtomicI32 = AtomicI32::new(0);

const PATH_ROOM: usize = 256;
/// The file's path as a C string, for the exit handler. Written once a process, before `OWNER`.
static PATH: [AtomicU64; PATH_ROOM / 8] = [const { AtomicU64::new(0) }; PATH_ROOM / 8];

fn words() -> &'static [AtomicU64; WORDS] {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: a non-null pointer is to a mapping of PAGE_BYTES bytes that stays until a fork takes the pointer away.
    if shared.is_null() { &PRIVATE } else { unsafe { &*shared } }
}

fn word(place: Word) -> &'static AtomicU64 {
    // The index is a constant of the layout, far below WORDS; the fallback never happens and cannot panic.
    words().get(place as usize).unwrap_or(&PRIVATE[WORDS - 1])
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

/// Reads a number back.
pub(crate) fn get(place: Word) -> u64 {
    word(place).load(Ordering::Relaxed)
}

/// Says why nothing was done, or that something was.
pub(crate) fn set_reason(reason: Reason) {
    set(Word::LastReason, reason as u64);
}

/// Stores a text.
pub(crate) fn set_text(place: Text, text: &str) {
    for (word, value) in words().iter().skip(place.first_word()).zip(pack(place, text)) {
        word.store(value, Ordering::Relaxed);
    }
}

/// Counts a trim in the histogram of trim times.
pub(crate) fn count_trim_time(ns: u64) {
    if let Some(bucket) = words().get(Word::TrimHistogram as usize + trim_bucket(ns)) {
        bucket.fetch_add(1, Ordering::Relaxed);
    }
}

/// A copy of the words, for `Unbloat.status`.
pub(crate) fn bytes() -> [u8; PAGE_BYTES] {
    let mut bytes = [0; PAGE_BYTES];
    for (to, from) in bytes.chunks_exact_mut(8).zip(words()) {
        to.copy_from_slice(&from.load(Ordering::Relaxed).to_ne_bytes());
    }
    // The private page has no magic of its own; what is in memory is finished by definition.
    if let Some(first) = bytes.first_chunk_mut::<8>() {
        *first = MAGIC.to_ne_bytes();
    }
    bytes
}

/// Makes this process's file and moves the words there. Without a usable directory they stay private.
pub(crate) fn publish() {
    if !SHARED.load(Ordering::Acquire).is_null() {
        return;
    }
    // SAFETY: getpid only reads.
    let pid = unsafe { libc::getpid() };
    set(Word::Pid, u64::from(pid.unsigned_abs()));
    set(Word::StartTicks, sys::start_ticks());
    let Some(directory) = directory() else { return };
    let namespace = sys::pid_namespace();
    remove_stale(&directory, namespace);
    let mut path = Line::<PATH_ROOM>::new();
    let name = FileName { namespace, pid: pid.unsigned_abs() };
    if write!(path, "{}/{name}", directory.as_str()).is_err() {
        return;
    }
    let Some(page) = map_new_file(&path) else { return };
    for (to, from) in page.iter().zip(&PRIVATE) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    for (to, from) in PATH.iter().zip(path_words(&path)) {
        to.store(from, Ordering::Relaxed);
    }
    SHARED.store(core::ptr::from_ref(page).cast_mut(), Ordering::Release);
    page[0].store(MAGIC, Ordering::Release);
    if OWNER.swap(pid, Ordering::Release) == 0 {
        // SAFETY: registers a function that lives as long as the library, which Ruby never unloads.
        unsafe { libc::atexit(remove_own) };
    }
}

/// In a forked child: leaves the parent's file to the parent and starts an own account.
pub(crate) fn forget_parent() {
    let kept = [Word::GcCount, Word::GcMajorCount, Word::ForkGeneration, Word::Hearing];
    let kept = kept.map(|place| (place, get(place)));
    let shared = SHARED.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !shared.is_null() {
        // SAFETY: the pointer was to the whole mapping; the child has no other thread that could still use it.
        let parent = unsafe { &*shared };
        for (to, from) in PRIVATE.iter().zip(parent).skip(Text::Policy.first_word()) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // SAFETY: as above; unmaps the child's own view only.
        unsafe { libc::munmap(shared.cast(), PAGE_BYTES) };
    }
    for (to, _) in PRIVATE.iter().zip(0..Text::Policy.first_word()) {
        to.store(0, Ordering::Relaxed);
    }
    for (place, value) in kept {
        set(place, value);
    }
}

/// The directory of the pages, made if need be and only used when it is ours alone.
fn directory() -> Option<Line<PATH_ROOM>> {
    // SAFETY: geteuid only reads.
    let user = unsafe { libc::geteuid() };
    let mut path = Line::<PATH_ROOM>::new();
    let runtime = sys::environment::<PATH_ROOM>(c"XDG_RUNTIME_DIR")
        .filter(|runtime| runtime.as_str().starts_with('/') && !runtime.is_cut());
    if let Some(runtime) = runtime {
        let fits = write!(path, "{}/{RUNTIME_SUBDIRECTORY}", runtime.as_str()).is_ok();
        if fits && make_private_directory(&path, user) {
            return Some(path);
        }
    }
    let mut path = Line::<PATH_ROOM>::new();
    write!(path, "{SHARED_MEMORY_PREFIX}{user}").ok()?;
    make_private_directory(&path, user).then_some(path)
}

/// Makes a directory 0700, or accepts one that is a directory, no link, ours, and closed to others.
fn make_private_directory(path: &Line<PATH_ROOM>, user: libc::uid_t) -> bool {
    // SAFETY: the path is a C string.
    unsafe { libc::mkdir(path.as_ptr(), 0o700) };
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: as above; the descriptor is closed below.
    let directory = unsafe { libc::open(path.as_ptr(), flags) };
    if directory < 0 {
        return false;
    }
    // SAFETY: an all-zero stat is valid.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    // SAFETY: the kernel's fstat fills libc's `struct stat` on the 64-bit targets we build for; glibc's wrapper
    // would tie the library to glibc 2.33.
    let status = unsafe { libc::syscall(libc::SYS_fstat, directory, &raw mut stat) };
    // SAFETY: the descriptor was opened above.
    unsafe { libc::close(directory) };
    status == 0 && stat.st_uid == user && stat.st_mode & 0o077 == 0
}

/// Makes the file, 0600, never through a link or over somebody else's, and maps it.
fn map_new_file(path: &Line<PATH_ROOM>) -> Option<&'static [AtomicU64; WORDS]> {
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: the path is a C string. The name carries our own pid: what lies there is left from a program that had
    // it before us (or from ourselves before an exec).
    let file = unsafe {
        libc::unlink(path.as_ptr());
        libc::open(path.as_ptr(), flags, 0o600)
    };
    if file < 0 {
        return None;
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the descriptor is ours; posix_fallocate makes sure that a full file system shows now and not as a
    // SIGBUS later; the mapping is new.
    let mapped = unsafe {
        let room = libc::posix_fallocate(file, 0, PAGE_BYTES as libc::off_t);
        let mapped = if room == 0 {
            libc::mmap(core::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file, 0)
        } else {
            libc::MAP_FAILED
        };
        libc::close(file);
        mapped
    };
    if mapped == libc::MAP_FAILED {
        // SAFETY: the path is a C string and the file ours.
        unsafe { libc::unlink(path.as_ptr()) };
        return None;
    }
    // SAFETY: the mapping is PAGE_BYTES long, aligned to a page, zeroed, and shared by atomics only.
    Some(unsafe { &*mapped.cast::<[AtomicU64; WORDS]>() })
}

/// Removes the pages of processes that are gone, SIGKILL having kept them from doing it.
fn remove_stale(directory: &Line<PATH_ROOM>, namespace: u64) {
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
        // SAFETY: signal 0 only asks; the stream's descriptor is open and the name is a C string.
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

/// At exit: takes the file away, unless it is a parent's.
extern "C" fn remove_own() {
    // SAFETY: getpid only reads.
    if OWNER.load(Ordering::Acquire) != unsafe { libc::getpid() } || SHARED.load(Ordering::Acquire).is_null()
    {
        return;
    }
    // SAFETY: PATH holds a C string since before OWNER was set; AtomicU64 has the layout of u64.
    unsafe { libc::unlink(PATH.as_ptr().cast()) };
}

fn path_words(path: &Line<PATH_ROOM>) -> impl Iterator<Item = u64> {
    let bytes = path.as_str().as_bytes();
    (0..PATH_ROOM / 8).map(move |word| {
        let mut packed = [0; 8];
        for (to, from) in packed.iter_mut().zip(bytes.iter().skip(word * 8)) {
            *to = *from;
        }
        u64::from_ne_bytes(packed)
    })
}
