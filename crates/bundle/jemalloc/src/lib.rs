//! The jemalloc bundled with `unbloat`.
//!
//! There is no Rust here: with the feature `library`, this crate makes cargo build jemalloc 5.3.1 (the crate
//! tikv-jemalloc-sys) as a static archive under its ordinary names, and `crates/bundle` links that archive
//! with `src/ruby.c` into `libunbloat-jemalloc.so`. The unbloat binary itself does not use it.
