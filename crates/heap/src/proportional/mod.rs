//! The census in proportional bytes: a page mapped by n processes counts 1/n, so that the censuses of
//! processes that share memory can be added up.
//!
//! The kernel reports a process's proportional bytes only by backing, so the shares of the categories have to
//! be derived. There are two methods, and the sum is the PSS in both:
//!
//! | module | input | accuracy per category | used for |
//! |---|---|---|---|
//! | [`by_backing`] | facts known anyhow | assumes that all anonymous memory is equally shared | the recorder, every few seconds |
//! | [`by_page`] | the heap map and one more read of the page map | exact for exclusive memory, right on average for shared memory | `inspect` of several processes |
//!
//! The difference matters for a forked worker: the memory it has freed is mostly its own, while the memory it
//! still shares is mostly live. Where the second method is unavailable (no heap map, a kernel before 5.4, a
//! process that has just ended) the first applies.

pub(crate) mod by_backing;
pub(crate) mod by_page;
