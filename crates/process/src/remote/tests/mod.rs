//! Calls on real threads: every kind of wait, with Unbloat killed at every moment of it.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::threads;
use super::wait::SystemCall;
use super::{Borrowed, Call, Gadgets, Host, Refusal, Safety, Unwinder, call};
use crate::{Image, LiveMemory, Mapping, Maps, Pid, Pinned, elf};
use std::ops::Range;
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use unbloat_test_support::{Compiler, Program, Target, c_program};

static WAITS: LazyLock<Program> = LazyLock::new(|| Program::build(Compiler::System, c_program("waits"), &[]));

mod event;
mod injector;
mod matrix;
mod unwind;

use event::Script;
use injector::{TOO_LATE, injected};

pub(super) fn moment_passed() {
    event::at_moment();
}

/// Serializes the tests: each starts many processes, and their waits are timed.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program and waits until it is blocked: it prints `ready` just before.
fn start(arguments: &[&str]) -> Target {
    let target = Target::start_ready(Command::new(WAITS.path()).args(arguments));
    let _ = blocked_in(target.pid());
    target
}

/// Returns the listed system call in which a program's main thread is blocked.
fn blocked_in(pid: i32) -> SystemCall {
    loop {
        let position = threads::position(Pid(pid), pid).unwrap();
        if let Some(call) = position.map(|position| position.call).filter(|call| call.known().is_some()) {
            return call;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Offsets in libc from its first mapping: the tests' own libc is that of the targets, so it is searched
/// once.
#[derive(Debug, Clone)]
struct Libc {
    signal_return: u64,
    system_call: u64,
    errno_offset: i64,
    malloc_trim: u64,
}

static LIBC: LazyLock<Libc> = LazyLock::new(|| {
    let maps = Maps::of(Pid::this()).unwrap();
    let libc = libc_of(&maps);
    let image = Image::of_mapping(Pid::this(), libc).unwrap();
    let memory = LiveMemory::of(Pid::this()).unwrap();
    let gadgets = Gadgets::in_libc(&image, &memory).unwrap();
    Libc {
        signal_return: gadgets.signal_returns[0] - libc.start,
        system_call: gadgets.system_call - libc.start,
        errno_offset: gadgets.errno_offset,
        malloc_trim: image.symbol("malloc_trim").unwrap() - libc.start,
    }
});

fn libc_of(maps: &Maps) -> &Mapping {
    elf::first_mappings(maps).find(|m| m.file().unwrap().ends_with("libc.so.6")).unwrap()
}

impl Libc {
    fn to_text(&self) -> String {
        format!("{} {} {} {}", self.signal_return, self.system_call, self.errno_offset, self.malloc_trim)
    }

    fn from_words<'a>(mut words: impl Iterator<Item = &'a str>) -> Self {
        let mut next = || words.next().unwrap().parse::<i64>().unwrap();
        let (signal_return, system_call) = (next() as u64, next() as u64);
        Libc { signal_return, system_call, errno_offset: next(), malloc_trim: next() as u64 }
    }
}

/// A target with the known facts about it.
struct Ready {
    pid: Pid,
    pinned: Pinned,
    memory: LiveMemory,
    maps: Maps,
    gadgets: Gadgets,
    malloc_trim: u64,
}

impl Ready {
    fn of(pid: i32, libc: &Libc) -> Self {
        let pid = Pid(pid);
        let pinned = Pinned::open(pid).unwrap();
        let memory = LiveMemory::of(pid).unwrap();
        let maps = Maps::of(pid).unwrap();
        let base = libc_of(&maps).start;
        let gadgets = Gadgets {
            signal_returns: vec![base + libc.signal_return],
            system_call: base + libc.system_call,
            errno_offset: libc.errno_offset,
            // The program makes its calls itself, to see its registers after them, and accepts changed ones.
            text: 0..u64::MAX,
        };
        Ready { pid, pinned, memory, maps, gadgets, malloc_trim: base + libc.malloc_trim }
    }

    fn call(&self, attendance: Duration, check: impl FnMut() -> Safety) -> Result<Borrowed, Refusal> {
        let function = self.function(vec![], attendance);
        call(&self.host(&Unwinder::default()), &function, Duration::from_secs(1), check)
    }

    /// Makes a call on a thread that is outside some code.
    fn call_outside(&self, forbidden: Vec<Range<u64>>, unwinder: &Unwinder) -> Result<Borrowed, Refusal> {
        let function = self.function(forbidden, TO_THE_END);
        call(&self.host(unwinder), &function, Duration::from_secs(1), || Safety::Safe)
    }

    fn function(&self, forbidden: Vec<Range<u64>>, attendance: Duration) -> Call {
        Call { function: self.malloc_trim, arguments: vec![], stack_bytes: 16 << 10, forbidden, attendance }
    }

    fn host<'a>(&'a self, unwinder: &'a Unwinder) -> Host<'a> {
        Host {
            pid: self.pid,
            pinned: &self.pinned,
            memory: &self.memory,
            maps: &self.maps,
            gadgets: &self.gadgets,
            unwinder,
        }
    }
}

/// Long enough for any call here on any machine, and no time at all.
const TO_THE_END: Duration = Duration::from_secs(100);
const NOT_ATTENDED: Duration = Duration::ZERO;

/// Returns whether the program's wait was over before its thread could be borrowed, as happens on a very busy
/// machine.
fn came_too_late(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::NoSafePoint { .. } | Refusal::Ended | Refusal::Process(_))
}

/// Runs a program of a kind whose thread is borrowed several times during its single wait.
fn borrowed(kind: &str, times: usize, attendance: Duration) -> Target {
    for _ in 0..20 {
        let target = start(&[kind, "altstack", "heap"]);
        let ready = Ready::of(target.pid(), &LIBC);
        let calls = (0..times).try_for_each(|_| ready.call(attendance, || Safety::Safe).map(drop));
        match calls {
            Ok(()) => return target,
            Err(refusal) if came_too_late(&refusal) => {}
            Err(refusal) => panic!("{kind}: {refusal}"),
        }
    }
    panic!("{kind}: its wait was over each time before its thread could be borrowed {times} times");
}

/// The program's report on its wait.
#[derive(Debug)]
struct WaitReport {
    result: i64,
    milliseconds: i64,
    others: String,
}

fn report(target: &mut Target) -> WaitReport {
    report_of(&target.line())
}

fn report_of(line: &str) -> WaitReport {
    let mut result = 0;
    let mut milliseconds = 0;
    let mut others = Vec::new();
    for field in line.split(' ') {
        match field.split_once('=').unwrap() {
            ("result", value) => result = value.parse().unwrap(),
            ("ms", value) => milliseconds = value.parse().unwrap(),
            _ => others.push(field),
        }
    }
    WaitReport { result, milliseconds, others: others.join(" ") }
}

/// Each kind of wait, the result of its system call if undisturbed, and whether a handler runs.
const KINDS: [(&str, i64, u8); 18] = [
    ("read", 1, 0),
    ("recv", 1, 0),
    ("poll", 1, 0),
    ("poll-timeout", 0, 0),
    ("ppoll-timeout", 0, 0),
    ("ppoll-signal", -4, 1),
    ("select-timeout", 0, 0),
    ("epoll", 1, 0),
    ("epoll-timeout", 0, 0),
    ("nanosleep", 0, 0),
    ("nanosleep-rest", 0, 0),
    ("clock-nanosleep", 0, 0),
    ("clock-nanosleep-until", 0, 0),
    ("futex", 0, 0),
    ("futex-timeout", -110, 0),
    ("futex-until", -110, 0),
    ("pause", -4, 1),
    ("sigsuspend", -4, 1),
];

fn assert_undisturbed(kind: &str, result: i64, handled: u8, seen: &WaitReport, how: &str) {
    assert_eq!(seen.result, result, "{kind}, {how}: {seen:?}");
    let expected = format!("errno=77 registers=ok mask=ok handled={handled} stack=ok");
    assert_eq!(seen.others, expected, "{kind}, {how}: {seen:?}");
    // The event that ends the wait comes after 1.5 s and was started a little earlier; a timeout of its own
    // never comes early. How late it comes depends on the scheduler: at a load of 25 a single step takes 50
    // ms.
    let of_its_own = ["timeout", "until", "sleep"].iter().any(|word| kind.contains(word));
    let earliest = if of_its_own { 1499 } else { 1200 };
    assert!(seen.milliseconds >= earliest, "{kind}, {how}: {seen:?}");
}

/// Returns how often a thread can be borrowed. A call that the kernel continues with `restart_syscall` no
/// longer shows its number, unless the code before it does; libc's does, the program's own does not.
fn times_of(kind: &str) -> usize {
    let kernel_deadline = kind.contains("sleep") || ["poll-timeout", "futex-timeout"].contains(&kind);
    if kernel_deadline { 1 } else { 3 }
}

#[test]
fn every_wait_goes_on_as_if_nothing_had_happened() {
    let _alone = alone();
    for kinds in KINDS.chunks(6) {
        std::thread::scope(|scope| {
            for &(kind, result, handled) in kinds {
                scope.spawn(move || {
                    let mut target = borrowed(kind, times_of(kind), TO_THE_END);
                    assert_undisturbed(kind, result, handled, &report(&mut target), "borrowed");
                });
            }
        });
    }
}

/// The kernel has then forgotten its deadline, so the call is made again with the remaining time. A timeout
/// passed by address becomes a kernel deadline again, and every register is as before.
#[test]
fn a_wait_whose_call_was_not_attended_goes_on_with_what_is_left_of_its_timeout() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for (kind, result) in
            [("nanosleep", 0), ("nanosleep-rest", 0), ("clock-nanosleep", 0), ("futex-timeout", -110)]
        {
            scope.spawn(move || {
                let mut target = borrowed(kind, times_of(kind), NOT_ATTENDED);
                let seen = report(&mut target);
                assert_undisturbed(kind, result, 0, &seen, "not attended");
                // Not the whole timeout again: it was borrowed early in its wait, and some machines are slow.
                assert!(seen.milliseconds < 2900, "{kind}: {seen:?}");
            });
        }
        scope.spawn(|| {
            let mut target = borrowed("poll-timeout", 2, NOT_ATTENDED);
            assert!(blocked_in(target.pid()).arguments[2] < 1500, "its whole timeout again");
            assert_resumed("poll-timeout", 0, 0, report(&mut target), "not attended");
        });
    });
}

/// Asserts the only two visible effects when the kernel has not resumed the wait by itself;
/// `docs/method/trim.md` explains why.
fn assert_resumed(kind: &str, result: i64, handled: u8, mut seen: WaitReport, how: &str) {
    if kind.starts_with("epoll") && seen.result == -4 {
        return; // as after SIGSTOP and SIGCONT
    }
    if ["poll-timeout", "nanosleep", "nanosleep-rest", "futex-timeout"].contains(&kind) {
        // A register that held the timeout or its address: dead in libc, the only place where such a thread
        // is borrowed.
        seen.others = seen.others.replace("registers=arguments", "registers=ok");
    }
    assert_undisturbed(kind, result, handled, &seen, how);
}

/// Kills Unbloat at a given moment of borrowing a new program's thread; returns false if it finished earlier.
fn kill_at(moment: u32, kind: &str, result: i64, handled: u8, attendance: Duration) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    loop {
        let mut target = start(&[kind, "altstack"]);
        let status = injected(&Script::killed_at(moment), target.pid(), attendance);
        if status.code() == Some(TOO_LATE) {
            continue;
        }
        assert_resumed(kind, result, handled, report(&mut target), &format!("killed at moment {moment}"));
        assert!(status.success() || status.signal() == Some(9), "{status}");
        return status.signal() == Some(9);
    }
}

fn kill_at_every_moment(kind: &str, result: i64, handled: u8, attendance: Duration) {
    const AT_ONCE: u32 = 8;
    let _alone = alone();
    for first in (1..).step_by(AT_ONCE as usize) {
        let killed = std::thread::scope(|scope| {
            let runs: Vec<_> = (first..first + AT_ONCE)
                .map(|moment| scope.spawn(move || kill_at(moment, kind, result, handled, attendance)))
                .collect();
            runs.into_iter().map(|run| run.join().unwrap()).filter(|&killed| killed).count()
        });
        if killed == 0 {
            assert!(first > AT_ONCE, "no kill hit");
            return;
        }
    }
}

#[test]
fn killed_at_any_moment_a_read_goes_on() {
    kill_at_every_moment("read", 1, 0, TO_THE_END);
}

#[test]
fn killed_at_any_moment_a_pause_goes_on() {
    kill_at_every_moment("pause", -4, 1, TO_THE_END);
}

#[test]
fn killed_at_any_moment_a_sleep_ends_in_time() {
    kill_at_every_moment("nanosleep", 0, 0, TO_THE_END);
}

#[test]
fn killed_at_any_moment_a_futex_times_out_in_time() {
    kill_at_every_moment("futex-timeout", -110, 0, TO_THE_END);
}

#[test]
fn killed_at_any_moment_a_futex_that_is_not_attended_times_out_in_time() {
    kill_at_every_moment("futex-timeout", -110, 0, NOT_ATTENDED);
}

#[test]
fn killed_at_any_moment_an_epoll_wait_times_out_in_time() {
    kill_at_every_moment("epoll-timeout", 0, 0, TO_THE_END);
}

/// Makes calls in a waiting program, starting a new one if its wait was over too early; `done` interprets a
/// call's report.
fn until_in_time<T>(kind: &str, mut done: impl FnMut(&mut Target, &Ready) -> Option<T>) -> T {
    let mut tries = (0..20).filter_map(|_| {
        let mut target = start(&[kind]);
        let ready = Ready::of(target.pid(), &LIBC);
        done(&mut target, &ready)
    });
    tries.next().unwrap_or_else(|| panic!("{kind}: its wait was over too early each time"))
}

#[test]
fn a_busy_check_leaves_the_thread_alone_and_is_tried_again() {
    let _alone = alone();
    until_in_time("epoll-timeout", |target, ready| {
        let mut asked = 0;
        let borrowed = ready.call(TO_THE_END, || {
            asked += 1;
            if asked < 5 { Safety::Busy("a test says so") } else { Safety::Safe }
        });
        assert!(borrowed.ok()?.retries >= 4);
        assert_eq!(asked, 5);
        assert_undisturbed("epoll-timeout", 0, 0, &report(target), "four times sent back");
        Some(())
    });
}

#[test]
fn a_check_that_never_agrees_ends_with_a_sentence() {
    let _alone = alone();
    until_in_time("pause", |_, ready| {
        let refusal = ready.call(TO_THE_END, || Safety::Busy("a lock is held")).unwrap_err();
        assert!(matches!(refusal, Refusal::NoSafePoint { .. }));
        refusal.to_string().contains("a lock is held").then_some(())
    });
}
