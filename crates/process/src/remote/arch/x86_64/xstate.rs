//! The extended processor state (x87, SSE, AVX, AVX-512, protection keys) as a signal frame carries it.
//!
//! The kernel restores it from a frame only if the frame has the kernel's own form: `_fpx_sw_bytes` in the bytes that
//! the processor leaves to software, and a second magic word behind the state (`arch/x86/include/uapi/asm/sigcontext.h`;
//! checked by `check_xstate_in_sigframe`, `arch/x86/kernel/fpu/signal.c`). Its sizes differ by machine, so they are not
//! computed but read from a frame that the kernel writes for this very process.

#![allow(unsafe_code)] // a signal handler that looks at its own frame

use nix::libc;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// `FP_XSTATE_MAGIC1`.
const MAGIC1: u32 = 0x4650_5853;
/// `FP_XSTATE_MAGIC2`.
const MAGIC2: u32 = 0x4650_5845;
/// The offset of `sw_reserved` in the legacy (fxsave) area.
const SW_RESERVED: usize = 464;
/// The offset of the XSAVE header: the features in use (`xstate_bv`) come first.
const HEADER: usize = 512;

/// The form of the extended state in this machine's signal frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remote) struct FrameFormat {
    /// Bytes of the state (`xstate_size`), without the second magic word.
    bytes: u32,
    /// Features that frames hold (`xfeatures`).
    features: u64,
}

/// A thread's state cannot be put into a signal frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::remote) struct Unframeable;

impl FrameFormat {
    /// The form on this machine; `None` when the kernel writes no extended state into frames.
    pub(in crate::remote) fn of_this_machine() -> Option<Self> {
        static FORMAT: OnceLock<Option<FrameFormat>> = OnceLock::new();
        *FORMAT.get_or_init(read_from_own_frame)
    }

    /// Turns what `PTRACE_GETREGSET` gave for `NT_X86_XSTATE` into the bytes of a signal frame's `fpstate`.
    ///
    /// # Errors
    /// The thread uses a feature that a frame on this machine does not hold by default (AMX tiles).
    pub(in crate::remote) fn fpstate(self, regset: &[u8]) -> Result<Vec<u8>, Unframeable> {
        let size = self.bytes as usize;
        let in_use = regset
            .get(HEADER..HEADER + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(u64::MAX, u64::from_le_bytes);
        if in_use & !self.features != 0 || regset.len() < size {
            return Err(Unframeable);
        }
        let mut state = regset.to_vec();
        state.resize(regset.len() + 4, 0);
        let mut put = |at: usize, bytes: &[u8]| state[at..at + bytes.len()].copy_from_slice(bytes);
        put(SW_RESERVED, &[0; 48]);
        put(SW_RESERVED, &MAGIC1.to_le_bytes());
        put(SW_RESERVED + 4, &(self.bytes + 4).to_le_bytes());
        put(SW_RESERVED + 8, &self.features.to_le_bytes());
        put(SW_RESERVED + 16, &self.bytes.to_le_bytes());
        // Newer kernels look for the second word behind the task's own state, which is larger than the default once
        // the process has been allowed to use AMX; the bytes behind the default size are not part of any other state.
        put(regset.len(), &MAGIC2.to_le_bytes());
        put(size, &MAGIC2.to_le_bytes());
        Ok(state)
    }
}

static MAGIC_SEEN: AtomicU32 = AtomicU32::new(0);
static BYTES_SEEN: AtomicU32 = AtomicU32::new(0);
static FEATURES_SEEN: AtomicU64 = AtomicU64::new(0);

extern "C" fn look_at_frame(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a `ucontext_t` to a handler with SA_SIGINFO.
    let fpregs = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.fpregs }.cast::<u8>();
    if fpregs.is_null() {
        return;
    }
    // SAFETY: `fpregs` points at the legacy area of at least 512 bytes; the fields are within it and may be unaligned.
    unsafe {
        let software = fpregs.add(SW_RESERVED);
        MAGIC_SEEN.store(software.cast::<u32>().read_unaligned(), Ordering::Relaxed);
        FEATURES_SEEN.store(software.add(8).cast::<u64>().read_unaligned(), Ordering::Relaxed);
        BYTES_SEEN.store(software.add(16).cast::<u32>().read_unaligned(), Ordering::Relaxed);
    }
}

/// Sends this thread a signal and looks at the frame. `SIGURG` is ignored by default and nobody sends it to us.
fn read_from_own_frame() -> Option<FrameFormat> {
    let look = SigAction::new(SigHandler::SigAction(look_at_frame), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only reads its frame and stores to atomics.
    let before = unsafe { sigaction(Signal::SIGURG, &look) }.ok()?;
    let raised = raise(Signal::SIGURG);
    // SAFETY: puts back what was there.
    unsafe { sigaction(Signal::SIGURG, &before) }.ok()?;
    raised.ok()?;
    let bytes = BYTES_SEEN.load(Ordering::Relaxed);
    (MAGIC_SEEN.load(Ordering::Relaxed) == MAGIC1 && bytes as usize >= HEADER + 64)
        .then(|| FrameFormat { bytes, features: FEATURES_SEEN.load(Ordering::Relaxed) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn this_machine_has_a_format_with_sse() {
        let format = FrameFormat::of_this_machine().unwrap();
        assert_eq!(format.features & 3, 3);
    }

    #[test]
    fn a_state_with_an_unknown_feature_is_not_framed() {
        let format = FrameFormat { bytes: 576, features: 0b111 };
        let mut regset = vec![0; 1024];
        assert!(format.fpstate(&regset).is_ok());
        regset[HEADER + 2] = 4; // bit 18: AMX tile data
        assert_eq!(format.fpstate(&regset), Err(Unframeable));
        assert_eq!(format.fpstate(&regset[..500]), Err(Unframeable));
    }
}
