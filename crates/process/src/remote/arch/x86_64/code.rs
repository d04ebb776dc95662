//! Machine code of libc that a call leads through or is recognized by.

/// Bytes of the instruction `syscall`.
pub(in crate::remote) const CALL: [u8; 2] = [0x0f, 0x05];

/// `mov $15,%rax; syscall` and `mov $15,%eax; syscall`: `__restore_rt` of glibc
/// (sysdeps/unix/sysv/linux/x86_64/libc_sigaction.c), and what a compiler may make of it.
pub(in crate::remote) const SIGNAL_RETURNS: [&[u8]; 2] =
    [b"\x48\xc7\xc0\x0f\0\0\0\x0f\x05", b"\xb8\x0f\0\0\0\x0f\x05"];

/// `endbr64`, which functions start with when libc was built for control-flow protection.
const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";

/// Bytes of the code that [`number_of_call`] reads.
pub(in crate::remote) const NUMBERED_CALL_BYTES: usize = 7;

/// The system call number that code loads just before the call: `mov $NUMBER,%eax; syscall`.
pub(in crate::remote) fn number_of_call(code: [u8; NUMBERED_CALL_BYTES]) -> Option<i64> {
    match code {
        [0xb8, a, b, c, d, 0x0f, 0x05] => Some(i64::from(i32::from_le_bytes([a, b, c, d]))),
        _ => None,
    }
}

/// Returns whether code is libc's signal return.
pub(in crate::remote) fn is_signal_return(code: &[u8]) -> bool {
    SIGNAL_RETURNS.iter().any(|pattern| code.starts_with(pattern))
}

/// The offset of the system call instruction in `syscall` (sysdeps/unix/sysv/linux/x86_64/syscall.S): registers are
/// moved, the call is made, an error is told from a result (`cmp $-4095,%rax; jae`), and `ret`.
pub(in crate::remote) fn returning_system_call(code: &[u8]) -> Option<u64> {
    let at = code.get(..64)?.windows(2).position(|window| window == CALL)?;
    let behind = code.get(at + 2..)?.strip_prefix(b"\x48\x3d\x01\xf0\xff\xff".as_slice())?;
    let ret = match behind {
        [0x73, _, tail @ ..] => tail,
        [0x0f, 0x83, _, _, _, _, tail @ ..] => tail,
        _ => return None,
    };
    (ret.first() == Some(&0xc3)).then_some(at as u64)
}

/// The slot that holds `errno`'s distance from the thread pointer: `__errno_location` is
/// `mov slot(%rip),%rax; add %fs:0,%rax; ret` (csu/errno-loc.c, initial-exec TLS).
pub(in crate::remote) fn thread_offset_slot(code: &[u8], address: u64) -> Option<u64> {
    let (body, before) = match code.strip_prefix(ENDBR64) {
        Some(body) => (body, 4),
        None => (code, 0),
    };
    let body = body.strip_prefix(b"\x48\x8b\x05".as_slice())?;
    let (displacement, tail) = body.split_first_chunk::<4>()?;
    tail.starts_with(b"\x64\x48\x03\x04\x25\0\0\0\0\xc3").then(|| {
        let next_instruction = address.wrapping_add(before + 7);
        next_instruction.wrapping_add_signed(i64::from(i32::from_le_bytes(*displacement)))
    })
}
