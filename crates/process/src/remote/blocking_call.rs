//! The system calls of the known list, by name.

/// A system call in which a thread may be borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockingCall {
    Futex,
    Poll,
    Ppoll,
    Select,
    Pselect6,
    EpollWait,
    EpollPwait,
    EpollPwait2,
    Nanosleep,
    ClockNanosleep,
    Pause,
    RtSigsuspend,
    Wait4,
    Waitid,
    Read,
    Accept,
    Accept4,
    Recvfrom,
    Recvmsg,
}

impl BlockingCall {
    /// Its name in section 2 of the manual.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Futex => "futex",
            Self::Poll => "poll",
            Self::Ppoll => "ppoll",
            Self::Select => "select",
            Self::Pselect6 => "pselect6",
            Self::EpollWait => "epoll_wait",
            Self::EpollPwait => "epoll_pwait",
            Self::EpollPwait2 => "epoll_pwait2",
            Self::Nanosleep => "nanosleep",
            Self::ClockNanosleep => "clock_nanosleep",
            Self::Pause => "pause",
            Self::RtSigsuspend => "rt_sigsuspend",
            Self::Wait4 => "wait4",
            Self::Waitid => "waitid",
            Self::Read => "read",
            Self::Accept => "accept",
            Self::Accept4 => "accept4",
            Self::Recvfrom => "recvfrom",
            Self::Recvmsg => "recvmsg",
        }
    }

    /// Returns whether the program sees `EINTR` when a tracer interrupts the call.
    pub(super) fn shows_interruption(self) -> bool {
        matches!(self, Self::EpollWait | Self::EpollPwait | Self::EpollPwait2)
    }
}
