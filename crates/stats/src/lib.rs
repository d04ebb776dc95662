//! Pure mathematics: quantiles with intervals, paired comparisons, growth models. No I/O.
//!
//! The unit of every comparison is a *run* on a freshly started process, never a request: what varies between runs is
//! what a user's next deploy will see. A run yields one positive number per metric; runs are compared within blocks.

pub mod contrast;
pub mod growth;
pub mod holm;
pub mod median;
pub mod power;
pub mod unpaired;
