//! Pure mathematics: paired comparisons, sequential rules, growth models. No I/O.
//!
//! The unit of every comparison is a *run* on a freshly started process, never a request: the variation between runs is
//! what a user's next deploy will show. A run yields one positive number per metric, and runs are compared within blocks.
//!
//! | module | content |
//! |---|---|
//! | [`contrast`] | one variant against the control, paired by block: ratio, interval, p value |
//! | [`decision`] | the rule: use a variant, keep the control, or go on |
//! | [`holm`] | correction of p values for several comparisons |
//! | [`looks`] | what each look at a growing experiment may spend of alpha |
//! | [`power`] | what an experiment of a given size can show |
//! | [`unpaired`] | two groups of runs that share no blocks |
//! | [`median`] | the median of a few runs |
//! | [`forecast`] | the chance of an answer, and variants that cannot win any more |
//! | [`remedy`] | the change that would decide an open requirement, and its price |
//! | [`halving`] | which of many set-ups deserve a full comparison |
//! | [`tail`] | a measure of the tail that does not jump |
//! | [`growth`] | whether and how a series grows over time |

pub mod contrast;
pub mod decision;
pub mod forecast;
pub mod growth;
pub mod halving;
pub mod holm;
pub mod looks;
pub mod median;
pub mod power;
pub mod remedy;
pub mod tail;
pub mod unpaired;
