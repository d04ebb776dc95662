//! The text of strings: in the slot, in malloc memory, in mapped files.

use super::facts::{Embedded, NameFacts};
use super::{MAX_NAME_BYTES, user};
use crate::ruby::slots::Slot;
use crate::ruby::space::Space;
use std::cell::RefCell;
use std::collections::HashMap;
use unbloat_process::{Image, Maps, Memory, Pid};

/// T_STRING, T_ARRAY.
pub(crate) const STRING: u8 = 0x05;
pub(crate) const ARRAY: u8 = 0x07;
/// Maximum number of files to open for non-resident bytes.
const MAX_IMAGES: usize = 64;

/// Reads texts of one process.
pub(crate) struct Texts<'a> {
    pub(crate) memory: &'a dyn Memory,
    pub(crate) space: &'a Space,
    pub(crate) facts: &'static NameFacts,
    maps: &'a Maps,
    pid: Pid,
    /// The files, by the start of their first mapping.
    images: RefCell<HashMap<u64, Option<Image>>>,
}

/// The location of a string's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bytes {
    /// In the slot, at this offset.
    InSlot(usize),
    /// At this address.
    At(u64),
}

impl<'a> Texts<'a> {
    pub(crate) fn new(
        pid: Pid,
        maps: &'a Maps,
        memory: &'a dyn Memory,
        space: &'a Space,
        facts: &'static NameFacts,
    ) -> Self {
        Texts { memory, space, facts, maps, pid, images: RefCell::default() }
    }

    /// Returns the string at this address, cut to the length of a name.
    pub(crate) fn string(&self, value: u64) -> Option<Vec<u8>> {
        self.string_to(value, MAX_NAME_BYTES)
    }

    /// Returns at most `limit` bytes of the string at this address.
    pub(crate) fn string_to(&self, value: u64, limit: usize) -> Option<Vec<u8>> {
        let slot = self.space.of_type(value, STRING)?;
        let (place, length) = place(&slot, self.facts);
        let length = usize::try_from(length).ok()?.min(limit);
        match place {
            Bytes::InSlot(at) => Some(slot.bytes.get(at..at.checked_add(length)?)?.to_vec()),
            Bytes::At(address) => self.bytes(address, length),
        }
    }

    /// Returns the address and number of the elements of the array at this address, checked only against the
    /// slot.
    pub(crate) fn array(&self, value: u64) -> Option<(u64, u64)> {
        let slot = self.space.of_type(value, ARRAY)?;
        Some(match slot.flags & user(1) {
            0 => (slot.word(32), slot.word(16)),
            _ => (slot.address + 16, slot.flags >> 15 & self.facts.array_length_mask),
        })
    }

    /// Returns one element of an array.
    pub(crate) fn element(&self, value: u64, index: u64) -> Option<u64> {
        let (address, length) = self.array(value)?;
        (index < length).then_some(())?;
        self.memory.word(address.checked_add(index.checked_mul(8)?)?).ok()
    }

    /// Returns bytes at an address, from memory if they are resident, otherwise from the file mapped there.
    pub(crate) fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        if self.memory.read(address, &mut bytes).is_ok() {
            return Some(bytes);
        }
        let mapping = self.maps.find(address).filter(|mapping| !mapping.write)?;
        let path = mapping.file()?;
        let first =
            self.maps.iter().find(|other| other.file() == Some(path) && other.inode == mapping.inode)?;
        let mut images = self.images.borrow_mut();
        if images.len() >= MAX_IMAGES && !images.contains_key(&first.start) {
            return None;
        }
        let image = images.entry(first.start).or_insert_with(|| Image::of_mapping(self.pid, first).ok());
        image.as_ref()?.file_bytes(address, length)
    }

    /// Returns a C string of printable ASCII.
    pub(crate) fn c_string(&self, address: u64) -> Option<String> {
        // Fewer bytes can be read near the end of a mapping.
        let bytes = [64, 16, 4].into_iter().find_map(|length| self.bytes(address, length))?;
        let text = &bytes[..bytes.iter().position(|&byte| byte == 0)?];
        let printable = !text.is_empty() && text.iter().all(|byte| (0x20..0x7f).contains(byte));
        printable.then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// Returns the location of a string's bytes, and their number. `STR_NOEMBED` is USER1 in all versions.
pub(crate) fn place(slot: &Slot<'_>, facts: &NameFacts) -> (Bytes, u64) {
    if slot.flags & user(1) != 0 {
        return (Bytes::At(slot.word(24)), slot.word(16));
    }
    match facts.embedded {
        Embedded::LengthInFlags => (Bytes::InSlot(16), slot.flags >> 14 & 31),
        Embedded::LengthBefore => (Bytes::InSlot(24), slot.word(16)),
    }
}
