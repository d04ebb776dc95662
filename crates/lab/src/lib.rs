//! Experiments: plan, variants, running them, analyzing, recommending.
//!
//! Data flows one way:
//!
//! ```text
//! plan ──► schedule ──► run (server + load + recording + proof) ──► results ──► analysis ──► recommendation
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`plan`] | what is compared: server, load, variants, design, rule; read from TOML |
//! | [`schedule`] | blocks: every variant once, the control twice, in random order |
//! | [`metric`] | what a run is measured by |
//! | [`server`] | starting a fresh server, and ending it so that nothing is left |
//! | [`result`] | what one run yielded, and whether it counts |
//! | [`analysis`] | contrasts to the control per metric, from runs |
//! | [`recommend`] | the answer by the plan's rule |

pub mod analysis;
pub mod file;
pub mod metric;
pub mod plan;
pub mod recommend;
pub mod result;
pub mod schedule;
pub mod server;
pub mod variant;
