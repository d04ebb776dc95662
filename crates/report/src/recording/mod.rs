//! A recording for people: the live view, the summary, plots, and growth.

pub mod growth;
mod latency;
pub mod list;
pub mod live;
pub mod plot;
pub mod summary;
