//! The child's life: it confines itself, works, sends its result and ends.

use super::{Limits, Scope, filter};
use nix::fcntl::OFlag;
use nix::libc;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use serde::Serialize;
use std::fmt::Display;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit statuses of the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The message is whole.
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

/// Returns whether this process is the child of a look.
pub(super) fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed)
}

/// Virtual memory beyond the private one: the arenas that libc reserves, and files that are mapped.
const RESERVED_BYTES: u64 = 256 << 20;

/// The whole life of the child.
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
    // SAFETY: ends this copy without running what the original has set up to run at its end.
    unsafe { libc::_exit(exit as i32) }
}

fn say(errors: BorrowedFd<'_>, text: &impl Display) {
    let text = text.to_string();
    // Nobody may listen any more.
    let _ = nix::unistd::write(errors, text.as_bytes());
}

/// Sends the result. A parent that does not want it any more ends us by `SIGPIPE` or by an error; either is fine.
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

/// Gives up everything that a look does not need. The filter comes last: what is done here needs more.
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
    // One line, and no backtrace: that would read and map our own debugging information.
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        // Nobody may listen any more.
        let _ = writeln!(std::io::stderr(), "{message} ({place})");
    }));
    limit(limits).map_err(step("setrlimit"))?;
    nix::sys::prctl::set_no_new_privs().map_err(step("PR_SET_NO_NEW_PRIVS"))?;
    filter::install(scope)
}

/// Nothing is read from our input or printed to our output; panics and aborts go to the parent.
fn replace_standard_files(errors: BorrowedFd<'_>) -> nix::Result<()> {
    let null = nix::fcntl::open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(errors)
}

/// Closes every descriptor behind the standard ones but those that are kept (`close_range(2)`, Linux 5.9; one by one
/// before).
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
    // SAFETY: closes descriptors that nobody in this process uses any more: it ends without dropping their owners.
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
    for (resource, value) in [
        (Resource::RLIMIT_DATA, data),
        (Resource::RLIMIT_AS, virtual_bytes),
        (Resource::RLIMIT_CPU, seconds),
        (Resource::RLIMIT_CORE, 0),
    ] {
        let (_, hard) = nix::sys::resource::getrlimit(resource)?;
        setrlimit(resource, value.min(hard), value.min(hard))?;
    }
    Ok(())
}

struct OwnMemory {
    virtual_bytes: u64,
    data_bytes: u64,
}

/// The memory that is inherited (`/proc/self/statm`: size in the first field, data in the sixth, in pages).
fn own_memory() -> OwnMemory {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let field = |n: usize| text.split_whitespace().nth(n).and_then(|pages| pages.parse::<u64>().ok());
    let bytes = |n: usize| field(n).unwrap_or(0).saturating_mul(crate::PAGE_SIZE);
    OwnMemory { virtual_bytes: bytes(0), data_bytes: bytes(5) }
}
