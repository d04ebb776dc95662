//! The general registers of a thread (`struct user_regs_struct`, `arch/x86/include/asm/user_64.h`), by their role.
//!
//! System calls take their number in `rax` and arguments in `rdi`, `rsi`, `rdx`, `r10`, `r8`, `r9`; the result is in
//! `rax`. `orig_rax` keeps the number while the thread is inside of the call, and −1 says that it is in none
//! (`arch/x86/entry/entry_64.S`).

use nix::libc::{self, user_regs_struct};

/// The general registers.
#[derive(Debug, Clone, Copy)]
pub(in crate::remote) struct Registers(pub(in crate::remote) user_regs_struct);

/// `orig_rax` of a thread that is in no system call.
const NO_CALL: u64 = u64::MAX;
/// The code segment of a 64-bit program (`__USER_CS`).
const USER_CS: u64 = 0x33;
/// Bytes of the instruction `syscall`.
const CALL_BYTES: u64 = 2;

impl Registers {
    pub(in crate::remote) fn program_counter(&self) -> u64 {
        self.0.rip
    }

    pub(in crate::remote) fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// The address of the thread's control block.
    pub(in crate::remote) fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// Returns whether the thread runs 64-bit code.
    pub(in crate::remote) fn is_native(&self) -> bool {
        self.0.cs == USER_CS
    }

    /// The system call that the thread is inside of; −1 for none.
    pub(in crate::remote) fn system_call(&self) -> i64 {
        self.0.orig_rax as i64
    }

    pub(in crate::remote) fn set_system_call(&mut self, number: i64) {
        self.0.orig_rax = number as u64;
    }

    pub(in crate::remote) fn arguments(&self) -> [u64; 6] {
        let r = &self.0;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
    }

    pub(in crate::remote) fn set_argument(&mut self, index: usize, value: u64) {
        let r = &mut self.0;
        let register = match index {
            0 => &mut r.rdi,
            1 => &mut r.rsi,
            2 => &mut r.rdx,
            3 => &mut r.r10,
            4 => &mut r.r8,
            _ => &mut r.r9,
        };
        *register = value;
    }

    /// The result of a system call; an error is negative.
    pub(in crate::remote) fn result(&self) -> i64 {
        self.0.rax as i64
    }

    pub(in crate::remote) fn set_result(&mut self, result: i64) {
        self.0.rax = result as u64;
    }

    /// Moved to `code`, and in no system call.
    pub(in crate::remote) fn moved_to(self, code: u64) -> Self {
        Registers(user_regs_struct { rip: code, orig_rax: NO_CALL, ..self.0 })
    }

    /// About to load the signal frame at `stack` through libc's signal return at `code`.
    pub(in crate::remote) fn returning_from_signal(self, code: u64, stack: u64) -> Self {
        Registers(user_regs_struct { rip: code, rsp: stack, orig_rax: NO_CALL, rax: 0, ..self.0 })
    }

    /// At the system call instruction that the program counter is behind of, about to make call `number`.
    pub(in crate::remote) fn before_call(self, number: i64) -> Self {
        Registers(user_regs_struct { rip: self.0.rip.wrapping_sub(CALL_BYTES), rax: number as u64, ..self.0 })
    }

    /// These registers on the thread whose registers are `thread`: its segments stay, and it is in no system call.
    pub(in crate::remote) fn on_thread(self, thread: &Self) -> Self {
        let t = &thread.0;
        Registers(user_regs_struct {
            orig_rax: NO_CALL,
            fs_base: t.fs_base,
            gs_base: t.gs_base,
            ds: t.ds,
            es: t.es,
            fs: t.fs,
            gs: t.gs,
            ..self.0
        })
    }

    /// Returns whether the thread is about to make the system call `rt_sigreturn` with this stack pointer.
    pub(in crate::remote) fn makes_signal_return(&self, stack: u64) -> bool {
        self.system_call() == libc::SYS_rt_sigreturn && self.stack_pointer() == stack
    }
}
