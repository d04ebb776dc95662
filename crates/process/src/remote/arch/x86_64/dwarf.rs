//! Numbers of registers in call frame information (System V ABI, AMD64 supplement 1.0, figure 3.36).

use super::Registers;

/// Registers that rules may refer to: the general ones and the return address.
pub(in crate::remote) const REGISTERS: usize = 17;
/// `rsp`.
pub(in crate::remote) const STACK_POINTER: usize = 7;
/// The column of the return address.
pub(in crate::remote) const RETURN_ADDRESS: u16 = 16;

/// The values of a stopped thread. Those that a function need not preserve are of no use to its callers, and absent.
pub(in crate::remote) fn of(registers: &Registers) -> [Option<u64>; REGISTERS] {
    let r = &registers.0;
    let preserved = [(3, r.rbx), (6, r.rbp), (7, r.rsp), (12, r.r12), (13, r.r13), (14, r.r14), (15, r.r15)];
    let mut values = [None; REGISTERS];
    preserved.into_iter().for_each(|(number, value)| values[number] = Some(value));
    values
}
