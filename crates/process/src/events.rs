//! Receives every fork, exec and exit of the machine from the kernel's process events connector (netlink).
//!
//! Layouts: `include/uapi/linux/cn_proc.h`, `connector.h`, `netlink.h`. It needs CAP_NET_ADMIN in the first
//! user and PID namespace; without it the kernel does not answer, [`Connector::open`] fails, and the caller
//! has to scan for changes itself. Times are `CLOCK_MONOTONIC` nanoseconds (`ktime_get_ns` in
//! `drivers/connector/cn_proc.c`).

#![allow(unsafe_code)] // a netlink protocol that no crate wraps

use crate::Pid;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Something that happened to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A process (not a thread) was created.
    Fork {
        /// Its parent.
        parent: Pid,
        /// The new process.
        child: Pid,
        /// Time of the event.
        at_ns: i64,
    },
    /// A process became another program.
    Exec {
        /// The process.
        pid: Pid,
    },
    /// A process started a session, which its children inherit (setsid(2)).
    Session {
        /// The process.
        pid: Pid,
    },
    /// The first thread of a process ended. Usually the process ended with it, but other threads may
    /// continue.
    ///
    /// The kernel sends this event after the thread's parent could see the end (`do_exit` in `kernel/exit.c`:
    /// `exit_notify`, then `proc_exit_connector`), so it may arrive after wait(2) has returned.
    Exit {
        /// The process.
        pid: Pid,
        /// The thread's status, in the format of wait(2).
        status: i32,
        /// Time of the event.
        at_ns: i64,
    },
}

/// The result of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Events are missing because the reader was too slow; a scan is needed.
    pub lost: bool,
    /// The other end of the waker was closed.
    pub closed: bool,
}

/// The open connection.
#[derive(Debug)]
pub struct Connector {
    socket: OwnedFd,
}

const NETLINK_CONNECTOR: i32 = 11;
const CN_IDX_PROC: u32 = 1;
const CN_VAL_PROC: u32 = 1;
const PROC_CN_MCAST_LISTEN: u32 = 1;
const NLMSG_DONE: u16 = 3;

/// `nlmsghdr` (16 bytes), `cn_msg` without data (20 bytes).
const HEADER: usize = 16 + 20;

/// Size of the socket's buffer: some 25,000 events.
const BUFFER: i32 = 4 << 20;

const PROC_EVENT_NONE: u32 = 0;
const PROC_EVENT_FORK: u32 = 1;
const PROC_EVENT_EXEC: u32 = 2;
const PROC_EVENT_SID: u32 = 0x80;
const PROC_EVENT_EXIT: u32 = 0x8000_0000;

/// A classic BPF program (`Documentation/networking/filter.rst`) over a message: accepts answers, execs, new
/// sessions, and forks or exits whose pid and tgid are equal; drops everything else. It loads words as
/// big-endian.
const FILTER: [libc::sock_filter; 16] = {
    use libc::{BPF_ABS, BPF_JA, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MISC, BPF_RET, BPF_TAX, BPF_W, BPF_X};
    const fn code(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt, jf, k }
    }
    /// Loads a field of `struct proc_event`.
    const fn load(at: usize) -> libc::sock_filter {
        code(BPF_LD | BPF_W | BPF_ABS, (HEADER + at) as u32, 0, 0)
    }
    /// Compares; jumps count from the next instruction.
    const fn is(what: u32, jt: u8, jf: u8) -> libc::sock_filter {
        code(BPF_JMP | BPF_JEQ | BPF_K, what.to_be(), jt, jf)
    }
    const TO_X: libc::sock_filter = code(BPF_MISC | BPF_TAX, 0, 0, 0);
    [
        load(0),
        is(PROC_EVENT_NONE, 13, 0),
        is(PROC_EVENT_EXEC, 12, 0),
        is(PROC_EVENT_SID, 11, 0),
        is(PROC_EVENT_EXIT, 1, 0),
        is(PROC_EVENT_FORK, 4, 8),
        load(16), // an exit: process_pid, process_tgid
        TO_X,
        load(20),
        code(BPF_JMP | BPF_JA, 3, 0, 0),
        load(24), // a fork: child_pid, child_tgid
        TO_X,
        load(28),
        code(BPF_JMP | BPF_JEQ | BPF_X, 0, 1, 0),
        code(BPF_RET | BPF_K, 0, 0, 0),        // drop
        code(BPF_RET | BPF_K, u32::MAX, 0, 0), // accept
    ]
};

impl Connector {
    /// Subscribes to the kernel's process events.
    ///
    /// # Errors
    /// Permission is denied, or the kernel lacks the feature.
    pub fn open() -> io::Result<Self> {
        // SAFETY: a plain system call; a non-negative result is a new descriptor that nothing else owns.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, NETLINK_CONNECTOR);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: all-zero is a valid sockaddr_nl; the kernel chooses the port.
        let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
        address.nl_family = libc::AF_NETLINK as u16;
        address.nl_groups = CN_IDX_PROC;
        let size = size_of_val(&address) as libc::socklen_t;
        // SAFETY: address and size belong together; so do the option and its size.
        unsafe {
            if libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) < 0 {
                return Err(io::Error::last_os_error());
            }
            // On failure the default buffer size remains.
            let buffer = BUFFER;
            let pointer = (&raw const buffer).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, pointer, 4);
        }
        let connector = Connector { socket };
        connector.filter()?;
        connector.listen()?;
        Ok(connector)
    }

    /// Makes the kernel pass on only messages that [`parse`] accepts, so that the threads of a busy machine
    /// do not wake us.
    fn filter(&self) -> io::Result<()> {
        let mut filter = FILTER;
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        let size = size_of_val(&program) as libc::socklen_t;
        // SAFETY: the program outlives the call, which copies it; option and size belong together.
        let attached = unsafe {
            let option = (&raw const program).cast();
            libc::setsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, option, size)
        };
        if attached < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn listen(&self) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER + 4);
        message.extend(((HEADER + 4) as u32).to_ne_bytes());
        message.extend(NLMSG_DONE.to_ne_bytes());
        message.extend(0u16.to_ne_bytes()); // flags
        message.extend([0; 8]); // sequence, port
        message.extend(CN_IDX_PROC.to_ne_bytes());
        message.extend(CN_VAL_PROC.to_ne_bytes());
        message.extend([0; 8]); // sequence, acknowledgement
        message.extend(4u16.to_ne_bytes()); // length of the data
        message.extend(0u16.to_ne_bytes()); // flags
        message.extend(PROC_CN_MCAST_LISTEN.to_ne_bytes());
        nix::sys::socket::send(self.socket.as_raw_fd(), &message, nix::sys::socket::MsgFlags::empty())?;
        // Without permission the kernel stays silent (older ones) or answers with an error.
        let silent = || io::Error::new(io::ErrorKind::PermissionDenied, "the kernel does not answer");
        let mut buffer = [0; 512];
        for _ in 0..16 {
            let length = self.receive(&mut buffer, Duration::from_millis(200))?.ok_or_else(silent)?;
            let event = buffer.get(HEADER..length).unwrap_or_default();
            if word(event, 0) == Some(PROC_EVENT_NONE) {
                return match word(event, 16) {
                    Some(0) => Ok(()),
                    Some(error) => Err(io::Error::from_raw_os_error(error as i32)),
                    None => Err(silent()),
                };
            }
        }
        Err(silent())
    }

    /// Waits for events until the other end of `waker` is closed or the timeout expires, and appends all
    /// available events.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn wait(
        &self,
        waker: &UnixStream,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<Received> {
        let timeout = timeout.and_then(|t| PollTimeout::try_from(t).ok()).unwrap_or(PollTimeout::NONE);
        let mut ready = [
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(waker.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut ready, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let closed = ready.last().and_then(PollFd::any).unwrap_or(false);
        Ok(Received { lost: !self.take(events)?, closed })
    }

    /// Appends all available events without waiting. `false`: some were lost.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn take(&self, events: &mut Vec<Event>) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        let mut lost = false;
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => events.extend(buffer.get(..length).and_then(parse)),
                Err(Errno::EAGAIN) => return Ok(!lost),
                Err(Errno::ENOBUFS) => lost = true,
                Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn receive(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<Option<usize>> {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout) {
            Ok(0) | Err(Errno::EINTR) => Ok(None),
            Ok(_) => Ok(Some(recv(self.socket.as_raw_fd(), buffer, MsgFlags::empty())?)),
            Err(e) => Err(e.into()),
        }
    }
}

/// Parses a `struct proc_event`: what (0), cpu (4), timestamp (8), then a union at 16.
fn parse(message: &[u8]) -> Option<Event> {
    let event = message.get(HEADER..)?;
    let pid = |at| word(event, at).map(|w| Pid(w as i32));
    let at_ns = i64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
    match word(event, 0)? {
        // parent_pid, parent_tgid, child_pid, child_tgid. A child whose pid is not its tgid is a thread.
        PROC_EVENT_FORK if pid(24)? == pid(28)? => {
            Some(Event::Fork { parent: pid(20)?, child: pid(28)?, at_ns })
        }
        // process_pid, process_tgid
        PROC_EVENT_EXEC => Some(Event::Exec { pid: pid(20)? }),
        // process_pid, process_tgid
        PROC_EVENT_SID => Some(Event::Session { pid: pid(20)? }),
        // process_pid, process_tgid, exit_code, exit_signal
        PROC_EVENT_EXIT if pid(16)? == pid(20)? => {
            Some(Event::Exit { pid: pid(20)?, status: word(event, 24)? as i32, at_ns })
        }
        _ => None,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Converts an exit status of wait(2) to the shell's: 128 + the signal's number for a killed process.
#[must_use]
pub fn shell_status(status: i32) -> i64 {
    i64::from(if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_lived_child_is_reported_where_that_is_permitted() {
        let Ok(connector) = Connector::open() else { return };
        let mut child = std::process::Command::new("setsid").args(["sh", "-c", "exit 3"]).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        child.wait().unwrap();
        let (waker, other_end) = UnixStream::pair().unwrap();
        let mut events = Vec::new();
        let is_end = |e: &Event| matches!(e, Event::Exit { pid: ended, .. } if *ended == pid);
        while !events.iter().any(is_end) {
            assert_eq!(
                connector.wait(&waker, None, &mut events).unwrap(),
                Received { lost: false, closed: false }
            );
        }
        drop(other_end);
        assert!(connector.wait(&waker, None, &mut events).unwrap().closed);
        let this = Pid::this();
        assert!(
            events
                .iter()
                .any(|e| matches!(e, Event::Fork { parent, child, .. } if (*parent, *child) == (this, pid)))
        );
        assert!(events.contains(&Event::Exec { pid }) && events.contains(&Event::Session { pid }));
        let status = events.iter().find_map(|e| match e {
            Event::Exit { pid: ended, status, .. } if *ended == pid => Some(shell_status(*status)),
            _ => None,
        });
        assert_eq!(status, Some(3));
    }

    #[test]
    fn statuses_are_as_in_a_shell() {
        assert_eq!(shell_status(3 << 8), 3);
        assert_eq!(shell_status(9), 137);
    }

    proptest! {
        #[test]
        fn no_message_does_harm(message in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse(&message);
        }
    }
}
