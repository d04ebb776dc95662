//! The shapes of objects (3.3): number and names of the instance variables of each.
//!
//! `rb_shape_tree_t` (shape.c) is found in the writable data of the file with CRuby as a pointer to `{
//! shape_list; root_shape == shape_list; next_shape_id }`.

use crate::ruby::names::symbols::words_of;
use crate::ruby::words::{half_word, word};
use std::ops::Range;
use unbloat_process::{Memory, Result};

/// Bytes of `rb_shape_t` (shape.h): edge_name 8, next_iv_index u32 16, type u8 24, parent u32 28.
const SHAPE_BYTES: usize = 40;
/// Maximum number of shapes: `SHAPE_BUFFER_SIZE` (shape.h) is some hundred thousand.
const MAX_SHAPES: u32 = 1 << 20;
/// `INVALID_SHAPE_ID`: the root's parent.
const NO_SHAPE: u32 = u32::MAX;
/// `SHAPE_IVAR` and `SHAPE_OBJ_TOO_COMPLEX` (shape.h).
const VARIABLE: u8 = 1;
const TOO_COMPLEX: u8 = 4;
/// Maximum steps to the root: more than an object can have variables (`MAX_IVARS`).
const MAX_STEPS: usize = 1 << 16;

/// The part of a shape that the collector needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of instance variables.
    pub(crate) variables: u32,
    /// They are in a table instead.
    pub(crate) too_complex: bool,
}

/// All shapes.
#[derive(Debug)]
pub(crate) struct Shapes {
    bytes: Vec<u8>,
}

impl Shapes {
    /// Finds and reads the shapes; `None` if nothing looks like them.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn find(memory: &dyn Memory, data: &[Range<u64>]) -> Result<Option<Self>> {
        let mut found = None;
        words_of(memory, data, |_, bytes| {
            let pointers = bytes.chunks_exact(8).filter_map(|bytes| word(bytes, 0));
            let mut pointers = pointers.filter(|pointer| *pointer > 4096 && pointer.is_multiple_of(16));
            if found.is_none() {
                found = pointers.find_map(|pointer| Self::read(memory, pointer));
            }
        })?;
        Ok(found)
    }

    fn read(memory: &dyn Memory, tree: u64) -> Option<Self> {
        let mut head = [0; 24];
        memory.read(tree, &mut head).ok()?;
        let (list, root, count) = (word(&head, 0)?, word(&head, 8)?, half_word(&head, 16)?);
        (list == root && list > 4096 && (2..=MAX_SHAPES).contains(&count)).then_some(())?;
        let mut bytes = vec![0; SHAPE_BYTES];
        memory.read(list, &mut bytes).ok()?;
        let looks_right = word(&bytes, 8) == Some(0)
            && half_word(&bytes, 16) == Some(0)
            && half_word(&bytes, 28) == Some(NO_SHAPE);
        looks_right.then_some(())?;
        bytes.resize(count as usize * SHAPE_BYTES, 0);
        memory.read(list, &mut bytes).ok()?;
        Some(Shapes { bytes })
    }

    fn at(&self, id: u32) -> Option<&[u8]> {
        let from = (id as usize).checked_mul(SHAPE_BYTES)?;
        self.bytes.get(from..from.checked_add(SHAPE_BYTES)?)
    }

    /// Returns the shape of an object, whose flags have its number in the upper half.
    pub(crate) fn of(&self, flags: u64) -> Shape {
        let shape = self.at((flags >> 32) as u32).unwrap_or_default();
        let too_complex = shape.get(24) == Some(&TOO_COMPLEX);
        Shape { variables: half_word(shape, 16).unwrap_or(0), too_complex }
    }

    /// Returns the ID of the instance variable with this index.
    pub(crate) fn variable(&self, flags: u64, index: u32) -> Option<u64> {
        let mut id = (flags >> 32) as u32;
        for _ in 0..MAX_STEPS {
            let shape = self.at(id)?;
            if shape.get(24) == Some(&VARIABLE) && half_word(shape, 16)?.checked_sub(1)? == index {
                return word(shape, 8);
            }
            id = half_word(shape, 28).filter(|&parent| parent != NO_SHAPE)?;
        }
        None
    }
}
