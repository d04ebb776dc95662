//! The threads of a process according to `/proc`, without touching any, and the system calls in which they
//! are blocked.

use super::wait::{KnownWait, Resumption, SystemCall};
use crate::{Error, Pid, Result};
use std::fs;
use std::time::Duration;

/// A thread that is blocked in a listed system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// The thread's ID in Unbloat's PID namespace.
    pub(super) tid: i32,
    /// The currently running call: `restart_syscall` if it was interrupted before.
    pub(super) number_now: i64,
    /// The call that the thread made.
    pub(super) call: SystemCall,
    /// The facts about it.
    pub(super) known: KnownWait,
    /// Its stack pointer.
    pub(super) stack_pointer: u64,
    /// The address after its system call instruction.
    pub(super) program_counter: u64,
}

/// The contents of `/proc/PID/task/TID/syscall` for a thread that is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) call: SystemCall,
    pub(super) stack_pointer: u64,
    pub(super) program_counter: u64,
}

/// Signal sets in `/proc/PID/task/TID/status`, one bit per signal, signal 1 lowest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SignalSets {
    /// Pending, for the thread or its process.
    pub(super) pending: u64,
    /// Currently blocked.
    pub(super) blocked: u64,
    /// Handled.
    pub(super) caught: u64,
}

/// Returns the bit of a signal in a set.
pub(super) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Lists the threads of a process.
pub(super) fn of(pid: Pid) -> Result<Vec<i32>> {
    let entries = fs::read_dir(pid.proc("task")).map_err(|e| Error::from_io(pid, "the threads", e))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns where a thread is blocked; `None` while it runs.
pub(super) fn position(pid: Pid, tid: i32) -> Result<Option<Position>> {
    let text = fs::read_to_string(pid.proc(&format!("task/{tid}/syscall")))
        .map_err(|e| Error::from_io(pid, "what its threads wait for", e))?;
    Ok(parse_position(&text))
}

/// Parses `NUMBER 0xARGUMENT × 6 0xSP 0xPC`, or `running`, or `-1 0xSP 0xPC` (Linux `fs/proc/base.c`,
/// `proc_pid_syscall`).
fn parse_position(text: &str) -> Option<Position> {
    let mut fields = text.split_whitespace();
    let number = fields.next()?.parse().ok()?;
    let mut words = [0; 8];
    for word in &mut words {
        *word = u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    let [a, b, c, d, e, f, stack_pointer, program_counter] = words;
    let call = SystemCall { number, arguments: [a, b, c, d, e, f] };
    Some(Position { call, stack_pointer, program_counter })
}

/// Reads a thread's signal sets.
pub(super) fn signals(pid: Pid, tid: i32) -> Result<SignalSets> {
    let status = fs::read_to_string(pid.proc(&format!("task/{tid}/status")))
        .map_err(|e| Error::from_io(pid, "the signals of its threads", e))?;
    let set = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
        u64::from_str_radix(value, 16).unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    Ok(SignalSets { pending, blocked: set("SigBlk:"), caught: set("SigCgt:") })
}

/// Returns the IDs of a process and one of its threads in their own PID namespace (`NSpid`, last column).
pub(super) fn own_numbers(pid: Pid, tid: i32) -> Option<(i32, i32)> {
    let innermost = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        line.split_whitespace().next_back()?.parse().ok()
    };
    let process = fs::read_to_string(pid.proc("status")).ok()?;
    let thread = fs::read_to_string(pid.proc(&format!("task/{tid}/status"))).ok()?;
    Some((innermost(&process)?, innermost(&thread)?))
}

/// Returns for how long a blocked thread has not run, at least. The scheduler records when a thread was last
/// accounted (`se.exec_start` in `/proc/PID/task/TID/sched`, `kernel/sched/debug.c`), in milliseconds of the
/// run queue's task clock, which excludes interrupts and stolen time. Our own entry, on the same processor,
/// shows the current value of that clock. `None` if the kernel does not report it.
pub(super) fn asleep_for(pid: Pid, tid: i32) -> Option<Duration> {
    let stat = fs::read_to_string(pid.proc(&format!("task/{tid}/stat"))).ok()?;
    // Field 39 of proc(5), `processor`; fields are counted from the command's closing parenthesis.
    let processor: usize = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()?;
    let then = exec_start(&format!("/proc/{pid}/task/{tid}/sched"))?;
    let now = on_processor(processor, || exec_start("/proc/thread-self/sched"))??;
    now.checked_sub(then)
}

fn exec_start(path: &str) -> Option<Duration> {
    let text = fs::read_to_string(path).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("se.exec_start"))?.split(':').nth(1)?;
    let milliseconds: f64 = value.trim().parse().ok()?;
    Duration::try_from_secs_f64(milliseconds / 1e3).ok().filter(|time| !time.is_zero())
}

/// Runs `look` on a processor, just after being scheduled there.
fn on_processor<T>(processor: usize, look: impl FnOnce() -> T) -> Option<T> {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    let this = nix::unistd::Pid::from_raw(0);
    let before = sched_getaffinity(this).ok()?;
    let mut only = CpuSet::new();
    only.set(processor).ok()?;
    sched_setaffinity(this, &only).ok()?;
    std::thread::sleep(Duration::from_micros(50));
    let seen = look();
    sched_setaffinity(this, &before).ok()?;
    Some(seen)
}

/// Returns the threads that may be borrowed, least affected waits first.
///
/// `call_before_restart` names the call of a thread that the kernel has put into `restart_syscall`, from the
/// code before its program counter.
pub(super) fn candidates(pid: Pid, call_before_restart: impl Fn(u64) -> Option<i64>) -> Result<Vec<Blocked>> {
    let mut candidates = Vec::new();
    for tid in of(pid)? {
        let position = match position(pid, tid) {
            Ok(Some(position)) => position,
            Ok(None) | Err(Error::Gone { .. }) => continue,
            Err(error) => return Err(error),
        };
        let mut call = position.call;
        if call.number == nix::libc::SYS_restart_syscall {
            let Some(number) = call_before_restart(position.program_counter) else { continue };
            call.number = number;
        }
        if let Some(known) = call.known() {
            let Position { call: now, stack_pointer, program_counter } = position;
            candidates.push(Blocked {
                tid,
                number_now: now.number,
                call,
                known,
                stack_pointer,
                program_counter,
            });
        }
    }
    candidates.sort_by_key(|blocked| rank(pid, blocked));
    Ok(candidates)
}

fn rank(pid: Pid, blocked: &Blocked) -> u8 {
    match blocked.known.resumption {
        Resumption::SameCall if blocked.known.call.shows_interruption() => 2,
        // The main thread may be the only one that handles signals, so prefer any other.
        Resumption::SameCall => u8::from(blocked.tid == pid.0),
        Resumption::KernelDeadline(_) => 3,
        Resumption::Forgotten(_) => 4,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_blocked_thread_is_told_from_a_running_one() {
        let line = "202 0x7f0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffe00 0x7f1234\n";
        let position = parse_position(line).unwrap();
        assert_eq!(position.call.number, 202);
        assert_eq!(position.call.arguments, [0x7f0, 0x189, 0, 0, 0, 0xffff_ffff]);
        assert_eq!((position.stack_pointer, position.program_counter), (0x7ffe00, 0x7f1234));
        assert_eq!(parse_position("running\n"), None);
        assert_eq!(parse_position("-1 0x7ffe00 0x7f1234\n"), None);
    }

    #[test]
    fn own_thread_is_among_the_threads() {
        let tid = nix::unistd::gettid().as_raw();
        assert!(of(Pid::this()).unwrap().contains(&tid));
        let (pid, tid) = own_numbers(Pid::this(), tid).unwrap();
        assert!(pid > 0 && tid > 0);
    }

    #[test]
    fn a_sleeping_thread_has_slept_as_long_as_it_has() {
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            send.send(nix::unistd::gettid().as_raw()).unwrap();
            let _ = stopped.recv();
        });
        let tid = receive.recv().unwrap();
        std::thread::sleep(Duration::from_millis(120));
        // A kernel without the file reports nothing; one with it must not overstate the time.
        if let Some(slept) = asleep_for(Pid::this(), tid) {
            assert!(slept >= Duration::from_millis(60), "{slept:?}");
        }
        drop(stop);
        sleeper.join().unwrap();
    }
}
