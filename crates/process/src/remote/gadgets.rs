//! Gadgets: code and data of the target's libc that a borrowed thread is led through. The target's code is
//! never written to.

use super::arch::code;
use crate::{Image, Memory};
use std::ops::Range;

/// Addresses of gadgets in the target.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Gadgets {
    /// Code that makes the system call `rt_sigreturn`: the return address that libc registers for signal
    /// handlers.
    pub(super) signal_returns: Vec<u64>,
    /// A system call instruction followed by a return, in libc's `syscall`.
    pub(super) system_call: u64,
    /// Offset of `errno` from the thread pointer.
    pub(super) errno_offset: i64,
    /// libc's code.
    pub(super) text: Range<u64>,
}

/// A part of libc that matches no known version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnknownLibc {
    /// There is no signal return code.
    #[error("its libc has no known signal return code")]
    SignalReturn,
    /// `syscall` has another form.
    #[error("its libc's `syscall` has an unknown form")]
    SystemCall,
    /// `__errno_location` has another form.
    #[error("its libc's `__errno_location` has an unknown form")]
    Errno,
    /// The file has no code, or lacks exports that every glibc has.
    #[error("its libc exports no `syscall` or `__errno_location`")]
    NotLibc,
}

impl Gadgets {
    /// Finds the gadgets in the libc of a process.
    ///
    /// # Errors
    /// A part looks unfamiliar: another libc, or an unknown version.
    pub fn in_libc(image: &Image, memory: &dyn Memory) -> Result<Self, UnknownLibc> {
        let symbols = image.symbols(&["syscall", "__errno_location"]);
        let &[Some(syscall), Some(errno_location)] = &symbols[..] else { return Err(UnknownLibc::NotLibc) };
        let segment = image.elf.segments.iter().find(|s| s.execute).ok_or(UnknownLibc::NotLibc)?;
        let at = image.bias.wrapping_add(segment.addresses.start);
        let text = image.file_bytes(at, segment.file_bytes as usize).ok_or(UnknownLibc::NotLibc)?;
        Self::find(&text, at, syscall, errno_location, |address| memory.word(address).ok())
    }

    /// Finds the gadgets in libc's code.
    ///
    /// `text` is the content of its executable segment in the file, mapped at `at`; `syscall` and
    /// `errno_location` are the addresses of the functions with these names; `word` reads a word of libc's
    /// data.
    ///
    /// # Errors
    /// A part looks unfamiliar: another libc, or an unknown version.
    fn find(
        text: &[u8],
        at: u64,
        syscall: u64,
        errno_location: u64,
        word: impl Fn(u64) -> Option<u64>,
    ) -> Result<Self, UnknownLibc> {
        let code_at = |address: u64| {
            let from = usize::try_from(address.checked_sub(at)?).ok()?;
            text.get(from..)
        };
        let signal_returns: Vec<u64> =
            (0..text.len()).filter(|&i| code::is_signal_return(&text[i..])).map(|i| at + i as u64).collect();
        if signal_returns.is_empty() {
            return Err(UnknownLibc::SignalReturn);
        }
        let system_call =
            code_at(syscall).and_then(code::returning_system_call).map(|offset| syscall + offset);
        let slot = code_at(errno_location).and_then(|code| code::thread_offset_slot(code, errno_location));
        Ok(Gadgets {
            signal_returns,
            system_call: system_call.ok_or(UnknownLibc::SystemCall)?,
            errno_offset: slot.and_then(word).ok_or(UnknownLibc::Errno)? as i64,
            text: at..at + text.len() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SYSCALL: &[u8] = b"\x48\x89\xf8\x0f\x05\x48\x3d\x01\xf0\xff\xff\x73\x01\xc3";
    const ERRNO: &[u8] = b"\x48\x8b\x05\x10\0\0\0\x64\x48\x03\x04\x25\0\0\0\0\xc3";

    fn text() -> Vec<u8> {
        let mut text = vec![0x90; 256];
        text[16..25].copy_from_slice(code::SIGNAL_RETURNS[0]);
        text[64..64 + SYSCALL.len()].copy_from_slice(SYSCALL);
        text[192..192 + ERRNO.len()].copy_from_slice(ERRNO);
        text
    }

    #[test]
    fn every_gadget_is_found() {
        let word = |address| (address == 0x1000 + 192 + 7 + 16).then_some(-64i64 as u64);
        let gadgets = Gadgets::find(&text(), 0x1000, 0x1000 + 64, 0x1000 + 192, word).unwrap();
        assert_eq!(gadgets.signal_returns, [0x1010]);
        assert_eq!(gadgets.system_call, 0x1000 + 64 + 3);
        assert_eq!(gadgets.errno_offset, -64);
    }

    #[test]
    fn a_part_that_looks_different_is_named() {
        let find = |text: &[u8]| Gadgets::find(text, 0, 64, 192, |_| Some(1)).unwrap_err();
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
