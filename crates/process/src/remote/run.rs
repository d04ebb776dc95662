//! Borrowing a thread for a call, and giving it back.

use super::footholds::Footholds;
use super::frame::{ALL_SIGNALS, Chain, Data, Place, Step};
use super::moment;
use super::preflight;
use super::refusal::{Refusal, Unfit};
use super::stack::{self, Stack};
use super::threads::{self, Blocked};
use super::tracee::{Stop, Tracee};
use super::wait::{ERESTARTNOHAND, Interrupted, Resumption, Timeout, milliseconds_up};
use super::xstate::FrameFormat;
use crate::{Error, LiveMemory, Maps, Memory, Pid};
use nix::libc::{self, user_regs_struct as Registers};
use nix::sys::uio::{RemoteIoVec, process_vm_writev};
use std::io::IoSlice;
use std::ops::Range;
use std::time::{Duration, Instant};

/// An argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// A number or an address in the target.
    Word(u64),
    /// The address of this string, with a zero byte behind it, which lies on the borrowed stack during the call.
    Text(&'static str),
}

/// A function of the target to be called.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its address.
    pub function: u64,
    /// At most five arguments.
    pub arguments: Vec<Argument>,
    /// Stack that it needs at most, in bytes.
    pub stack_bytes: u64,
    /// Code that no borrowed thread may be inside of.
    pub forbidden: Vec<Range<u64>>,
}

/// What the caller says to a thread that is stopped and could be borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The function may be called on it.
    Safe,
    /// Not now, on no thread: try again later.
    Busy(&'static str),
}

/// A call that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Borrowed {
    /// The thread.
    pub thread: Pid,
    /// The system call that it was borrowed from.
    pub wait: &'static str,
    /// How long the thread was held still, from asking it to stop to letting it go into the call. No other thread is
    /// stopped at all.
    pub held: Duration,
    /// From letting it go into the call until it was back in its system call.
    pub borrowed: Duration,
    /// Attempts that came to nothing before.
    pub retries: u32,
}

/// A process in which functions can be called.
#[derive(Debug)]
pub struct Host<'a> {
    /// The process.
    pub pid: Pid,
    /// Its memory.
    pub memory: &'a LiveMemory,
    /// Its mappings, as of a moment ago.
    pub maps: &'a Maps,
    /// Places in its libc.
    pub footholds: &'a Footholds,
}

/// The longest wait for an attached thread to stop: it is blocked in an interruptible wait.
const STOP_PATIENCE: Duration = Duration::from_millis(500);
/// How long a call is waited for. A trim of many gigabytes takes seconds.
const CALL_PATIENCE: Duration = Duration::from_secs(120);
/// Pauses between attempts: the first, and the longest.
const BACKOFF: Range<Duration> = Duration::from_millis(2)..Duration::from_millis(64);
/// Signals that do nothing by default, of which one announces to Unbloat that the call is over.
const ANNOUNCERS: [i32; 3] = [libc::SIGURG, libc::SIGWINCH, libc::SIGCHLD];

enum Failure {
    Unfit(Unfit),
    Busy(&'static str),
    Refused(Refusal),
}

impl From<Unfit> for Failure {
    fn from(unfit: Unfit) -> Self {
        Failure::Unfit(unfit)
    }
}

impl From<nix::Error> for Failure {
    fn from(errno: nix::Error) -> Self {
        match errno {
            // The thread has ended, or is not stopped any more: it was killed.
            nix::Error::ESRCH | nix::Error::ECHILD => Failure::Unfit(Unfit::Woke),
            errno => Failure::Refused(Refusal::Process(Error::from_io(Pid(0), "its threads", errno.into()))),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Gone { .. } => Failure::Unfit(Unfit::Woke),
            error => Failure::Refused(Refusal::Process(error)),
        }
    }
}

impl Host<'_> {
    /// Calls a function on a thread that is blocked in a system call of the known list, and brings the thread back.
    ///
    /// `check` is asked while the thread is stopped, and everything else runs; it must be quick.
    ///
    /// # Errors
    /// No thread could be borrowed within `timeout`, or the process is gone or may not be touched.
    pub fn call(
        &self,
        call: &Call,
        timeout: Duration,
        mut check: impl FnMut() -> Verdict,
    ) -> Result<Borrowed, Refusal> {
        let start = Instant::now();
        let (mut retries, mut backoff) = (0, BACKOFF.start);
        loop {
            let why = match self.attempt_any(call, &mut check, &mut retries) {
                Ok(borrowed) => return Ok(borrowed),
                Err(Attempts::Refused(refusal)) => return Err(refusal),
                Err(Attempts::NotNow(why)) => why,
            };
            if start.elapsed() + backoff > timeout {
                return Err(Refusal::NoSafePoint { waited: start.elapsed(), why });
            }
            std::thread::sleep(backoff);
            backoff = (backoff * 2).min(BACKOFF.end);
        }
    }

    fn attempt_any(
        &self,
        call: &Call,
        check: &mut impl FnMut() -> Verdict,
        retries: &mut u32,
    ) -> Result<Borrowed, Attempts> {
        let candidates = threads::candidates(self.pid, |pc| self.call_number_before(pc))
            .map_err(|error| Attempts::Refused(error.into()))?;
        let mut why = "no thread is blocked in a system call that can be interrupted unseen".to_owned();
        for blocked in candidates {
            match self.attempt(&blocked, call, check) {
                Ok((held, borrowed)) => {
                    let (thread, wait) = (Pid(blocked.tid), blocked.known.name);
                    return Ok(Borrowed { thread, wait, held, borrowed, retries: *retries });
                }
                Err(Failure::Refused(refusal)) => return Err(Attempts::Refused(refusal)),
                Err(Failure::Busy(busy)) => {
                    *retries += 1;
                    return Err(Attempts::NotNow(busy.to_owned()));
                }
                Err(Failure::Unfit(unfit)) => {
                    *retries += 1;
                    why = unfit.to_string();
                }
            }
        }
        Err(Attempts::NotNow(why))
    }

    /// The system call number that the code before `pc` loads: `mov $NUMBER,%eax; syscall`.
    fn call_number_before(&self, pc: u64) -> Option<i64> {
        let mut code = [0; 7];
        self.memory.read(pc.checked_sub(7)?, &mut code).ok()?;
        match code {
            [0xb8, a, b, c, d, 0x0f, 0x05] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
            _ => None,
        }
    }

    /// One thread: stop, look, and if all is well call. Returns how long it was held and how long borrowed.
    fn attempt(
        &self,
        blocked: &Blocked,
        call: &Call,
        check: &mut impl FnMut() -> Verdict,
    ) -> Result<(Duration, Duration), Failure> {
        if blocked.known.file.is_some_and(|file| !preflight::reads_survive(self.pid, file.descriptor)) {
            return Err(Unfit::FileWait.into());
        }
        let announcer = self.announcer(blocked.tid)?;
        let numbers = threads::own_numbers(self.pid, blocked.tid).ok_or(Unfit::Woke)?;
        let rest = Rest::of(self, blocked)?;
        let mut tracee = Tracee::seize(blocked.tid).map_err(|errno| self.not_seized(errno))?;
        let asked = Instant::now();
        tracee.interrupt()?;
        let found = match tracee.wait(STOP_PATIENCE)? {
            Some(Stop::Interrupted) => self.look(&tracee, blocked, call),
            Some(Stop::Signal(signal)) => {
                // It is being woken by a signal of its own: let it have that.
                tracee.detach(signal)?;
                return Err(Unfit::SignalPending.into());
            }
            Some(Stop::Group) => Err(Unfit::Stopped.into()),
            Some(Stop::SystemCall | Stop::Ended) | None => Err(Unfit::Woke.into()),
        };
        let mut found = match found {
            Ok(found) => found,
            Err(failure) => {
                // An interrupted epoll_wait would return EINTR; it is sent back instead.
                self.send_back(&tracee, blocked, &rest)?;
                return Err(failure);
            }
        };
        if let Verdict::Busy(why) = check() {
            self.send_back(&tracee, blocked, &rest)?;
            return Err(Failure::Busy(why));
        }
        let errand = self.prepare(&found, blocked, call, &rest, announcer, numbers)?;
        let attended = matches!(blocked.known.resumption, Resumption::KernelDeadline(_));
        self.write(errand.chain.base, &errand.chain.bytes)?;
        // From here on the thread is on another course, whatever becomes of Unbloat. Signals are blocked second, so
        // that at no moment is it on its own course with its signals blocked; they stay blocked until it is back.
        tracee.set_registers(if attended { &errand.direct } else { &errand.through_signal_return })?;
        tracee.set_signal_mask(ALL_SIGNALS)?;
        let going = Instant::now();
        let held = going - asked;
        if attended {
            tracee.resume_to_system_call()?;
        } else {
            tracee.resume(0)?;
        }
        let over = Over { announcer, errand: &errand, signal_return: self.signal_return() };
        if over.wait_on(&mut tracee, self.footholds.system_call + 2)? {
            let errno = found.errno.to_le_bytes();
            self.write(found.errno_address, &errno)?;
            tracee.set_extended_state(&mut found.state)?;
            tracee.set_signal_mask(found.mask)?;
            tracee.set_registers(&found.way_back(blocked, &rest))?;
            tracee.detach(0)?;
        }
        Ok((held, going.elapsed()))
    }

    fn not_seized(&self, errno: nix::Error) -> Failure {
        match errno {
            nix::Error::ESRCH => Unfit::Woke.into(),
            errno => Failure::Refused(Error::from_io(self.pid, "the threads", errno.into()).into()),
        }
    }

    /// A signal that the thread neither handles nor blocks and that is ignored by default.
    fn announcer(&self, tid: i32) -> Result<i32, Failure> {
        let sets = threads::signals(self.pid, tid)?;
        let taken = sets.caught | sets.blocked;
        let free = ANNOUNCERS.into_iter().find(|&signal| taken & bit(signal) == 0);
        Ok(free.ok_or(Unfit::NoSignalFree)?)
    }

    /// What is to be known of a stopped thread; an error when it is not fit to be borrowed.
    fn look(&self, tracee: &Tracee, blocked: &Blocked, call: &Call) -> Result<Found, Failure> {
        let registers = tracee.registers()?;
        let mask = tracee.signal_mask()?;
        let interrupted = blocked.still_there(&registers).ok_or(Unfit::Woke)?;
        let epoll = blocked.known.name.starts_with("epoll");
        if interrupted == Interrupted::Eintr && !epoll {
            return Err(Unfit::Woke.into());
        }
        if registers.cs != 0x33 || !self.entered_by_syscall(registers.rip) {
            return Err(Unfit::Not64Bit.into());
        }
        // What is left of a timeout may have to be put into an argument's register. The functions of libc have no use
        // for those after the call; inline assembly of others may.
        if blocked.known.resumption != Resumption::SameCall && !self.footholds.text.contains(&registers.rip) {
            return Err(Unfit::TimedOutsideLibc.into());
        }
        if tracee.has_shadow_stack() {
            return Err(Unfit::ShadowStack.into());
        }
        let signals = threads::signals(self.pid, blocked.tid)?;
        if signals.pending & !signals.blocked != 0 {
            return Err(Unfit::SignalPending.into());
        }
        let state = tracee.extended_state()?;
        let main_thread = blocked.tid == self.pid.0;
        let stack = Stack::of(self.memory, self.maps, main_thread, registers.rsp, registers.fs_base)?;
        let returns: Vec<_> = self.footholds.signal_returns.iter().map(|&at| at..at + 1).collect();
        if stack.mentions(&returns) {
            return Err(Unfit::InSignalHandler.into());
        }
        if stack.mentions(&call.forbidden) || call.forbidden.iter().any(|code| code.contains(&registers.rip))
        {
            return Err(Unfit::Checked("a thread waits inside of the allocator").into());
        }
        let errno_address = registers.fs_base.wrapping_add_signed(self.footholds.errno_offset);
        let mut errno = [0; 4];
        self.memory.read(errno_address, &mut errno)?;
        let errno = i32::from_le_bytes(errno);
        Ok(Found { registers, interrupted, mask, state, errno, errno_address })
    }

    fn entered_by_syscall(&self, rip: u64) -> bool {
        let mut code = [0; 2];
        self.memory.read(rip.wrapping_sub(2), &mut code).is_ok() && code == [0x0f, 0x05]
    }

    /// Lets a thread that is not borrowed go on. If the interruption would be seen, the call is made again.
    fn send_back(&self, tracee: &Tracee, blocked: &Blocked, rest: &Rest) -> Result<(), Failure> {
        let Ok(mut registers) = tracee.registers() else { return Ok(()) };
        if blocked.still_there(&registers) == Some(Interrupted::Eintr) {
            registers.rax = (-ERESTARTNOHAND) as u64;
            rest.shorten(&mut registers);
            tracee.set_registers(&registers)?;
        }
        Ok(())
    }

    fn prepare(
        &self,
        found: &Found,
        blocked: &Blocked,
        call: &Call,
        rest: &Rest,
        announcer: i32,
        (process, thread): (i32, i32),
    ) -> Result<Errand, Failure> {
        let format = FrameFormat::of_this_machine().ok_or(Failure::Refused(Refusal::NoFrames))?;
        let state = format.fpstate(&found.state).map_err(|_| Unfit::ExtendedState)?;
        let place = Place::below(found.registers.rsp, state.len(), 3).ok_or(Unfit::NoRoom)?;
        let main_thread = blocked.tid == self.pid.0;
        let written = place.base()..found.registers.rsp;
        stack::check_room(self.memory, self.maps, main_thread, written, call.stack_bytes)?;
        let mut data = Data::default();
        let mut arguments = [0; 6];
        for (slot, argument) in arguments.iter_mut().zip(&call.arguments) {
            *slot = match *argument {
                Argument::Word(word) => word,
                Argument::Text(text) => {
                    let text = [text.as_bytes(), b"\0"].concat();
                    place.data(data.add(&text).ok_or(Unfit::NoRoom)?)
                }
            };
        }
        let call_step = Step { start: call.function, arguments, rax: 0, blocked: ALL_SIGNALS };
        let system_call = |number: i64, arguments, blocked| Step {
            start: self.footholds.system_call,
            arguments,
            rax: number as u64,
            blocked,
        };
        let steps = [
            call_step,
            system_call(libc::SYS_futex, set_word(found.errno_address, found.errno)?, ALL_SIGNALS),
            system_call(
                libc::SYS_tgkill,
                [process as u64, thread as u64, announcer as u64, 0, 0, 0],
                ALL_SIGNALS & !bit(announcer),
            ),
        ];
        let last = found.without_unbloat(self, blocked, rest, &mut data, place)?;
        let signal_return = self.signal_return();
        let chain = Chain::build(place, &steps, &data, &last, found.mask, &state, signal_return);
        // Neither way may the kernel take the thread for one that is within a system call.
        let aside = u64::MAX;
        let through_signal_return =
            Registers { rip: signal_return, rsp: chain.entry, orig_rax: aside, rax: 0, ..found.registers };
        let first = call_step.registers(chain.first_stack);
        let direct = Registers {
            orig_rax: aside,
            fs_base: found.registers.fs_base,
            gs_base: found.registers.gs_base,
            ds: found.registers.ds,
            es: found.registers.es,
            fs: found.registers.fs,
            gs: found.registers.gs,
            ..first
        };
        Ok(Errand { chain, direct, through_signal_return })
    }

    fn signal_return(&self) -> u64 {
        self.footholds.signal_returns.first().copied().unwrap_or_default()
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Failure> {
        let pid = nix::unistd::Pid::from_raw(self.pid.0);
        let range = RemoteIoVec { base: address as usize, len: bytes.len() };
        let written = process_vm_writev(pid, &[IoSlice::new(bytes)], &[range]);
        moment();
        match written {
            Ok(written) if written == bytes.len() => Ok(()),
            Ok(_) | Err(nix::Error::EFAULT) => Err(Unfit::NoRoom.into()),
            Err(errno) => Err(errno.into()),
        }
    }
}

enum Attempts {
    NotNow(String),
    Refused(Refusal),
}

impl Blocked {
    /// How the stopped thread left its system call; `None` if it is not in it any more.
    fn still_there(&self, registers: &Registers) -> Option<Interrupted> {
        let r = registers;
        let same = r.orig_rax as i64 == self.number_now
            && r.rsp == self.stack_pointer
            && r.rip == self.program_counter
            && [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9] == self.call.arguments;
        Interrupted::of(r.rax).filter(|_| same)
    }
}

/// A thread as it was found.
struct Found {
    registers: Registers,
    interrupted: Interrupted,
    mask: u64,
    state: Vec<u8>,
    errno: i32,
    errno_address: u64,
}

/// What is written to a thread's stack, and the two ways to start it.
struct Errand {
    chain: Chain,
    /// Straight into the function; no signal return comes before its end, so the kernel keeps its deadline.
    direct: Registers,
    /// Into the function by a signal return, which blocks all signals and gives it a fresh processor state.
    through_signal_return: Registers,
}

impl Found {
    /// The registers with which Unbloat sends the thread back: the kernel then sees a thread that was interrupted in its
    /// system call and does itself what belongs to that, also if a signal has come meanwhile.
    fn way_back(&self, blocked: &Blocked, rest: &Rest) -> Registers {
        let mut registers = self.registers;
        if !matches!(blocked.known.resumption, Resumption::KernelDeadline(_)) {
            registers.orig_rax = blocked.call.number as u64;
            if self.interrupted.has_kernel_deadline() || self.interrupted == Interrupted::Eintr {
                registers.rax = (-ERESTARTNOHAND) as u64;
            }
            rest.shorten(&mut registers);
        }
        registers
    }

    /// The registers with which the chain ends if Unbloat is not there any more: at the system call instruction, to
    /// make the call again, with what is left of its timeout.
    fn without_unbloat(
        &self,
        host: &Host<'_>,
        blocked: &Blocked,
        rest: &Rest,
        data: &mut Data,
        place: Place,
    ) -> Result<Registers, Failure> {
        let mut registers = self.registers;
        registers.rip -= 2;
        registers.rax = blocked.call.number as u64;
        let (Rest::Left { timeout, .. } | Rest::Forgotten { timeout, .. }) = *rest else {
            return Ok(registers);
        };
        let mut left = rest.left();
        let pointer = match timeout {
            Timeout::Milliseconds(index) => {
                *argument(&mut registers, index) = milliseconds_up(left);
                return Ok(registers);
            }
            Timeout::Timespec(index) => index,
            Timeout::TimespecWithRest(index, written) => {
                // The kernel has just written the rest itself.
                if let Some(rest) = timespec(host.memory, blocked.call.arguments[written]) {
                    left = rest;
                }
                index
            }
        };
        let bytes = [left.as_secs().to_le_bytes(), u64::from(left.subsec_nanos()).to_le_bytes()].concat();
        *argument(&mut registers, pointer) = place.data(data.add(&bytes).ok_or(Unfit::NoRoom)?);
        Ok(registers)
    }
}

/// What is left of a relative timeout.
#[derive(Debug, Clone, Copy)]
enum Rest {
    /// There is none.
    NoTimeout,
    /// The kernel knows exactly; this is for the case that Unbloat is killed.
    Left { at: Instant, timeout: Timeout, left: Duration },
    /// Nobody knows but by how long the thread has slept.
    Forgotten { at: Instant, timeout: Timeout, left: Duration },
}

impl Rest {
    fn of(host: &Host<'_>, blocked: &Blocked) -> Result<Self, Failure> {
        let (timeout, forgotten) = match blocked.known.resumption {
            Resumption::SameCall => return Ok(Rest::NoTimeout),
            Resumption::KernelDeadline(timeout) => (timeout, false),
            Resumption::Forgotten(timeout) => (timeout, true),
        };
        let arguments = &blocked.call.arguments;
        let whole = match timeout {
            Timeout::Milliseconds(index) => Some(Duration::from_millis(arguments[index] & 0x7fff_ffff)),
            Timeout::Timespec(index) | Timeout::TimespecWithRest(index, _) => {
                timespec(host.memory, arguments[index])
            }
        };
        let whole = whole.ok_or(Unfit::TimeoutUnknown)?;
        let slept = threads::asleep_for(host.pid, blocked.tid);
        // After it: time that passed meanwhile must not be counted twice.
        let at = Instant::now();
        match (forgotten, slept.and_then(|slept| whole.checked_sub(slept))) {
            (true, left) => Ok(Rest::Forgotten { at, timeout, left: left.ok_or(Unfit::TimeoutUnknown)? }),
            // A thread that has been interrupted before has a rest that is shorter than this: late, never early.
            (false, left) => Ok(Rest::Left { at, timeout, left: left.unwrap_or(whole) }),
        }
    }

    /// What is left now.
    fn left(&self) -> Duration {
        match self {
            Rest::NoTimeout => Duration::ZERO,
            Rest::Left { at, left, .. } | Rest::Forgotten { at, left, .. } => {
                left.saturating_sub(at.elapsed())
            }
        }
    }

    /// Puts what is left into the arguments, where the kernel does not know it.
    fn shorten(&self, registers: &mut Registers) {
        if let Rest::Forgotten { timeout: Timeout::Milliseconds(index), .. } = self {
            *argument(registers, *index) = milliseconds_up(self.left());
        }
    }
}

/// Waiting for the end of a call.
struct Over<'a> {
    announcer: i32,
    errand: &'a Errand,
    signal_return: u64,
}

impl Over<'_> {
    /// Waits until the call is over; true if the thread is then stopped, to be given its way back. False if it was left
    /// to find back by itself.
    fn wait_on(&self, tracee: &mut Tracee, behind_system_call: u64) -> Result<bool, Failure> {
        let start = Instant::now();
        loop {
            let patience = CALL_PATIENCE.saturating_sub(start.elapsed());
            match tracee.wait(patience)? {
                Some(Stop::Signal(signal)) if signal == self.announcer => {
                    if tracee.registers()?.rip == behind_system_call {
                        return Ok(true);
                    }
                    tracee.resume(0)?;
                }
                // All signals are blocked but those that the thread's own code raises; they are its own.
                Some(Stop::Signal(signal)) => tracee.resume(signal)?,
                Some(Stop::SystemCall) => {
                    let registers = tracee.registers()?;
                    if registers.orig_rax as i64 == libc::SYS_rt_sigreturn
                        && registers.rsp == self.errand.chain.first_stack + 8
                    {
                        // Not made: it would make the kernel forget its deadline. Put back before it, and stopped.
                        let before = Registers { rip: self.signal_return, orig_rax: u64::MAX, ..registers };
                        tracee.set_registers(&before)?;
                        tracee.interrupt()?;
                        tracee.resume(0)?;
                    } else {
                        tracee.resume_to_system_call()?;
                    }
                }
                Some(Stop::Interrupted) => {
                    if tracee.registers()?.rip == self.signal_return {
                        return Ok(true);
                    }
                    tracee.resume(0)?;
                }
                // Stopped by job control: detached, it stays so, and finds back when it is continued.
                Some(Stop::Group) => return Ok(false),
                Some(Stop::Ended) => return Err(Failure::Refused(Refusal::Ended)),
                None => return Err(Failure::Refused(Refusal::Unfinished { after: start.elapsed() })),
            }
        }
    }
}

fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn argument(registers: &mut Registers, index: usize) -> &mut u64 {
    let r = registers;
    match index {
        0 => &mut r.rdi,
        1 => &mut r.rsi,
        2 => &mut r.rdx,
        3 => &mut r.r10,
        4 => &mut r.r8,
        _ => &mut r.r9,
    }
}

/// Reads a `struct timespec` of the target.
fn timespec(memory: &LiveMemory, address: u64) -> Option<Duration> {
    let mut bytes = [0; 16];
    memory.read(address, &mut bytes).ok()?;
    let (seconds, nanoseconds) = bytes.split_at(8);
    let seconds = u64::from_le_bytes(seconds.try_into().ok()?);
    let nanoseconds = u64::from_le_bytes(nanoseconds.try_into().ok()?);
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds as u32))
}

/// Arguments of a `futex` call that stores a small number in a word and wakes nobody: `FUTEX_WAKE_OP` with
/// `FUTEX_OP_SET` (`include/uapi/linux/futex.h`). It is the one system call that stores a number of the caller's choice,
/// and so brings `errno` back without code of ours.
fn set_word(address: u64, value: i32) -> Result<[u64; 6], Unfit> {
    const FUTEX_WAKE_OP: u64 = 5;
    const NEVER_EQUAL: u64 = 0;
    // The operand has 12 bits with a sign; error numbers are small.
    let operand = u64::try_from(value)
        .ok()
        .filter(|&v| v < 1 << 11)
        .ok_or(Unfit::Checked("a thread's errno holds a number that is no error"))?;
    let operation = operand << 12 | NEVER_EQUAL;
    Ok([address, FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG as u64, 0, 0, address, operation])
}
