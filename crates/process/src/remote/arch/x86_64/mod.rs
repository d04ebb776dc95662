//! x86-64.
//!
//! | module | concept |
//! |---|---|
//! | `registers` | the general registers |
//! | `frame` | a chain of signal frames |
//! | `xstate` | the extended processor state in a signal frame |
//! | `code` | machine code of libc |

pub(in crate::remote) mod code;
pub(in crate::remote) mod dwarf;
mod frame;
mod registers;
mod xstate;

pub(in crate::remote) use frame::{ALL_SIGNALS, Chain, Data, Place, Step};
pub(in crate::remote) use registers::Registers;
pub(in crate::remote) use xstate::FrameFormat;

use crate::remote::blocking_call::BlockingCall;
use nix::libc;

/// `NT_X86_XSTATE`, `include/uapi/linux/elf.h`.
pub(in crate::remote) const EXTENDED_STATE: usize = 0x202;
/// `NT_X86_SHSTK`: only threads with a shadow stack have it.
pub(in crate::remote) const SHADOW_STACK: usize = 0x204;

/// The calls that newer architectures express through others (`poll` through `ppoll`, `pause` through `ppoll`, …).
pub(in crate::remote) fn legacy_call(number: i64) -> Option<BlockingCall> {
    Some(match number {
        libc::SYS_poll => BlockingCall::Poll,
        libc::SYS_select => BlockingCall::Select,
        libc::SYS_epoll_wait => BlockingCall::EpollWait,
        libc::SYS_pause => BlockingCall::Pause,
        _ => return None,
    })
}
