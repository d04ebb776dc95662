//! Pure mathematics: paired comparisons, sequential rules, growth models. No I/O.
//!
//! The unit of every comparison is a *run* on a freshly started process, never a request, because users
//! experience the variation between runs at their next deploy. A run yields one positive number per metric,
//! and runs are compared within blocks.
//!
//! | module | content |
//! |---|---|
//! | [`contrast`] | one variant against the control, paired by block: ratio, interval, p value |
//! | [`decision`] | the rule: use a variant, keep the control, or go on |
//! | [`race`] | an experiment that is looked at after every block |
//! | [`holm`] | correction of p values for several comparisons |
//! | [`looks`] | the part of alpha that each look at a growing experiment may spend |
//! | [`power`] | the power of an experiment of a given size |
//! | [`unpaired`] | two groups of runs that share no blocks |
//! | [`median`] | the median of a few runs |
//! | [`forecast`] | the chance of an answer, and variants that cannot win any more |
//! | [`effort`] | blocks, or less noise, that would decide an open requirement |
//! | [`halving`] | selects the setups that deserve a full comparison |
//! | [`tail`] | a measure of the tail that does not jump |
//! | [`growth`] | the growth of a series over time |

pub mod contrast;
pub mod decision;
pub mod effort;
pub mod forecast;
pub mod growth;
pub mod halving;
pub mod holm;
pub mod looks;
pub mod median;
pub mod power;
pub mod race;
pub mod tail;
pub mod unpaired;
