//! A recording for people: the live view, the summary, plots, and growth.

#[cfg(test)]
pub(crate) mod fixture;
pub mod growth;
pub(crate) mod label;
mod latency;
pub mod list;
pub mod live;
pub mod plot;
mod rising;
pub mod summary;
