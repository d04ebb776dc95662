//! Rules for the malloc memory that an object owns, by Ruby version: the offsets of pointers in a slot, and
//! their targets.
//!
//! A pointer counts only if it is exactly the user address of a chunk that malloc holds, so a rule may be
//! generous: a word that is no pointer, or that points into somebody else's buffer (the rest of a shared
//! string), matches no chunk. The flags in a rule only reduce the number of such lookups.
//!
//! Sources are CRuby's files at the tags v2_7_8, v3_0_7, v3_1_2, v3_2_11, v3_3_8, v3_4_9 and v4.0.5, LP64;
//! offsets were checked against the debugging information of builds of these.

/// The target of a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    /// Memory that owns nothing further.
    Leaf,
    /// A structure with pointers of its own.
    Into(&'static Struct),
}

/// A structure in malloc memory.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Struct {
    /// Bytes to read.
    pub(super) bytes: usize,
    /// Its pointers.
    pub(super) fields: Fields,
}

/// The pointers of a structure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fields {
    /// The words at these offsets.
    At(&'static [(usize, Follow)]),
    /// Every word that may be one.
    Every,
    /// `struct rb_id_table` (id_table.c): `capa` items of 16 bytes at `items`, each with a value in its second half.
    IdTable(Follow),
}

/// The location of a pointer in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule {
    /// The object's type: the low five bits of its flags.
    pub(super) code: u8,
    /// The rule applies if the flags under this mask are equal to `value`.
    pub(super) mask: u64,
    /// See `mask`.
    pub(super) value: u64,
    /// Offset of the pointer.
    pub(super) at: usize,
    /// The target; `None`: every word from there to the end of the slot may point to a leaf.
    pub(super) follow: Option<Follow>,
}

/// `RUBY_FL_USERn` (include/ruby/internal/fl_type.h: `1 << (RUBY_FL_USHIFT + n)`, `RUBY_FL_USHIFT` 12).
const fn user(n: u32) -> u64 {
    1 << (12 + n)
}

/// The kind of an internal object (internal/imemo.h: `(flags >> FL_USHIFT) & 0xf`).
const IMEMO_MASK: u64 = 0xf << 12;

const OBJECT: u8 = 0x01;
const CLASS: u8 = 0x02;
const MODULE: u8 = 0x03;
const STRING: u8 = 0x05;
const REGEXP: u8 = 0x06;
const ARRAY: u8 = 0x07;
const HASH: u8 = 0x08;
const STRUCT: u8 = 0x09;
const BIGNUM: u8 = 0x0a;
const FILE: u8 = 0x0b;
const DATA: u8 = 0x0c;
const MATCH: u8 = 0x0d;
const IMEMO: u8 = 0x1a;
const ICLASS: u8 = 0x1c;

/// `struct st_table` (include/ruby/st.h), the same from 2.7 to 4.0: `bins` and `entries`.
const ST_TABLE: Follow =
    Follow::Into(&Struct { bytes: 56, fields: Fields::At(&[(24, Follow::Leaf), (48, Follow::Leaf)]) });
/// A table whose values are Ruby objects (methods).
const ID_TABLE: Follow = Follow::Into(&Struct { bytes: 24, fields: Fields::IdTable(Follow::Leaf) });
/// A table of `struct rb_class_cc_entries` (vm_callinfo.h, 3.0 to 3.4), each with its `entries`.
const CALL_CACHES: Follow = Follow::Into(&Struct {
    bytes: 24,
    fields: Fields::IdTable(Follow::Into(&Struct { bytes: 24, fields: Fields::At(&[(16, Follow::Leaf)]) })),
});
/// `struct rmatch` (include/ruby/re.h, up to 3.2): `regs.beg`, `regs.end`, `char_offset`.
const RMATCH: Follow = Follow::Into(&Struct {
    bytes: 32,
    fields: Fields::At(&[(8, Follow::Leaf), (16, Follow::Leaf), (24, Follow::Leaf)]),
});
/// `struct rb_io` (include/ruby/io.h up to 3.4, internal/io.h): `wbuf`, `rbuf` and `cbuf`, packed, and two converters.
const IO: Follow = Follow::Into(&Struct {
    bytes: 168,
    fields: Fields::At(&[
        (48, Follow::Leaf),
        (68, Follow::Leaf),
        (128, Follow::Leaf),
        (136, Follow::Leaf),
        (160, Follow::Leaf),
    ]),
});
/// `struct re_pattern_buffer` (include/ruby/onigmo.h): `p`, `repeat_range`, `name_table`, `exact`, `int_map`s.
const PATTERN: Follow = Follow::Into(&Struct {
    bytes: 424,
    fields: Fields::At(&[
        (0, Follow::Leaf),
        (64, Follow::Leaf),
        (88, ST_TABLE),
        (136, Follow::Leaf),
        (408, Follow::Leaf),
        (416, Follow::Leaf),
    ]),
});

/// A pointer regardless of the flags.
const fn always(code: u8, at: usize, follow: Follow) -> Rule {
    Rule { code, mask: 0, value: 0, at, follow: Some(follow) }
}

/// A pointer if all of `flags` are set.
const fn with(code: u8, flags: u64, at: usize, follow: Follow) -> Rule {
    Rule { code, mask: flags, value: flags, at, follow: Some(follow) }
}

/// A pointer if none of `flags` is set.
const fn without(code: u8, flags: u64, at: usize, follow: Follow) -> Rule {
    Rule { code, mask: flags, value: 0, at, follow: Some(follow) }
}

/// A pointer in an internal object of this kind.
const fn imemo(kind: u64, at: usize, follow: Follow) -> Rule {
    Rule { code: IMEMO, mask: IMEMO_MASK, value: kind << 12, at, follow: Some(follow) }
}

/// The rules that did not change from 2.7 to 4.0.
const COMMON: &[Rule] = &[
    // include/ruby/internal/core/rstring.h: RSTRING_NOEMBED, as.heap.ptr
    with(STRING, user(1), 24, Follow::Leaf),
    // include/ruby/internal/core/rarray.h: RARRAY_EMBED_FLAG, as.heap.ptr
    without(ARRAY, user(1), 32, Follow::Leaf),
    // internal/bignum.h: BIGNUM_EMBED_FLAG, as.heap.digits
    without(BIGNUM, user(2), 24, Follow::Leaf),
    // include/ruby/internal/core/rfile.h: fptr
    always(FILE, 16, IO),
    // include/ruby/internal/core/rregexp.h: ptr
    always(REGEXP, 16, PATTERN),
    // include/ruby/internal/core/rtypeddata.h and rdata.h: data. From 3.3 on the structure may be embedded in
    // the slot (TYPED_DATA_EMBEDDED), starting where `data` was, with pointers of its own.
    Rule { code: DATA, mask: 0, value: 0, at: 32, follow: None },
    // internal/imemo.h, vm_core.h: env, rb_method_entry_t.def
    imemo(0, 24, Follow::Leaf),
    imemo(6, 16, Follow::Leaf),
];

/// Structs of up to three members lie in the slot: internal/struct.h, RSTRUCT_EMBED_LEN_MASK (up to 3.2).
const STRUCT_2_7: Rule = without(STRUCT, user(1) | user(2), 24, Follow::Leaf);
/// The same with a mask of seven bits (from 3.3 on).
const STRUCT_3_3: Rule = without(STRUCT, 0x7f << 13, 24, Follow::Leaf);
/// include/ruby/internal/core/robject.h: ROBJECT_EMBED, as.heap.ivptr behind `numiv` (up to 3.1).
const OBJECT_2_7: Rule = without(OBJECT, user(1), 24, Follow::Leaf);
/// The same without `numiv` (3.2 to 3.4).
const OBJECT_3_2: Rule = without(OBJECT, user(1), 16, Follow::Leaf);
/// internal/hash.h: RHASH_ST_TABLE_FLAG, as.st or as.ar (up to 3.2).
const HASH_2_7: [Rule; 2] = [with(HASH, user(3), 16, ST_TABLE), without(HASH, user(3), 16, Follow::Leaf)];
/// From 3.3 on the table lies in the slot after `struct RHash` (24 bytes): bins, entries.
const HASH_3_3: [Rule; 2] =
    [with(HASH, user(3), 24 + 24, Follow::Leaf), with(HASH, user(3), 24 + 48, Follow::Leaf)];
/// include/ruby/re.h: rmatch (up to 3.2).
const MATCH_2_7: Rule = always(MATCH, 24, RMATCH);
/// internal/re.h: `rb_matchext_t` in the slot after `struct RMatch`, which is 32 bytes: beg, end,
/// char_offset.
const MATCH_3_3: [Rule; 3] = [
    always(MATCH, 32 + 8, Follow::Leaf),
    always(MATCH, 32 + 16, Follow::Leaf),
    always(MATCH, 32 + 24, Follow::Leaf),
];
/// internal/imemo.h: rb_imemo_tmpbuf_t.ptr (up to 3.4).
const TMPBUF: Rule = imemo(8, 16, Follow::Leaf);

/// `rb_iseq_t.body` (vm_core.h) and the bytes of `struct rb_iseq_constant_body`, nearly all of whose pointers
/// own memory.
const fn iseq(body: &'static Struct) -> Rule {
    imemo(7, 16, Follow::Into(body))
}

/// Classes, modules and included modules alike.
const CLASSES: [u8; 3] = [CLASS, MODULE, ICLASS];

/// `RClass.ptr` (internal/class.h, up to 3.1) at 24 points to `struct rb_classext_struct`: iv_index_tbl,
/// iv_tbl, m_tbl, const_tbl, callable_m_tbl, then the version's own tables (cc_tbl, cvc_tbl), then subclass
/// entries.
const EXT_2_7: Struct = Struct {
    bytes: 48,
    fields: Fields::At(&[
        (0, ST_TABLE),
        (8, ST_TABLE),
        (16, ID_TABLE),
        (24, ID_TABLE),
        (32, ID_TABLE),
        (40, Follow::Leaf),
    ]),
};
const EXT_3_0: Struct = Struct {
    bytes: 56,
    fields: Fields::At(&[
        (0, ST_TABLE),
        (8, ST_TABLE),
        (16, ID_TABLE),
        (24, ID_TABLE),
        (32, ID_TABLE),
        (40, CALL_CACHES),
        (48, Follow::Leaf),
    ]),
};
const EXT_3_1: Struct = Struct {
    bytes: 80,
    fields: Fields::At(&[
        (0, ST_TABLE),
        (8, ST_TABLE),
        (16, ID_TABLE),
        (24, ID_TABLE),
        (32, ID_TABLE),
        (40, CALL_CACHES),
        (48, ID_TABLE),
        (56, Follow::Leaf),
        (64, Follow::Leaf),
        (72, Follow::Leaf),
    ]),
};
/// From 3.2 on `rb_classext_t` lies in the slot. 3.2 to 3.4 (internal/class.h): m_tbl at 24, then at 32 iv_ptr,
/// const_tbl, callable_m_tbl, cc_tbl, cvc_tbl, superclass_depth, superclasses, subclasses, two subclass entries.
const CLASS_3_2: [(usize, Follow); 10] = [
    (24, ID_TABLE),
    (32, Follow::Leaf),
    (40, ID_TABLE),
    (48, ID_TABLE),
    (56, CALL_CACHES),
    (64, ID_TABLE),
    (80, Follow::Leaf),
    (88, Follow::Leaf),
    (96, Follow::Leaf),
    (104, Follow::Leaf),
];
/// 4.0 (internal/class.h): the extension lies at 24; its instance variables, call caches and class variable
/// caches are separate objects.
const CLASS_4_0: [(usize, Follow); 7] = [
    (24 + 24, ID_TABLE),
    (24 + 32, ID_TABLE),
    (24 + 40, ID_TABLE),
    (24 + 64, Follow::Leaf),
    (24 + 72, Follow::Leaf),
    (24 + 80, Follow::Leaf),
    (24 + 88, Follow::Leaf),
];

/// `struct rb_iseq_constant_body` (vm_core.h) up to the fields of just-in-time compilers:
/// `mandatory_only_iseq`, before 3.1 `outer_variables`, and in 2.7 `mark_ary`.
const BODY_2_7: Struct = Struct { bytes: 240, fields: Fields::Every };
const BODY_3_0: Struct = Struct { bytes: 264, fields: Fields::Every };
const BODY_3_1: Struct = Struct { bytes: 280, fields: Fields::Every };
const BODY_3_2: Struct = Struct { bytes: 288, fields: Fields::Every };
const BODY_3_4: Struct = Struct { bytes: 296, fields: Fields::Every };
const BODY_4_0: Struct = Struct { bytes: 304, fields: Fields::Every };

/// Combines the rules common to all versions with a version's own.
fn with_common(own: &[&[Rule]]) -> Vec<Rule> {
    [COMMON, &own.concat()].concat()
}

/// Creates rules for the same fields in classes, modules and their proxies.
fn classes(at: &[(usize, Follow)]) -> Vec<Rule> {
    let rule = |code| at.iter().map(move |&(at, follow)| always(code, at, follow));
    CLASSES.into_iter().flat_map(rule).collect()
}

fn class_extension(extension: &'static Struct) -> Vec<Rule> {
    classes(&[(24, Follow::Into(extension))])
}

pub(super) fn of_2_7() -> Vec<Rule> {
    let own = [STRUCT_2_7, OBJECT_2_7, MATCH_2_7, TMPBUF, iseq(&BODY_2_7)];
    with_common(&[&own, &HASH_2_7, &class_extension(&EXT_2_7)])
}

pub(super) fn of_3_0() -> Vec<Rule> {
    let own = [STRUCT_2_7, OBJECT_2_7, MATCH_2_7, TMPBUF, iseq(&BODY_3_0)];
    with_common(&[&own, &HASH_2_7, &class_extension(&EXT_3_0)])
}

pub(super) fn of_3_1() -> Vec<Rule> {
    let own = [STRUCT_2_7, OBJECT_2_7, MATCH_2_7, TMPBUF, iseq(&BODY_3_1)];
    with_common(&[&own, &HASH_2_7, &class_extension(&EXT_3_1)])
}

pub(super) fn of_3_2() -> Vec<Rule> {
    let own = [STRUCT_2_7, OBJECT_3_2, MATCH_2_7, TMPBUF, iseq(&BODY_3_2)];
    with_common(&[&own, &HASH_2_7, &classes(&CLASS_3_2)])
}

pub(super) fn of_3_3() -> Vec<Rule> {
    let own = [STRUCT_3_3, OBJECT_3_2, TMPBUF, iseq(&BODY_3_2)];
    with_common(&[&own, &HASH_3_3, &MATCH_3_3, &classes(&CLASS_3_2)])
}

pub(super) fn of_3_4() -> Vec<Rule> {
    let own = [STRUCT_3_3, OBJECT_3_2, TMPBUF, iseq(&BODY_3_4)];
    with_common(&[&own, &HASH_3_3, &MATCH_3_3, &classes(&CLASS_3_2)])
}

/// include/ruby/internal/core/robject.h: ROBJECT_HEAP; internal/imemo.h: tmpbuf, imemo_fields (13).
pub(super) fn of_4_0() -> Vec<Rule> {
    let own = [
        STRUCT_3_3,
        with(OBJECT, user(4), 16, Follow::Leaf),
        imemo(8, 8, Follow::Leaf),
        Rule { mask: IMEMO_MASK | user(4), value: 13 << 12 | user(4), ..imemo(13, 16, Follow::Leaf) },
        iseq(&BODY_4_0),
    ];
    with_common(&[&own, &HASH_3_3, &MATCH_3_3, &classes(&CLASS_4_0)])
}
