//! The parts of an instruction sequence: `struct rb_iseq_constant_body` (vm_core.h), by version.

/// Offset in an instruction sequence's slot of its body: `rb_iseq_t.body` (vm_core.h), the same from 2.7 to 4.0.
pub(crate) const BODY: usize = 16;
/// Offset in the body of `location.pathobj`, a String or `[path, realpath]`: behind type and size, `iseq_encoded` and `param`, the
/// same from 2.7 to 4.0.
pub(crate) const PATH: usize = 64;

/// The facts about a version.
#[derive(Debug)]
pub(crate) struct CodeFacts {
    /// Offsets in the body of `is_entries` and `call_data`; `None` if unknown.
    pub(crate) caches: Option<[usize; 2]>,
    /// The place of a class's table of constants.
    pub(crate) constants: Constants,
}

/// The place of a class's table of constants (`struct rb_id_table *`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constants {
    /// At this offset of the extension that 24 points at (internal/class.h up to 3.1).
    InExtension(usize),
    /// At this offset of the slot.
    InSlot(usize),
}

/// v2_7_8, v3_0_7, v3_1_2.
pub(crate) const FACTS_2_7: CodeFacts =
    CodeFacts { caches: Some([184, 192]), constants: Constants::InExtension(24) };
/// v3_2_11, v3_3_8: `first_lineno` has become an `int`.
pub(crate) const FACTS_3_2: CodeFacts =
    CodeFacts { caches: Some([176, 184]), constants: Constants::InSlot(40) };
/// v3_4_9: the fields after `local_table` have not been compared.
pub(crate) const FACTS_3_4: CodeFacts = CodeFacts { caches: None, constants: Constants::InSlot(40) };
/// v4.0.5.
pub(crate) const FACTS_4_0: CodeFacts = CodeFacts { caches: None, constants: Constants::InSlot(24 + 32) };
