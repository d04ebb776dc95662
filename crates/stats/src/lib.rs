//! Pure mathematics: paired comparisons, sequential rules, growth models. No I/O.
//!
//! The unit of every comparison is a *run* on a freshly started process, never a request: the variation between runs is
//! what a user's next deploy will show. A run yields one positive number per metric, and runs are compared within blocks.
//!
//! | module | content |
//! |---|---|
//! | [`contrast`] | one variant against the control, paired by block: ratio, interval, p value |
//! | [`holm`] | correction of p values for several comparisons |
//! | [`power`] | what an experiment of a given size can show |
//! | [`unpaired`] | two groups of runs that share no blocks |
//! | [`median`] | the median of a few runs |
//! | [`growth`] | whether and how a series grows over time |

pub mod contrast;
pub mod growth;
pub mod holm;
pub mod median;
pub mod power;
pub mod unpaired;
