//! A recording for people: the live view, the summary, plots, and what grows.

mod cpu;
pub mod growth;
pub mod latency;
pub mod list;
pub mod live;
pub mod plot;
pub mod series;
pub mod summary;
