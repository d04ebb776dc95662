//! The census by proportional bytes: a page that n processes have counts 1/n, so that the censuses of processes that share
//! memory can be added up.
//!
//! The kernel tells a process's proportional bytes only by what backs them, so its categories' shares have to be worked
//! out. There are two ways, and the sum is the PSS in both:
//!
//! | module | takes | says of a category | for whom |
//! |---|---|---|---|
//! | [`by_backing`] | what is known anyhow | its share if all anonymous memory is shared alike | the recorder, every few seconds |
//! | [`by_page`] | the heap map and one more look at the page map | exact for what is not shared, right on average for what is | `inspect` of several processes |
//!
//! The difference matters to a forked worker: what it has freed is mostly its own, what it still shares is mostly live.
//! Where the second cannot be had (no heap map, a kernel before 5.4, a process that has just ended) the first stands.

pub(crate) mod by_backing;
pub(crate) mod by_page;
