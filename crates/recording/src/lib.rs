//! The model of a recording: plain data that a sampler fills, a file keeps and a report shows.
//!
//! Nothing here reads a process, a file or a clock. `unbloat-record` and `unbloat-lab` fill these types, `unbloat-store`
//! maps them to SQL and back, `unbloat-report` renders them. `Option` means: not known or not sampled.
//!
//! | module | concept |
//! |---|---|
//! | [`id`] | the numbers by which rows refer to each other |
//! | [`header`] | what a file says about itself: who made it, when, and how it ended |
//! | [`process`] | the processes of the recorded tree |
//! | [`sample`] | memory, CPU and faults of a process at a moment; what recording costs |
//! | [`census`] | what memory is made of, by category, and the counters that come with it |
//! | [`mark`] | named moments |
//! | [`experiment`] | variants, blocks, runs, load steps, latencies and figures |

pub mod census;
pub mod experiment;
pub mod header;
pub mod id;
pub mod mark;
pub mod process;
pub mod sample;

pub use census::{CategoryBytes, Counter};
pub use experiment::{Latency, Metric, Run, Step, Variant};
pub use header::{Header, Kind, Owner};
pub use id::{BlockId, ProcessId, RunId, StepId, VariantId};
pub use mark::Mark;
pub use process::{CpuSource, Folded, NewProcess, Process, ProcessEnd};
pub use sample::{CgroupMemory, Cost, Sample, TreeMemory};
