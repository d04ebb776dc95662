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
//! | [`variant`] | one configuration: what it puts in front of the server, what must then be true |
//! | [`library`] | an installed allocator library and its package |
//! | [`init`] | a first plan for an application directory |
//! | [`fitness`] | the machine before an experiment, and what makes it unfit |
//! | [`disk_space`] | room on the disk for what an experiment writes |
//! | [`calibration`] | the rate that the control sustains, and the length of the runs |
//! | [`schedule`] | blocks: every variant once, the control twice, in random order |
//! | [`experiment`] | the whole: block after block until the plan is done, or decided |
//! | [`executor`] | the seam between an experiment and what makes its runs |
//! | [`servers`] | runs on real servers |
//! | [`keep`] | supervision of everything that is started |
//! | [`server`] | starting a fresh server, and ending it so that nothing is left |
//! | [`driver`] | putting the load on a server |
//! | [`cpu`] | who used the machine while a load ran |
//! | [`pressure`] | pressure-stall figures of the kernel |
//! | [`memory`] | the memory of a server's tree during a run |
//! | [`proof`] | the proof that a variant is live |
//! | [`software`] | what a server is made of: Ruby, glibc, allocator |
//! | [`machine`] | what figures depend on besides: build, kernel, hardware |
//! | [`result`] | the result of one run, and whether it counts |
//! | [`metric`] | the table of metrics |
//! | [`mod@file`] | the experiment in its recording file |
//! | [`facts`] | where an experiment's runs come from, and whether it stayed the same |
//! | [`trace`] | memory over time of each run, for the charts |
//! | [`analysis`] | contrasts to the control per metric, from runs |
//! | [`warning`] | cautions about an analysis |
//! | [`recommend`] | the answer by the plan's rule |
//! | [`remedy`] | the one change that would decide an experiment |
//! | [`deploy`] | what to put where, so that a variant is what runs in production |
//! | [`versus`] | two experiments beside each other |

pub mod analysis;
pub mod calibration;
pub mod cpu;
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
pub mod variant;
pub mod versus;
pub mod warning;
