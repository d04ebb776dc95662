//! Names in a Ruby's memory: texts of strings, symbols, classes, types of extension data.
//!
//! | module | concept |
//! |---|---|
//! | `facts` | locations of names, by version |
//! | `text` | text of strings, in memory and in mapped files |
//! | `tables` | entries of CRuby's hash tables |
//! | `symbols` | the names of IDs |
//! | `classes` | the names of classes and modules |
//! | `data_types` | the names of types wrapped by extensions |
//!
//! The target chooses its names, so they are returned as [`unbloat_untrusted::Untrusted`], cut to
//! [`MAX_NAME_BYTES`].

pub(crate) mod classes;
pub(crate) mod data_types;
pub(crate) mod facts;
pub(crate) mod symbols;
pub(crate) mod tables;
pub(crate) mod text;

/// Maximum bytes of a name.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// `RUBY_FL_USERn` (include/ruby/internal/fl_type.h).
pub(super) const fn user(n: u32) -> u64 {
    1 << (12 + n)
}
