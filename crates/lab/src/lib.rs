//! Experiments: plan, variants, running them, analyzing, recommending.
//!
//! Data flows one way:
//!
//! ```text
//! plan ──► calibration ──► schedule ──► run (server + load + recording + proof) ──► results ──► analysis ──► recommendation
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`plan`] | the plan: server, load, variants, design, rule; read from TOML |
//! | [`variant`] | one configuration: what it adds to the server's command, and the claims that must then hold |
//! | [`library`] | an installed allocator library and its package |
//! | [`init`] | a first plan for an application directory |
//! | [`fitness`] | the machine before an experiment, and conditions that make it unfit |
//! | [`disk_space`] | disk space for an experiment |
//! | [`calibration`] | the rate and length of the runs |
//! | [`schedule`] | blocks: every variant once, the control twice, in random order |
//! | [`experiment`] | the whole experiment: block after block until it is decided or complete |
//! | [`budget`] | the end of an experiment: an answer, a number of blocks, or a time |
//! | [`executor`] | the seam between an experiment and whatever makes its runs |
//! | [`servers`] | runs on real servers |
//! | [`keep`] | supervision of everything that is started |
//! | [`server`] | starts a fresh server, and ends it without leftovers |
//! | [`driver`] | puts the load on a server |
//! | [`cpu`] | CPU shares while a load ran |
//! | [`pressure`] | pressure-stall figures of the kernel |
//! | [`memory`] | the memory of a server's tree during a run |
//! | [`proof`] | the proof that a variant is live |
//! | [`software`] | a server's software: Ruby, glibc, allocator |
//! | [`machine`] | other facts that figures depend on: build, kernel, hardware |
//! | [`result`] | the result of one run, and whether it counts |
//! | [`metric`] | the table of metrics |
//! | [`mod@file`] | the experiment in its recording file |
//! | [`facts`] | the origin of an experiment's runs, and changes in between |
//! | [`trace`] | memory over time of each run, for the charts |
//! | [`analysis`] | contrasts to the control per metric, from runs |
//! | [`demands`] | the plan's rule in the terms of `stats`: the requirements of each variant |
//! | [`warning`] | cautions about an analysis |
//! | [`recommend`] | the answer by the plan's rule |
//! | [`remedy`] | the one change that would decide an experiment |
//! | [`deploy`] | the lines that put a variant into production |
//! | [`tune`] | the search for the best setup, from one plan |
//! | [`versus`] | two experiments beside each other |

pub mod analysis;
pub mod budget;
pub mod calibration;
pub mod cpu;
pub mod demands;
pub mod deploy;
pub mod disk_space;
pub mod driver;
pub mod executor;
pub mod experiment;
pub mod facts;
pub mod file;
pub mod fitness;
pub mod init;
pub mod keep;
pub mod library;
pub mod machine;
pub mod memory;
pub mod metric;
pub mod plan;
pub mod pressure;
pub mod proof;
pub mod recommend;
pub mod remedy;
pub mod result;
pub mod schedule;
pub mod server;
pub mod servers;
pub mod software;
pub mod trace;
pub mod tune;
pub mod variant;
pub mod versus;
pub mod warning;
