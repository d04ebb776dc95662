//! The life of the confined child: it confines itself, works, sends its result and exits.
//!
//! It is a copy of one thread of a process that may have many. A lock that another held stays held in the copy, so the
//! child takes none: libc hands malloc's over in `fork`, the hook for panics is set before, last words are written past the
//! standard library's buffers, and nothing here asks for the environment.

use super::{Limits, Scope, filter};
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit statuses of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The message is complete.
    Done = 0,
    /// It could not be confined, so it did nothing.
    Unconfined = 99,
    /// The work panicked.
    Panicked = 101,
}

impl Exit {
    pub(super) fn of(status: i32) -> Option<Self> {
        [Exit::Done, Exit::Unconfined, Exit::Panicked].into_iter().find(|&exit| exit as i32 == status)
    }
}

static CONFINED: AtomicBool = AtomicBool::new(false);

/// Returns whether this process is a confined child.
pub(super) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Has a panic in a child end it with one line. Called by the parent, before its first fork: the standard library guards
/// the hook by a lock, and a copy of this process in which another thread holds it would wait for ever.
pub(super) fn prepare() {
    static HOOK: Once = Once::new();
    // Asked for once, under a lock, too.
    crate::page_size();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        let hook =
            move |panic: &PanicHookInfo<'_>| if is_confined() { end_with(panic) } else { others(panic) };
        std::panic::set_hook(Box::new(hook));
    });
}

/// One line, past the lock of the standard error, and the end: a backtrace would read and map our own debugging
/// information, and unwinding asks the dynamic linker, which has locks of its own.
fn end_with(panic: &PanicHookInfo<'_>) -> ! {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    say(std::io::stderr().as_fd(), &format_args!("{message} ({place})\n"));
    // SAFETY: as in `live`.
    unsafe { libc::_exit(Exit::Panicked as i32) }
}

/// Virtual memory beyond private memory: the arenas reserved by libc, and mapped files.
const RESERVED_BYTES: u64 = 256 << 20;

/// Runs the child from start to end.
pub(super) fn live<T: Serialize>(
    parent: nix::unistd::Pid,
    limits: &Limits,
    scope: &Scope<'_>,
    outbox: BorrowedFd<'_>,
    errors: BorrowedFd<'_>,
    work: impl FnOnce() -> T,
) -> ! {
    CONFINED.store(true, Ordering::Relaxed);
    let exit = match confine(parent, limits, scope, outbox, errors) {
        Err(reason) => {
            say(errors, &reason);
            Exit::Unconfined
        }
        Ok(()) => match catch_unwind(AssertUnwindSafe(|| send(outbox, &work()))) {
            Ok(()) => Exit::Done,
            Err(_) => Exit::Panicked,
        },
    };
    // SAFETY: ends this copy without running the original's exit handlers.
    unsafe { libc::_exit(exit as i32) }
}

fn say(errors: BorrowedFd<'_>, text: &impl Display) {
    let text = text.to_string();
    // There may be no listener any more.
    let _ = nix::unistd::write(errors, text.as_bytes());
}

/// Sends the result. A parent that no longer wants it ends us through `SIGPIPE` or an error; either is fine.
fn send(outbox: BorrowedFd<'_>, result: &impl Serialize) {
    struct Outbox<'a>(BorrowedFd<'a>);
    impl std::io::Write for Outbox<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            Ok(nix::unistd::write(self.0, bytes)?)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let buffered = std::io::BufWriter::with_capacity(64 << 10, Outbox(outbox));
    let sent = postcard::to_io(result, buffered).map(|mut buffered| buffered.flush());
    if !matches!(sent, Ok(Ok(()))) {
        // SAFETY: as in `live`.
        unsafe { libc::_exit(Exit::Panicked as i32) }
    }
}

/// Gives up everything that the work does not need. The filter comes last, because the steps here need more.
fn confine(
    parent: nix::unistd::Pid,
    limits: &Limits,
    scope: &Scope<'_>,
    outbox: BorrowedFd<'_>,
    errors: BorrowedFd<'_>,
) -> Result<(), String> {
    let step = |name: &'static str| move |errno: nix::Error| format!("{name}: {errno}");
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(step("PR_SET_PDEATHSIG"))?;
    if nix::unistd::getppid() != parent {
        return Err("its parent has ended".to_owned());
    }
    replace_standard_files(errors).map_err(step("standard files"))?;
    let kept = scope.descriptors.iter().chain([&outbox, &errors]).map(|fd| fd.as_raw_fd());
    close_all_but(kept.collect());
    limit(limits).map_err(step("setrlimit"))?;
    nix::sys::prctl::set_no_new_privs().map_err(step("PR_SET_NO_NEW_PRIVS"))?;
    filter::install(scope)
}

/// Disconnects our input and output; panics and aborts go to the parent.
fn replace_standard_files(errors: BorrowedFd<'_>) -> nix::Result<()> {
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(errors)
}

/// Closes every descriptor above the standard ones except those in `kept` (`close_range(2)`, Linux 5.9; one
/// by one before).
fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut from = 3;
    for last in kept.into_iter().map(|fd| fd - 1).chain([RawFd::MAX]) {
        if from <= last {
            close_range(from, last);
        }
        from = from.max(last.saturating_add(2));
    }
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: closes descriptors that nothing in this process uses any more: it exits without dropping their
    // owners.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if closed == 0 {
        return;
    }
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<RawFd> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| (first..=last).contains(fd)) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

fn limit(limits: &Limits) -> nix::Result<()> {
    let memory = own_memory();
    let bound = |inherited: u64, more: u64| inherited.saturating_add(more);
    let data = bound(memory.data_bytes, limits.memory_bytes);
    let virtual_bytes = bound(memory.virtual_bytes, limits.memory_bytes + RESERVED_BYTES);
    let seconds = limits.deadline.as_secs() + 1;
    let set = |resource, soft: u64, hard: u64| {
        let (_, most) = nix::sys::resource::getrlimit(resource)?;
        setrlimit(resource, soft.min(most), hard.min(most))
    };
    set(Resource::RLIMIT_DATA, data, data)?;
    set(Resource::RLIMIT_AS, virtual_bytes, virtual_bytes)?;
    // SIGXCPU at the first limit, SIGKILL at the second.
    set(Resource::RLIMIT_CPU, seconds, seconds + 1)?;
    set(Resource::RLIMIT_CORE, 0, 0)?;
    Ok(())
}

struct OwnMemory {
    virtual_bytes: u64,
    data_bytes: u64,
}

/// Returns the inherited memory (`/proc/self/statm`: size in the first field, data in the sixth, in pages).
fn own_memory() -> OwnMemory {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let field = |n: usize| text.split_whitespace().nth(n).and_then(|pages| pages.parse::<u64>().ok());
    let bytes = |n: usize| field(n).unwrap_or(0).saturating_mul(crate::page_size());
    OwnMemory { virtual_bytes: bytes(0), data_bytes: bytes(5) }
}
