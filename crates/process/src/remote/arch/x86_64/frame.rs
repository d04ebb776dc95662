//! The chain of signal frames that is written below a borrowed thread's stack.
//!
//! Each step of the chain is a function (or a bare system call) that returns, as any function does, to the address on
//! top of the stack. That address is libc's own signal return code, and a signal frame follows it: the kernel itself
//! loads the registers of the next step, and at the end those that the thread was stopped with. Once started, the chain
//! needs nobody: it runs the same whether Unbloat lives or not.
//!
//! ```text
//!   rsp of the thread ─┐
//!   red zone, 128 bytes│ (System V ABI: a leaf function may keep data there)
//!   extended state     │ 64-byte aligned
//!   data               │ strings and timeouts
//!   frame n            │ restores the thread
//!   …                  │ each behind the return address of the step before it
//!   frame 1            │
//!   return address     │ ← rsp of step 0; its own stack lies below, over the entry frame
//!   entry frame        ┘ ← rsp of the thread as it is sent into the chain; loads step 0 with every signal blocked
//! ```
//!
//! The entry frame is the lowest part: a signal that arrives before the entry has blocked it puts its own frame right below
//! the stack pointer, where nothing of the chain may lie.
//!
//! Layout: `struct ucontext` and `struct sigcontext_64`, `arch/x86/include/uapi/asm/ucontext.h` and `sigcontext.h`;
//! read by `rt_sigreturn` and `restore_sigcontext`, `arch/x86/kernel/signal_64.c`.

use super::Registers;
use nix::libc::user_regs_struct;

/// Bytes of a `struct ucontext`, and the step from one link of the chain to the next: with its return address, and a
/// multiple of 16.
const UCONTEXT: usize = 304;
const LINK: u64 = 320;
/// Bytes below the stack pointer that the thread's own code may be using.
pub(in crate::remote) const RED_ZONE: u64 = 128;

/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`: what the kernel sets for a 64-bit program.
const FLAGS: u64 = 0b111;
/// Flags of a fresh function: interrupts on and the bit that is always set; the direction flag clear, as the ABI asks.
const FRESH_EFLAGS: u64 = 0x202;
const USER_CS: u64 = 0x33;
const USER_SS: u64 = 0x2b;
/// A `ss_flags` that no kernel takes: `rt_sigreturn` then leaves the alternate signal stack as it is (`do_sigaltstack`
/// answers `EINVAL`, which `restore_altstack` ignores). What the thread's alternate stack is cannot be read from outside.
const KEEP_ALTERNATE_STACK: u32 = 0x7fff_fff0;

/// Every signal; the kernel takes SIGKILL and SIGSTOP out itself.
pub(in crate::remote) const ALL_SIGNALS: u64 = u64::MAX;

/// One link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remote) struct Step {
    /// Its start: a function, or a system call instruction that is followed by a return.
    pub(in crate::remote) start: u64,
    /// rdi, rsi, rdx, r10 (for a system call) or rcx (for a function), r8, r9.
    pub(in crate::remote) arguments: [u64; 6],
    /// rax: the number, if it is a system call.
    pub(in crate::remote) rax: u64,
    /// Signals that are blocked meanwhile.
    pub(in crate::remote) blocked: u64,
}

/// Bytes that a step's argument or the final registers point to.
#[derive(Debug, Clone, Default)]
pub(in crate::remote) struct Data {
    bytes: Vec<u8>,
}

/// A chain that has been laid out for one thread.
#[derive(Debug)]
pub(in crate::remote) struct Chain {
    /// Lowest address of what is written.
    pub(in crate::remote) base: u64,
    /// The bytes that are written there.
    pub(in crate::remote) bytes: Vec<u8>,
    /// The stack pointer with which a signal return loads step 0.
    pub(in crate::remote) entry: u64,
    /// The stack pointer of step 0.
    pub(in crate::remote) first_stack: u64,
}

/// The places of all parts: known before the bytes are, since they contain addresses of each other.
#[derive(Debug, Clone, Copy)]
pub(in crate::remote) struct Place {
    state: u64,
    data: u64,
    links: u64,
    entry: u64,
    end: u64,
}

impl Data {
    /// Room for all data of a chain, in bytes.
    const BYTES: u64 = 256;

    /// Adds bytes, and says at which offset they lie; `None` when there is no room left.
    pub(in crate::remote) fn add(&mut self, bytes: &[u8]) -> Option<u64> {
        let at = self.bytes.len().next_multiple_of(16);
        (at + bytes.len() <= Self::BYTES as usize).then(|| {
            self.bytes.resize(at, 0);
            self.bytes.extend_from_slice(bytes);
            at as u64
        })
    }
}

impl Place {
    /// Lays out a chain of `steps` steps and a state of `state_bytes` below the stack pointer `rsp`.
    pub(in crate::remote) fn below(rsp: u64, state_bytes: usize, steps: usize) -> Option<Self> {
        let end = rsp.checked_sub(RED_ZONE)?;
        let state = end.checked_sub(state_bytes as u64)? & !63;
        let data = state.checked_sub(Data::BYTES)?;
        let links = data.checked_sub(LINK * steps as u64)? & !63;
        let entry = links.checked_sub(UCONTEXT as u64)? & !63;
        Some(Place { state, data, links, entry, end })
    }

    /// Lowest address of what will be written.
    pub(in crate::remote) fn base(self) -> u64 {
        self.entry
    }

    /// The address of data at an offset.
    pub(in crate::remote) fn data(self, offset: u64) -> u64 {
        self.data + offset
    }

    /// The return address slot of step `index`, which is its stack pointer. 8 above a multiple of 16, as after a call.
    fn stack_of(self, index: usize) -> u64 {
        self.links + LINK * index as u64 + 8
    }
}

impl Chain {
    /// Builds the chain: `steps` one after the other, then the thread goes on with `last`, `mask` and `state`.
    ///
    /// `signal_return` is the address of code that makes the system call `rt_sigreturn`.
    pub(in crate::remote) fn build(
        place: Place,
        steps: &[Step],
        data: &Data,
        last: &Registers,
        mask: u64,
        state: &[u8],
        signal_return: u64,
    ) -> Self {
        let mut bytes = vec![0; (place.end - place.base()) as usize];
        let mut put = |at: u64, part: &[u8]| {
            let from = (at - place.base()) as usize;
            bytes[from..from + part.len()].copy_from_slice(part);
        };
        put(place.state, state);
        put(place.data, &data.bytes);
        for (index, step) in steps.iter().enumerate() {
            let registers = step.registers(place.stack_of(index));
            let frame = if index == 0 { place.entry } else { place.stack_of(index - 1) + 8 };
            // No state: the kernel loads the initial one, which is what a function may expect.
            put(frame, &ucontext(&registers, step.blocked, 0));
            put(place.stack_of(index), &signal_return.to_le_bytes());
        }
        if let Some(before_last) = steps.len().checked_sub(1) {
            put(place.stack_of(before_last) + 8, &ucontext(last, mask, place.state));
        }
        Chain { base: place.base(), bytes, entry: place.entry, first_stack: place.stack_of(0) }
    }
}

impl Step {
    /// The registers with which the step starts.
    pub(in crate::remote) fn registers(&self, stack: u64) -> Registers {
        let [rdi, rsi, rdx, fourth, r8, r9] = self.arguments;
        // SAFETY: the structure consists of integers.
        #[allow(unsafe_code)]
        let zero: user_regs_struct = unsafe { std::mem::zeroed() };
        Registers(user_regs_struct {
            rdi,
            rsi,
            rdx,
            rcx: fourth,
            r10: fourth,
            r8,
            r9,
            rax: self.rax,
            rip: self.start,
            rsp: stack,
            eflags: FRESH_EFLAGS,
            cs: USER_CS,
            ss: USER_SS,
            ..zero
        })
    }
}

/// A `struct ucontext` as the kernel would write it.
fn ucontext(Registers(r): &Registers, mask: u64, state: u64) -> [u8; UCONTEXT] {
    let mut bytes = [0; UCONTEXT];
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    put(0, FLAGS);
    put(24, u64::from(KEEP_ALTERNATE_STACK));
    let general = [
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax,
        r.rcx, r.rsp, r.rip, r.eflags,
    ];
    for (index, register) in general.into_iter().enumerate() {
        put(40 + 8 * index, register);
    }
    put(184, (r.cs & 0xffff) | (r.ss & 0xffff) << 48);
    put(224, state);
    put(296, mask);
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use nix::libc;

    fn field(bytes: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    }

    #[test]
    fn offsets_are_those_of_the_systems_ucontext() {
        assert_eq!(std::mem::offset_of!(libc::ucontext_t, uc_stack) + 8, 24);
        assert_eq!(std::mem::offset_of!(libc::ucontext_t, uc_mcontext), 40);
        let greg = |register: i32| 40 + 8 * register as usize;
        let step = Step { start: 11, arguments: [1, 2, 3, 4, 5, 6], rax: 7, blocked: 8 };
        let bytes = ucontext(&step.registers(12), 9, 10);
        for (register, value) in [
            (libc::REG_RIP, 11),
            (libc::REG_RSP, 12),
            (libc::REG_RDI, 1),
            (libc::REG_RSI, 2),
            (libc::REG_RDX, 3),
            (libc::REG_R10, 4),
            (libc::REG_RCX, 4),
            (libc::REG_R8, 5),
            (libc::REG_R9, 6),
            (libc::REG_RAX, 7),
            (libc::REG_EFL, FRESH_EFLAGS),
        ] {
            assert_eq!(field(&bytes, greg(register)), value, "{register}");
        }
        assert_eq!(field(&bytes, greg(libc::REG_CSGSFS)), USER_CS | USER_SS << 48);
        assert_eq!(field(&bytes, std::mem::offset_of!(libc::ucontext_t, uc_sigmask)), 9);
        let state = 40 + std::mem::offset_of!(libc::mcontext_t, fpregs);
        assert_eq!(field(&bytes, state), 10);
    }

    #[test]
    fn links_are_aligned_and_nothing_overlaps() {
        for rsp in 0x7000_0000_0000..0x7000_0000_0040u64 {
            let place = Place::below(rsp, 2700, 3).unwrap();
            assert!(place.state.is_multiple_of(64) && place.state + 2700 <= rsp - RED_ZONE);
            assert!(place.data + Data::BYTES <= place.state);
            assert_eq!(place.base(), place.entry, "a signal's frame may go below the entry");
            assert!(place.entry + UCONTEXT as u64 <= place.stack_of(0));
            for index in 0..3 {
                assert_eq!(place.stack_of(index) % 16, 8);
                let end = place.stack_of(index) + 8 + UCONTEXT as u64;
                assert!(end <= if index == 2 { place.data } else { place.stack_of(index + 1) });
            }
        }
        assert!(Place::below(100, 2700, 3).is_none());
    }
}
