//! The recording file: one SQLite database with provenance, samples, marks, results.
//!
//! Who writes: [`Writer::create`] makes a file and becomes its owner; [`Writer::join`] opens one that another process
//! may be writing (`unbloat mark`, `unbloat bench -o FILE` on a running recording). Everything goes through
//! [`Writer::batch`], one transaction a call:
//!
//! ```no_run
//! use unbloat_store::{Kind, Recording, Sample, Writer, NewProcess};
//! # fn main() -> unbloat_store::Result<()> {
//! let mut writer = Writer::create("app.unbloat".as_ref(), &Recording::begin(Kind::Record))?;
//! writer.batch(|batch| {
//!     batch.provenance(None, "kernel", "6.1.0")?;
//!     let puma = batch.process(&NewProcess { pid: 4711, command: "puma".into(), ..NewProcess::default() })?;
//!     batch.sample(&Sample { process: puma, rss_bytes: Some(1 << 28), ..Sample::default() })?;
//!     batch.mark(1_000_000, "deploy", None)
//! })?;
//! writer.finish(2_000_000, "the command ended", Some(0))
//! # }
//! ```
//!
//! Who reads: [`Reader::open`], then one method a table; memory over the tree is in [`Reader::tree_memory`].
//! Experiments and load drivers write [`Batch::variant`], [`Batch::block`], [`Batch::run`], [`Batch::step`],
//! [`Batch::latency`] (HdrHistogram V2 bytes, nanoseconds) and [`Batch::metric`], and pass the run's id along with
//! the processes and marks that belong to it; a plain recording has no run.
//!
//! | module | concept |
//! |---|---|
//! | [`rows`] | the rows as Rust sees them |
//! | [`writer`] | making a file, writing batches, ending it |
//! | [`reader`] | opening a file whoever wrote it, reading it back |
//! | [`owner`] | whether the recorder of a file is still alive |
//! | [`thin`] | keeping a long recording below a size |
//! | `fold` | counting the processes of which nothing else is left |
//! | [`error`] | what can be wrong with a file, with the next step |
//!
//! The schema is `schema.sql`, explained for users in `docs/reference/recording.md`. It is stable within a major
//! version: columns and tables are added, never renamed or removed.

pub mod error;
mod fold;
pub mod owner;
pub mod reader;
pub mod rows;
pub mod thin;
pub mod writer;

pub use error::{Error, Result};
pub use reader::Reader;
pub use rows::{
    BlockId, CategoryBytes, CgroupMemory, Cost, Counter, Folded, Kind, Latency, Mark, Metric, NewProcess,
    Process, ProcessEnd, ProcessId, Recording, Run, RunId, Sample, Step, StepId, TreeMemory, Variant,
    VariantId,
};
pub use writer::{Batch, Writer};

/// `PRAGMA application_id` of a recording: the bytes `unbl`.
pub const APPLICATION_ID: i32 = i32::from_be_bytes(*b"unbl");

/// `PRAGMA user_version` of a recording: the version of the schema.
pub const SCHEMA_VERSION: i32 = 1;
