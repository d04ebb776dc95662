//! Unwinds the stack of a stopped thread by the call frame information of its ELF files, strictly: to the
//! thread's first function, or not at all.
//!
//! The words of a stack alone say too much. Frames with large buffers retain leftovers of earlier calls, so a
//! thread of Ruby, whose VM stack lies inside a frame, seems to be inside whatever ran at its start. An
//! unwound stack contains only the calls that have not returned.
//!
//! Rules: DWARF 5, section 6.4; `.eh_frame_hdr`: Linux Standard Base Core 5.0, section 10.6.2. A frame whose
//! rules need an expression (signal frames, procedure linkage tables) ends the attempt, and so does code
//! without such information.

use super::arch::{Registers, dwarf};
use super::stack::Stack;
use crate::elf::{Image, first_mappings};
use crate::{Maps, Pid};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
};
use gimli::{UnwindSection as _, UnwindTableRow};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Size limit of a file's call frame information.
const MAX_BYTES: u64 = 8 << 20;
/// Size limit of that of all files together: several times that of a large application.
const MAX_BYTES_OF_ALL: u64 = 24 << 20;
/// Maximum depth of a stack to unwind.
const MAX_FRAMES: usize = 1024;
/// Time limit for one stack. The thread is stopped meanwhile; 50 frames take some 0.1 ms.
const MAX_TIME: Duration = Duration::from_millis(5);

/// The call frame information of a process's program and libraries.
#[derive(Debug, Default)]
pub(super) struct FrameRules {
    files: Vec<FrameInformation>,
}

/// The call frame information of one file.
#[derive(Debug)]
struct FrameInformation {
    /// Run-time addresses of the file's code.
    code: Vec<Range<u64>>,
    /// The difference between run-time and link-time addresses.
    bias: u64,
    /// `.eh_frame_hdr`, with its link-time address.
    index: Section,
    /// `.eh_frame`, with its link-time address.
    frames: Section,
}

/// The bytes of a section and its link-time address.
#[derive(Debug)]
struct Section {
    address: u64,
    bytes: Vec<u8>,
}

impl FrameRules {
    /// Reads the call frame information of every file mapped by a process. Files without any, or that cannot
    /// be opened, are skipped: a stack that leads through them cannot be unwound.
    pub(super) fn of(pid: Pid, maps: &Maps) -> Self {
        let images = first_mappings(maps).filter_map(|mapping| Image::of_mapping(pid, mapping).ok());
        let mut left = MAX_BYTES_OF_ALL;
        let files = images.filter_map(|image| FrameInformation::of(&image)).take_while(|file| {
            let bytes = (file.index.bytes.len() + file.frames.bytes.len()) as u64;
            left.checked_sub(bytes).map(|rest| left = rest).is_some()
        });
        FrameRules { files: files.collect() }
    }

    /// Returns run-time addresses in all functions on a call stack, from the innermost frame to the thread's
    /// first.
    ///
    /// `None` if the stack cannot be followed to its end beyond doubt.
    pub(super) fn calls(&self, innermost: Frame, stack: &Stack) -> Option<Vec<u64>> {
        let mut frame = innermost;
        let mut calls = vec![frame.pc];
        let begun = Instant::now();
        while calls.len() < MAX_FRAMES && begun.elapsed() < MAX_TIME {
            match frame.caller(self, stack)? {
                Caller::Frame(caller) => frame = *caller,
                Caller::None => return Some(calls),
            }
            calls.push(frame.pc);
        }
        None
    }
}

impl FrameInformation {
    fn of(image: &Image) -> Option<Self> {
        let index_at = image.elf.unwind_index.clone()?;
        let bytes = |range: Range<u64>| {
            let len = range.end.checked_sub(range.start).filter(|&len| len <= MAX_BYTES)?;
            image.file_bytes(range.start.wrapping_add(image.bias), len as usize)
        };
        let index = bytes(index_at.clone())?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(index_at.start);
        let parsed = EhFrameHdr::new(&index, LittleEndian).parse(&bases, 8).ok()?;
        let start = parsed.eh_frame_ptr().direct().ok()?;
        let segment = image.elf.segments.iter().find(|segment| segment.addresses.contains(&start))?;
        let end = segment.addresses.start.checked_add(segment.file_bytes)?;
        let frames = bytes(start..end)?;
        let runtime =
            |range: &Range<u64>| range.start.wrapping_add(image.bias)..range.end.wrapping_add(image.bias);
        let code = image.elf.segments.iter().filter(|segment| segment.execute);
        let code = code.map(|segment| runtime(&segment.addresses)).collect();
        Some(FrameInformation {
            code,
            bias: image.bias,
            index: Section { address: index_at.start, bytes: index },
            frames: Section { address: start, bytes: frames },
        })
    }

    /// Returns the rules for the frame of the function around `pc`.
    fn rules<'c>(&self, pc: u64, context: &'c mut UnwindContext<usize>) -> Option<&'c UnwindTableRow<usize>> {
        let bases =
            BaseAddresses::default().set_eh_frame_hdr(self.index.address).set_eh_frame(self.frames.address);
        let index = EhFrameHdr::new(&self.index.bytes, LittleEndian).parse(&bases, 8).ok()?;
        let frames: EhFrame<EndianSlice<'_, LittleEndian>> = EhFrame::new(&self.frames.bytes, LittleEndian);
        let address = pc.wrapping_sub(self.bias);
        index
            .table()?
            .unwind_info_for_address(&frames, &bases, context, address, EhFrame::cie_from_offset)
            .ok()
    }
}

/// One call on the stack: its location, and the registers that the rules may refer to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Frame {
    pc: u64,
    /// Looked up instead of `pc`, since a return address may lie after the end of its function.
    within: u64,
    stack_pointer: u64,
    /// By their DWARF numbers; `None` if the value is lost.
    registers: [Option<u64>; dwarf::REGISTERS],
}

/// The calling frame.
enum Caller {
    Frame(Box<Frame>),
    /// None: the callee is the thread's first function.
    None,
}

impl Frame {
    /// The frame of the function in which a thread has stopped.
    pub(super) fn innermost(registers: &Registers) -> Self {
        let (pc, stack_pointer) = (registers.program_counter(), registers.stack_pointer());
        Frame { pc, within: pc, stack_pointer, registers: dwarf::of(registers) }
    }

    fn caller(&self, rules: &FrameRules, stack: &Stack) -> Option<Caller> {
        let file =
            rules.files.iter().find(|file| file.code.iter().any(|code| code.contains(&self.within)))?;
        let mut context = UnwindContext::new();
        let rules = file.rules(self.within, &mut context)?;
        let CfaRule::RegisterAndOffset { register, offset } = rules.cfa() else { return None };
        let base = *self.registers.get(usize::from(register.0))?;
        let cfa = base?.wrapping_add_signed(*offset);
        // Progress: a caller's frame lies above that of the function it called.
        if cfa <= self.stack_pointer {
            return None;
        }
        let pc = match rules.register(gimli::Register(dwarf::RETURN_ADDRESS))? {
            RegisterRule::Undefined => return Some(Caller::None),
            RegisterRule::Offset(n) => stack.word(cfa.wrapping_add_signed(n))?,
            _ => return None,
        };
        let mut registers = self.registers;
        for (number, value) in registers.iter_mut().enumerate() {
            *value = match rules.register(gimli::Register(number as u16)) {
                None | Some(RegisterRule::SameValue) => *value,
                Some(RegisterRule::Offset(n)) => stack.word(cfa.wrapping_add_signed(n)),
                Some(RegisterRule::ValOffset(n)) => Some(cfa.wrapping_add_signed(n)),
                Some(_) => None,
            };
        }
        registers[dwarf::STACK_POINTER] = Some(cfa);
        let caller = Frame { pc, within: pc.wrapping_sub(1), stack_pointer: cfa, registers };
        Some(Caller::Frame(Box::new(caller)))
    }
}
