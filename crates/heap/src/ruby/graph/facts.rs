//! The places of references in objects, by version. Sources are CRuby's files at the tags that `owner_rules` names: gc.c
//! (`gc_mark_children`), iseq.c (`rb_iseq_mark`), vm_core.h, method.h; offsets are those of LP64.

use crate::ruby::names::user;

/// The facts about a version.
#[derive(Debug)]
pub(crate) struct GraphFacts {
    /// Instance variables and hashes.
    pub(crate) shape: Shape,
    /// `struct rb_iseq_constant_body`.
    pub(crate) body: BodyFacts,
    /// Bytes of `rb_control_frame_t` (vm_core.h).
    pub(crate) frame_bytes: u64,
    /// Offset in `rb_execution_context_t` of `machine.stack_start`; `stack_end` follows.
    pub(crate) stack_start: usize,
    /// Offsets from the first size pool of `finalizer_table` and `global_list` in `rb_objspace_t` (gc.c).
    pub(crate) finalizers: u64,
    /// See `finalizers`.
    pub(crate) global_list: u64,
    /// The flag of a call cache that is not marked: `VM_CALLCACHE_UNMARKABLE` (vm_callinfo.h).
    pub(crate) unmarkable: u64,
}

/// The storage of instance variables and of hash pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Up to 3.1: counted variables, classes with an extension apart, hashes with a table apart.
    Tables,
    /// 3.3: by shape, classes with their extension in the slot, hashes with the table in the slot.
    Shapes,
}

/// Offsets in the body of an instruction sequence. Those that are the same in all versions: `iseq_size` u32 4, `iseq_encoded` 8,
/// `param.flags` 16 (`has_kw` bit 3), `keyword` 56, path, base label and label from 64 on.
#[derive(Debug)]
pub(crate) struct BodyFacts {
    /// Bytes to read.
    pub(crate) bytes: usize,
    /// `catch_table`.
    pub(crate) catch_table: usize,
    /// Its own references: parent, local and mandatory-only sequences, lines, coverage.
    pub(crate) references: &'static [usize],
    /// `is_entries`.
    pub(crate) entries: usize,
    /// The counts (u32) of these entries, which add up.
    pub(crate) entry_counts: &'static [usize],
    /// `call_data`, and the number (u32) of its elements.
    pub(crate) calls: Option<(usize, usize)>,
}

/// v3_1_2.
pub(crate) const GRAPH_3_1: GraphFacts = GraphFacts {
    shape: Shape::Tables,
    body: BodyFacts {
        bytes: 312,
        catch_table: 160,
        references: &[168, 208, 216, 224, 272],
        entries: 184,
        entry_counts: &[244],
        calls: Some((192, 248)),
    },
    frame_bytes: 64,
    stack_start: 18 * 8,
    finalizers: 36 * 8,
    global_list: 57 * 8,
    unmarkable: user(4),
};
/// v3_3_8.
pub(crate) const GRAPH_3_3: GraphFacts = GraphFacts {
    shape: Shape::Shapes,
    body: BodyFacts {
        bytes: 344,
        catch_table: 152,
        references: &[160, 168, 200, 208, 216, 280],
        entries: 176,
        entry_counts: &[236, 240, 244, 248],
        calls: Some((184, 252)),
    },
    frame_bytes: 56,
    stack_start: 19 * 8,
    finalizers: 156 * 8,
    global_list: 179 * 8,
    unmarkable: 1 << 11,
};
