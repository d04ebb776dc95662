//! Everything about a call that depends on the processor.
//!
//! A new architecture is one more module here with the same items:
//!
//! | item | meaning |
//! |---|---|
//! | `Registers` | the general registers, by their role in a system call |
//! | `Chain`, `Place`, `Step`, `Data` | the bytes on the borrowed stack |
//! | `FrameFormat` | the extended state as a signal frame carries it |
//! | `EXTENDED_STATE`, `SHADOW_STACK` | the register sets that `ptrace` is asked for |
//! | `legacy_call` | system calls that only this architecture numbers |
//! | `dwarf` | the registers' numbers in call frame information |
//! | `code` | the machine code that libc is searched for |

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{
    ALL_SIGNALS, Chain, Data, EXTENDED_STATE, FrameFormat, Place, Registers, SHADOW_STACK, Step, code, dwarf,
    legacy_call,
};
