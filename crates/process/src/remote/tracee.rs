//! One thread under `ptrace(2)`.
//!
//! Attached with `PTRACE_SEIZE`, which neither stops nor signals anything, and never with
//! `PTRACE_O_EXITKILL`: when Unbloat ends, in whatever way, the kernel detaches and lets the thread run. All
//! requests must come from the Unbloat thread that attached.

#![allow(unsafe_code)] // ptrace requests that no crate wraps

use super::arch::{EXTENDED_STATE, Registers, SHADOW_STACK};
use super::moment;
use nix::errno::Errno;
use nix::libc::{self, c_void, user_regs_struct};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::Pid as NixPid;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Space for the extended state: AMX needs 11 KiB.
const XSTATE_BYTES: usize = 16 << 10;

/// The reason why a traced thread is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// We interrupted it, or it stops for us after a group stop.
    Interrupted,
    /// A signal is about to be delivered.
    Signal(i32),
    /// It is entering or leaving a system call.
    SystemCall,
    /// Job control is stopping the whole process.
    Group,
    /// It has ended.
    Ended,
}

/// A seized thread; detached when dropped. Not `Send`: the kernel ties it to the attaching thread.
#[derive(Debug)]
pub(super) struct Tracee {
    tid: NixPid,
    attached: bool,
    news: News,
    _here: PhantomData<*const ()>,
}

/// Registers in one cache-line-aligned block within one page: the kernel copies them word by word, and must
/// not encounter a page boundary halfway.
#[repr(align(256))]
struct Aligned(user_regs_struct);

impl Tracee {
    /// Attaches to a thread, which keeps running.
    pub(super) fn seize(tid: i32) -> nix::Result<Self> {
        let tid = NixPid::from_raw(tid);
        let news = News::expect();
        ptrace::seize(tid, Options::PTRACE_O_TRACESYSGOOD)?;
        moment();
        Ok(Tracee { tid, attached: true, news, _here: PhantomData })
    }

    /// Asks the thread to stop.
    pub(super) fn interrupt(&self) -> nix::Result<()> {
        let result = ptrace::interrupt(self.tid);
        moment();
        result
    }

    /// Waits for the next stop; `None` if there is none in time.
    pub(super) fn wait(&mut self, patience: Duration) -> nix::Result<Option<Stop>> {
        let start = Instant::now();
        loop {
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: the status is ours. (nix's `waitpid` does not know real-time signals and would lose them.)
            let stopped = Errno::result(unsafe { libc::waitpid(self.tid.as_raw(), &raw mut status, flags) })?;
            if stopped != 0 {
                moment();
                return Ok(Some(self.stop_of(status)));
            }
            if start.elapsed() > patience {
                return Ok(None);
            }
            self.news.wait();
        }
    }

    fn stop_of(&mut self, status: i32) -> Stop {
        if !libc::WIFSTOPPED(status) {
            self.attached = false;
            return Stop::Ended;
        }
        match (status >> 16, libc::WSTOPSIG(status)) {
            (libc::PTRACE_EVENT_STOP, libc::SIGTRAP) => Stop::Interrupted,
            (libc::PTRACE_EVENT_STOP, _) => Stop::Group,
            (_, signal) if signal == libc::SIGTRAP | 0x80 => Stop::SystemCall,
            (_, signal) => Stop::Signal(signal),
        }
    }

    /// Reads the general registers of the stopped thread.
    pub(super) fn registers(&self) -> nix::Result<Registers> {
        ptrace::getregs(self.tid).map(Registers)
    }

    /// Loads all general registers in one request: the single step that sets the thread on another course.
    pub(super) fn set_registers(&self, registers: &Registers) -> nix::Result<()> {
        let block = Aligned(registers.0);
        let data = (&raw const block.0).cast_mut().cast();
        // SAFETY: the data is a `user_regs_struct`, which the kernel only reads.
        unsafe { self.request(libc::PTRACE_SETREGS, std::ptr::null_mut(), data) }
    }

    /// Reads the extended state in the format of `ptrace`.
    pub(super) fn extended_state(&self) -> nix::Result<Vec<u8>> {
        let mut state = vec![0; XSTATE_BYTES];
        let len = self.register_set(libc::PTRACE_GETREGSET, EXTENDED_STATE, &mut state)?;
        state.truncate(len);
        Ok(state)
    }

    /// Loads a state returned by [`Tracee::extended_state`].
    pub(super) fn set_extended_state(&self, state: &mut [u8]) -> nix::Result<()> {
        self.register_set(libc::PTRACE_SETREGSET, EXTENDED_STATE, state).map(|_| ())
    }

    /// Returns whether the thread has a shadow stack, which rejects our return addresses.
    pub(super) fn has_shadow_stack(&self) -> bool {
        let mut pointer = [0; 8];
        self.register_set(libc::PTRACE_GETREGSET, SHADOW_STACK, &mut pointer).is_ok()
    }

    /// Returns the signals that the thread blocks; within `ppoll` and similar calls, those that it will block
    /// again afterwards.
    pub(super) fn signal_mask(&self) -> nix::Result<u64> {
        let mut mask = 0u64;
        let size = std::ptr::without_provenance_mut(size_of::<u64>());
        // SAFETY: the kernel writes `size` bytes to the mask.
        unsafe { self.request(libc::PTRACE_GETSIGMASK, size, (&raw mut mask).cast()) }?;
        Ok(mask)
    }

    /// Sets the signals that the thread blocks.
    pub(super) fn set_signal_mask(&self, mut mask: u64) -> nix::Result<()> {
        let size = std::ptr::without_provenance_mut(size_of::<u64>());
        // SAFETY: the kernel reads `size` bytes of the mask.
        unsafe { self.request(libc::PTRACE_SETSIGMASK, size, (&raw mut mask).cast()) }
    }

    /// Resumes the thread, delivering a signal if it is not 0.
    pub(super) fn resume(&self, signal: i32) -> nix::Result<()> {
        // SAFETY: no memory is passed.
        unsafe { self.request(libc::PTRACE_CONT, std::ptr::null_mut(), signal_number(signal)) }
    }

    /// Resumes the thread up to the next entry to or exit from a system call.
    pub(super) fn resume_to_system_call(&self) -> nix::Result<()> {
        // SAFETY: no memory is passed.
        unsafe { self.request(libc::PTRACE_SYSCALL, std::ptr::null_mut(), std::ptr::null_mut()) }
    }

    /// Detaches; the thread continues, with a signal if it is not 0.
    pub(super) fn detach(mut self, signal: i32) -> nix::Result<()> {
        self.attached = false;
        // SAFETY: no memory is passed.
        unsafe { self.request(libc::PTRACE_DETACH, std::ptr::null_mut(), signal_number(signal)) }
    }

    fn register_set(&self, request: libc::c_uint, kind: usize, bytes: &mut [u8]) -> nix::Result<usize> {
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let kind = std::ptr::without_provenance_mut(kind);
        // SAFETY: the vector describes the bytes; the kernel stores the length it used there.
        unsafe { self.request(request, kind, (&raw mut vector).cast()) }?;
        Ok(vector.iov_len)
    }

    /// # Safety
    /// `data` must be what the request asks for.
    unsafe fn request(
        &self,
        request: libc::c_uint,
        address: *mut c_void,
        data: *mut c_void,
    ) -> nix::Result<()> {
        // SAFETY: as the caller promises.
        let result = Errno::result(unsafe { libc::ptrace(request, self.tid.as_raw(), address, data) });
        moment();
        result.map(drop)
    }
}

impl Drop for Tracee {
    /// Detaches. This requires a stopped thread, so a running one is first asked to stop. If even that fails,
    /// the kernel detaches when Unbloat ends.
    fn drop(&mut self) {
        if !self.attached || ptrace::detach(self.tid, None).is_ok() {
            return;
        }
        let signal = match self.interrupt().and_then(|()| self.wait(Duration::from_millis(200))) {
            Ok(Some(Stop::Signal(signal))) => signal,
            _ => 0,
        };
        // SAFETY: no memory is passed. An error means that the thread is gone.
        let _ = unsafe { self.request(libc::PTRACE_DETACH, std::ptr::null_mut(), signal_number(signal)) };
    }
}

/// Immediate notification of a stop, by the `SIGCHLD` that the kernel sends to a tracer.
///
/// A tracer that polls uses up its share of a busy processor before the thread has stopped; one that sleeps
/// is woken and runs next. The signal is blocked in this thread, so that it stays pending even if it is
/// ignored. If another thread of Unbloat takes it, or a parent made us ignore it, polling once per
/// millisecond makes up for that.
#[derive(Debug)]
struct News {
    blocked_before: SigSet,
}

impl News {
    fn expect() -> Self {
        let blocked_before = Self::signal().thread_swap_mask(SigmaskHow::SIG_BLOCK);
        News { blocked_before: blocked_before.unwrap_or_else(|_| SigSet::empty()) }
    }

    fn signal() -> SigSet {
        let mut set = SigSet::empty();
        set.add(Signal::SIGCHLD);
        set
    }

    fn wait(&self) {
        let (set, at_most) = (Self::signal(), libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 });
        // SAFETY: set and timeout are ours and outlive the call, and the signal's information may be omitted.
        unsafe { libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), &raw const at_most) };
    }
}

impl Drop for News {
    fn drop(&mut self) {
        // It cannot fail for a set that came from the kernel.
        let _ = self.blocked_before.thread_set_mask();
    }
}

fn signal_number(signal: i32) -> *mut c_void {
    std::ptr::without_provenance_mut(signal as usize)
}
