//! The model of a recording: plain data that a sampler fills, a file keeps and a report shows.
//!
//! Nothing here reads a process, a file or a clock. `unbloat-record` and `unbloat-lab` fill these types,
//! `unbloat-store` maps them to SQL and back, `unbloat-report` renders them. `None` means not known or not
//! sampled.
//!
//! | module | concept |
//! |---|---|
//! | [`id`] | the IDs by which rows refer to each other |
//! | [`header`] | the header of a file: its maker, start and end |
//! | [`process`] | the processes of the recorded tree |
//! | [`sample`] | memory, CPU and faults of a process at one moment; the cost of recording |
//! | [`census`] | the composition of memory by category, with its counters |
//! | [`provenance`] | names of facts about the origin of the figures |
//! | [`mark`] | named moments |
//! | [`recording`] | a whole recording in memory |
//! | [`rubies`] | live memory of Rubies by class and by gem |
//! | [`looks`] | the recorded tree over time |
//! | `cpu` | the CPU of the whole tree up to a moment |
//! | [`growth`] | determines what grows, and whether that is a leak or fragmentation |
//! | [`difference`] | the difference of two looks at live memory |
//! | [`rising`] | determines which classes and whose code grow |
//! | [`experiment`] | variants, blocks, runs, load steps, latencies and figures |

pub mod census;
mod cpu;
pub mod difference;
pub mod experiment;
pub mod growth;
pub mod header;
pub mod id;
pub mod looks;
pub mod mark;
pub mod process;
pub mod provenance;
pub mod recording;
pub mod rising;
pub mod rubies;
pub mod sample;

pub use census::{CategoryBytes, Counter};
pub use experiment::{Latency, Metric, Run, Step, Variant};
pub use header::{Header, Kind, Owner};
pub use id::{BlockId, ProcessId, RunId, StepId, VariantId};
pub use looks::Look;
pub use mark::Mark;
pub use process::{CpuSource, Folded, NewProcess, Process, ProcessEnd};
pub use provenance::Key;
pub use recording::{Censuses, Composition, Recording, StepLatency};
pub use rubies::{ClassBytes, ClassHolder, CodeBytes, HeldBy, Label, PathStep, Rubies};
pub use sample::{CgroupMemory, Cost, Sample, TreeMemory};
