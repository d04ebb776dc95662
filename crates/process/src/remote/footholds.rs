//! Code and data of the target's libc that a borrowed thread is led through. Nothing is put into the target's code.

use crate::{Image, Memory};
use std::ops::Range;

/// Addresses in the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footholds {
    /// Code that makes the system call `rt_sigreturn`: what libc gives the kernel as the return of signal handlers.
    pub(super) signal_returns: Vec<u64>,
    /// A system call instruction with a return behind it, in libc's `syscall`.
    pub(super) system_call: u64,
    /// `errno`, counted from the thread pointer.
    pub(super) errno_offset: i64,
    /// libc's code.
    pub(super) text: Range<u64>,
}

/// A part of libc does not look as every known version does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLibc {
    /// No signal return code.
    #[error("its libc has no signal return code that is known")]
    SignalReturn,
    /// `syscall` has another form.
    #[error("its libc's `syscall` has a form that is not known")]
    SystemCall,
    /// `__errno_location` has another form.
    #[error("its libc's `__errno_location` has a form that is not known")]
    Errno,
    /// The file has no code, or does not export what every glibc exports.
    #[error("its libc exports no `syscall` or `__errno_location`")]
    NotLibc,
}

/// `mov $15,%rax; syscall` and `mov $15,%eax; syscall`: `__restore_rt` of glibc
/// (sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c), and what a compiler may make of it.
const SIGNAL_RETURNS: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];
const SYSCALL_INSTRUCTION: &[u8] = b"\x0f\x05";
/// `endbr64`, which functions start with when libc was built for control-flow protection.
const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";

impl Footholds {
    /// Finds the places in the libc of a process.
    ///
    /// # Errors
    /// A part does not look as it should: another libc, or a version that is not known.
    pub fn in_libc(image: &Image, memory: &dyn Memory) -> Result<Self, UnknownLibc> {
        let symbols = image.symbols(&["syscall", "__errno_location"]);
        let &[Some(syscall), Some(errno_location)] = &symbols[..] else { return Err(UnknownLibc::NotLibc) };
        let code = image.elf.segments.iter().find(|s| s.execute).ok_or(UnknownLibc::NotLibc)?;
        let at = image.bias.wrapping_add(code.addresses.start);
        let text = image.file_bytes(at, code.file_bytes as usize).ok_or(UnknownLibc::NotLibc)?;
        Self::find(&text, at, syscall, errno_location, |address| memory.word(address).ok())
    }

    /// Finds the places in libc's code.
    ///
    /// `text` are the bytes of its executable segment as they lie in the file, `at` is where they are mapped; `syscall`
    /// and `errno_location` are the addresses of the functions of these names; `word` reads a word of libc's data.
    ///
    /// # Errors
    /// A part does not look as it should: another libc, or a version that is not known.
    fn find(
        text: &[u8],
        at: u64,
        syscall: u64,
        errno_location: u64,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self, UnknownLibc> {
        let code = |address: u64| {
            let from = usize::try_from(address.checked_sub(at)?).ok()?;
            text.get(from..)
        };
        let signal_returns: Vec<u64> =
            (0..text.len()).filter(|&i| is_signal_return(&text[i..])).map(|i| at + i as u64).collect();
        if signal_returns.is_empty() {
            return Err(UnknownLibc::SignalReturn);
        }
        let system_call = code(syscall).and_then(returning_system_call).map(|offset| syscall + offset);
        let slot = code(errno_location).and_then(|code| thread_offset_slot(code, errno_location));
        Ok(Footholds {
            signal_returns,
            system_call: system_call.ok_or(UnknownLibc::SystemCall)?,
            errno_offset: slot.and_then(word).ok_or(UnknownLibc::Errno)? as i64,
            text: at..at + text.len() as u64,
        })
    }
}

fn is_signal_return(code: &[u8]) -> bool {
    SIGNAL_RETURNS.iter().any(|pattern| code.starts_with(pattern))
}

/// The offset of the system call instruction in `syscall` (sysdeps/unix/sysv/linux/x86_64/syscall.S): registers are
/// moved, the call is made, an error is told from a result (`cmp $-4095,%rax; jae`), and `ret`.
fn returning_system_call(code: &[u8]) -> Option<u64> {
    let at = code.get(..64)?.windows(2).position(|window| window == SYSCALL_INSTRUCTION)?;
    let behind = code.get(at + 2..)?.strip_prefix(b"\x48\x3d\x01\xf0\xff\xff".as_slice())?;
    let ret = match behind {
        [0x73, _, rest @ ..] => rest,
        [0x0f, 0x83, _, _, _, _, rest @ ..] => rest,
        _ => return None,
    };
    (ret.first() == Some(&0xc3)).then_some(at as u64)
}

/// The slot that holds `errno`'s distance from the thread pointer: `__errno_location` is
/// `mov slot(%rip),%rax; add %fs:0,%rax; ret` (csu/errno-loc.c, initial-exec TLS).
fn thread_offset_slot(code: &[u8], address: u64) -> Option<u64> {
    let (body, before) = match code.strip_prefix(ENDBR64) {
        Some(body) => (body, 4),
        None => (code, 0),
    };
    let body = body.strip_prefix(b"\x48\x8b\x05".as_slice())?;
    let (displacement, rest) = body.split_first_chunk::<4>()?;
    rest.starts_with(b"\x64\x48\x03\x04\x25\0\0\0\0\xc3").then(|| {
        let next_instruction = address.wrapping_add(before + 7);
        next_instruction.wrapping_add_signed(i64::from(i32::from_le_bytes(*displacement)))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SYSCALL: &[u8] = b"\x48\x89\xf8\x0f\x05\x48\x3d\x01\xf0\xff\xff\x73\x01\xc3";
    const ERRNO: &[u8] = b"\x48\x8b\x05\x10\0\0\0\x64\x48\x03\x04\x25\0\0\0\0\xc3";

    fn text() -> Vec<u8> {
        let mut text = vec![0x90; 256];
        text[16..25].copy_from_slice(SIGNAL_RETURNS[0]);
        text[64..64 + SYSCALL.len()].copy_from_slice(SYSCALL);
        text[192..192 + ERRNO.len()].copy_from_slice(ERRNO);
        text
    }

    #[test]
    fn every_place_is_found() {
        let word = |address| (address == 0x1000 + 192 + 7 + 16).then_some(-64i64 as u64);
        let found = Footholds::find(&text(), 0x1000, 0x1000 + 64, 0x1000 + 192, word).unwrap();
        assert_eq!(found.signal_returns, [0x1010]);
        assert_eq!(found.system_call, 0x1000 + 64 + 3);
        assert_eq!(found.errno_offset, -64);
    }

    #[test]
    fn a_part_that_looks_different_is_named() {
        let find = |text: &[u8]| Footholds::find(text, 0, 64, 192, |_| Some(1)).unwrap_err();
        for (at, expected) in
            [(17, UnknownLibc::SignalReturn), (69, UnknownLibc::SystemCall), (200, UnknownLibc::Errno)]
        {
            let mut text = text();
            text[at] ^= 0xff;
            assert_eq!(find(&text), expected);
        }
        assert_eq!(find(&[]), UnknownLibc::SignalReturn);
    }
}
