//! Looks that crash, hang, swell and try to break out.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use std::time::{Duration, Instant};

const SMALL: Limits =
    Limits { memory_bytes: 32 << 20, deadline: Duration::from_millis(1500), message_bytes: 1 << 20 };

fn confined<T: Serialize + DeserializeOwned>(work: impl FnOnce() -> T) -> std::result::Result<T, GaveUp> {
    run(&SMALL, &Scope::default(), work)
}

#[test]
fn a_result_comes_back() {
    let result = confined(|| (vec![1u64, 2, 3], "text".to_owned(), Some(1.5)));
    assert_eq!(result.unwrap(), (vec![1, 2, 3], "text".to_owned(), Some(1.5)));
}

#[test]
fn errors_come_back_as_they_are() {
    let gone = look(Pid(7), &SMALL, &Scope::default(), || Err::<(), _>(Error::Gone { pid: Pid(7) }));
    assert!(matches!(gone, Err(Error::Gone { pid: Pid(7) })));
}

#[test]
fn a_look_that_never_ends_is_ended() {
    let start = Instant::now();
    let result = confined(|| {
        let mut x = 0u64;
        loop {
            x = std::hint::black_box(x.wrapping_add(1));
        }
    });
    assert!(matches!(result, Err::<(), _>(GaveUp::Deadline { .. })), "{result:?}");
    assert!(start.elapsed() >= SMALL.deadline);
}

/// One that an attacker has taken over.
#[test]
fn a_look_that_closes_its_pipes_and_lives_on_is_ended() {
    let result = confined(|| {
        for descriptor in (0..64).filter(|fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()) {
            // SAFETY: nothing in this copy uses them any more.
            let _ = unsafe { nix::libc::close(descriptor) };
        }
        std::thread::sleep(Duration::from_secs(3600));
    });
    assert!(matches!(result, Err(GaveUp::Deadline { .. })), "{result:?}");
}

#[test]
fn a_look_that_takes_too_much_memory_is_ended() {
    let result = confined(|| {
        let mut blocks = Vec::new();
        for _ in 0..1 << 20 {
            blocks.push(std::hint::black_box(vec![1u8; 1 << 20]));
        }
        blocks.len()
    });
    assert!(matches!(result, Err(GaveUp::Memory { .. })), "{result:?}");
}

#[test]
fn a_look_that_panics_says_why() {
    let result = confined(|| -> u32 { panic!("a hostile number\x1b[31m") });
    let Err(GaveUp::Panicked { message }) = result else { panic!("{result:?}") };
    assert!(!message.contains('\x1b'), "{message:?}");
}

#[test]
fn a_look_that_crashes_is_told() {
    let result = confined(|| std::process::abort());
    assert!(matches!(result, Err::<(), _>(GaveUp::Crashed { .. })), "{result:?}");
}

#[test]
fn a_result_that_is_too_large_is_refused() {
    let result = confined(|| vec![7u8; 2 << 20]);
    assert!(matches!(result, Err(GaveUp::TooLarge { .. })), "{result:?}");
}

#[test]
fn nothing_is_written_started_signaled_or_sent() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "before").unwrap();
    let parent = std::process::id() as i32;
    let done = confined(|| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
        let started = std::process::Command::new("true").status().is_ok();
        let signaled = nix::sys::signal::kill(nix::unistd::Pid::from_raw(parent), None).is_ok();
        let thread = std::thread::Builder::new().spawn(|| ()).is_ok();
        let remote = RemoteIoVec { base: std::ptr::from_ref(&parent) as usize, len: 4 };
        let mut bytes = [0; 4];
        let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
        let memory = process_vm_readv(nix::unistd::Pid::from_raw(parent), into, &[remote]).is_ok();
        let wrote = std::fs::write(&file, "after").is_ok();
        let removed = std::fs::remove_file(&file).is_ok();
        [socket, started, signaled, thread, memory, wrote, removed]
    });
    assert_eq!(done.unwrap(), [false; 7]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
}

#[test]
fn descriptors_of_the_parent_are_closed_unless_kept() {
    let (kept, _a) = std::io::pipe().unwrap();
    let (other, _b) = std::io::pipe().unwrap();
    use std::os::fd::{AsFd as _, AsRawFd as _};
    let scope = Scope { descriptors: vec![kept.as_fd()], ..Scope::default() };
    let (kept, other) = (kept.as_raw_fd(), other.as_raw_fd());
    let open = |fd| std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok();
    assert_eq!(run(&SMALL, &scope, || (open(kept), open(other))).unwrap(), (true, false));
}

#[test]
fn the_child_ends_with_its_parent() {
    // A nested look runs in place, so the outer one is a child created by hand.
    let (mut reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the child only starts a look, and is killed.
    match unsafe { nix::unistd::fork() }.unwrap() {
        nix::unistd::ForkResult::Child => {
            let scope = Scope { descriptors: vec![std::os::fd::AsFd::as_fd(&writer)], ..Scope::default() };
            let _ = run(&Limits { deadline: Duration::from_secs(60), ..SMALL }, &scope, || {
                std::io::Write::write_all(&mut &writer, b"x").unwrap();
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
                #[allow(unreachable_code)]
                ()
            });
            unreachable!();
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop(writer);
            let mut byte = [0];
            std::io::Read::read_exact(&mut reader, &mut byte).unwrap();
            nix::sys::signal::kill(child, nix::sys::signal::Signal::SIGKILL).unwrap();
            nix::sys::wait::waitpid(child, None).unwrap();
            // The pipe ends when the last potential writer has ended.
            assert_eq!(std::io::Read::read(&mut reader, &mut byte).unwrap(), 0);
        }
    }
}

/// Threads that take the locks of the standard library and of libc again and again: those of panics, of the standard
/// error, of the environment, of the dynamic linker, of malloc.
fn take_locks(until: &std::sync::atomic::AtomicBool) {
    while !until.load(std::sync::atomic::Ordering::Relaxed) {
        let fail = || -> u32 { panic!("expected {:?}", vec![0; 5000]) };
        let thread = std::thread::spawn(move || std::panic::catch_unwind(fail).is_err());
        assert!(thread.join().unwrap());
        std::io::Write::flush(&mut std::io::stderr()).unwrap();
        assert!(std::process::Command::new("true").status().unwrap().success());
    }
}

#[test]
fn a_look_waits_for_no_lock_of_another_thread() {
    let done = std::sync::atomic::AtomicBool::new(false);
    let patient = Limits { deadline: Duration::from_secs(60), ..SMALL };
    std::thread::scope(|scope| {
        (0..3).for_each(|_| drop(scope.spawn(|| take_locks(&done))));
        for _ in 0..200 {
            let result =
                run(&patient, &Scope::default(), || std::fs::read_to_string("/proc/self/stat").is_ok());
            assert!(matches!(result, Ok(true)), "{result:?}");
            let result = run(&patient, &Scope::default(), || -> u32 { panic!("a panic of its own") });
            assert!(matches!(result, Err(GaveUp::Panicked { .. })), "{result:?}");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_look_ends_with_its_child_though_another_process_holds_its_pipe() {
    let (message, outbox) = std::io::pipe().unwrap();
    let (errors, error_outbox) = std::io::pipe().unwrap();
    // SAFETY: the child only ends.
    match unsafe { nix::unistd::fork() }.unwrap() {
        // SAFETY: ends this copy at once.
        nix::unistd::ForkResult::Child => unsafe { nix::libc::_exit(0) },
        nix::unistd::ForkResult::Parent { child } => {
            let received = parent::receive(child, &SMALL, message, errors);
            assert!(received.is_ok_and(|bytes| bytes.is_empty()));
        }
    }
    drop((outbox, error_outbox));
}

/// `cargo test --release -p unbloat-process --lib -- --ignored --nocapture the_cost_of_a_look`
#[test]
#[ignore = "measures and asserts nothing"]
#[allow(clippy::print_stdout)]
fn the_cost_of_a_look() {
    use nix::sys::resource::{UsageWho, getrusage};
    let cpu = || {
        let both = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
        let times = both.map(|usage| [usage.user_time(), usage.system_time()]);
        times.iter().flatten().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum::<f64>()
    };
    // What the tool has inherited and touched by then.
    let inherited = std::hint::black_box(vec![1u8; 16 << 20]);
    let (before, begun) = (cpu(), Instant::now());
    for _ in 0..500 {
        assert!(confined(|| 7u8).is_ok());
    }
    let (used, passed) = ((cpu() - before) * 2.0, begun.elapsed().as_secs_f64() * 2.0);
    println!(
        "a look that does nothing: {used:.2} ms of processor time, {passed:.2} ms ({})",
        inherited.len()
    );
}
