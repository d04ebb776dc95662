//! The locations of names, by version. Sources are CRuby's files at the tags in `owner_rules`; offsets are
//! those of LP64.

use super::user;

/// The facts about a version.
#[derive(Debug)]
pub(crate) struct NameFacts {
    /// The location of the text of short strings.
    pub(crate) embedded: Embedded,
    /// The mask of the length of an embedded array, above bit 15 (`RARRAY_EMBED_LEN_SHIFT`).
    pub(crate) array_length_mask: u64,
    /// Offset in a class of its superclass.
    pub(crate) super_class: usize,
    /// `FL_SINGLETON`: USER0, from 3.4 on USER1 (include/ruby/internal/fl_type.h).
    pub(crate) singleton: u64,
    /// `ELTS_SHARED`: USER2, from 3.4 on USER0 (include/ruby/internal/fl_type.h).
    pub(crate) shared: u64,
    /// The location of a class's name.
    pub(crate) class_path: ClassPath,
    /// Offset in a singleton class of the object to which it belongs, if that is not an instance variable.
    pub(crate) attached: usize,
    /// The location of the type of wrapped data.
    pub(crate) data_type: DataType,
}

/// The location of a string's text within its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Embedded {
    /// At 16, its length in five bits of the flags from USER2 on (`RSTRING_EMBED_LEN_MASK`, without USE_RVARGC).
    LengthInFlags,
    /// At 24, its length at 16 (include/ruby/internal/core/rstring.h from 3.2 on).
    LengthBefore,
}

/// The location of a class's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassPath {
    /// Hidden instance variables `__classpath__` or `__tmp_classpath__`, in the table at 8 of the extension
    /// at 24 (internal/class.h, variable.c).
    Variables,
    /// The same variables by shape, which this build cannot read.
    Shapes,
    /// `classpath` of `rb_classext_t` at this offset of the slot.
    At(usize),
}

/// The location of `rb_data_type_t *` in `struct RTypedData` (include/ruby/internal/core/rtypeddata.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataType {
    /// At 16; 24 has `typed_flag`, 1 or, for data in the slot, 3.
    Flagged,
    /// At 24, with flags in the lowest three bits.
    Tagged,
}

/// v2_7_8 and v3_0_7: internal/class.h, variable.c, include/ruby/ruby.h.
pub(crate) const FACTS_2_7: NameFacts = NameFacts {
    embedded: Embedded::LengthInFlags,
    array_length_mask: 3,
    super_class: 16,
    singleton: user(0),
    shared: user(2),
    class_path: ClassPath::Variables,
    attached: 0,
    data_type: DataType::Flagged,
};
/// v3_2_11: internal/class.h, the extension in the slot from 32 on.
pub(crate) const FACTS_3_2: NameFacts = NameFacts {
    embedded: Embedded::LengthBefore,
    array_length_mask: 0x7f,
    class_path: ClassPath::Shapes,
    ..FACTS_2_7
};
/// v3_3_8: internal/class.h, `classpath` the last of the extension.
pub(crate) const FACTS_3_3: NameFacts =
    NameFacts { class_path: ClassPath::At(152), attached: 128, ..FACTS_3_2 };
/// v3_4_9: include/ruby/internal/fl_type.h.
pub(crate) const FACTS_3_4: NameFacts = NameFacts { singleton: user(1), shared: user(0), ..FACTS_3_3 };
/// v4.0.5: internal/class.h, the extension from 24 on, `super` its second word.
pub(crate) const FACTS_4_0: NameFacts =
    NameFacts { super_class: 32, attached: 136, data_type: DataType::Tagged, ..FACTS_3_4 };
