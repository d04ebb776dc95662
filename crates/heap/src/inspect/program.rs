//! Programs whose memory this tool cannot interpret.

use crate::model::{Note, NoteCode};
use unbloat_process::elf::{ElfError, ImageError, first_mappings};
use unbloat_process::{Image, Maps, Pid};
use unbloat_untrusted::Untrusted;

/// Returns the reason why only the mappings of a process can be reported, if there is one.
pub(super) fn unreadable(pid: Pid, maps: &Maps) -> Option<Note> {
    let program = first_mappings(maps).next()?;
    match Image::of_mapping(pid, program) {
        Err(ImageError::Elf { error: ElfError::Class32, path }) => Some(Note::new(
            NoteCode::Program32Bit,
            format!(
                "{} is a 32-bit program: its allocator cannot be read. Only its mappings are reported.",
                Untrusted::from(path.as_path())
            ),
        )),
        _ => None,
    }
}
