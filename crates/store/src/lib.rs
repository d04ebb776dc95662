//! The recording file: one SQLite database with provenance, samples, marks, results. Maps the types of
//! `unbloat-recording` to rows and back; no other crate contains SQL.
//!
//! Writing: [`Writer::create`] creates a file and becomes its owner; [`Writer::join`] opens one that another
//! process may be writing (`unbloat mark`, `unbloat bench -o FILE` on a running recording). Everything goes
//! through [`Writer::batch`], one transaction per call:
//!
//! ```no_run
//! use unbloat_recording::{Kind, NewProcess, Sample}; use unbloat_store::{Writer, begin};
//! # fn main() -> unbloat_store::Result<()> {
//! let mut writer = Writer::create("app.unbloat".as_ref(), &begin(Kind::Record))?; writer.batch(|batch| {
//!     batch.provenance(None, "kernel", "6.1.0")?;
//!     let puma = batch.process(&NewProcess { pid: 4711, command: "puma".into(), ..NewProcess::default() })?;
//!     batch.sample(&Sample { process: puma, rss_bytes: Some(1 << 28), ..Sample::default() })?;
//!     batch.mark(1_000_000, "deploy", None)
//! })?; writer.finish(2_000_000, "the command ended", Some(0))
//! # }
//! ```
//!
//! Reading: [`Reader::open`], then one method per table; memory over the tree is in [`Reader::tree_memory`].
//! Experiments and load drivers write [`Batch::variant`], [`Batch::block`], [`Batch::run`], [`Batch::step`],
//! [`Batch::latency`] (HdrHistogram V2 bytes, nanoseconds) and [`Batch::metric`], and pass the run's id along
//! with the processes and marks that belong to it; a plain recording has no run.
//!
//! | module | concept |
//! |---|---|
//! | [`writer`] | creates a file, writes batches, ends it |
//! | [`reader`] | opens a file, whoever wrote it, and reads it back |
//! | [`owner`] | tests whether the recorder of a file is still alive |
//! | [`clock`] | the clocks used by recordings |
//! | [`thin`] | keeps a long recording below a size limit |
//! | `later` | tables that older files lack |
//! | `fold` | counts the processes that have nothing else left |
//! | [`error`] | errors of a file, each with the next step |
//!
//! The schema is `schema.sql`, explained for users in `docs/reference/recording.md`. It is stable within a
//! major version: columns and tables are added, never renamed or removed.

pub mod clock;
pub mod error;
mod fold;
mod later;
pub mod owner;
pub mod reader;
pub mod thin;
pub mod writer;

pub use error::{Error, Result};
pub use reader::Reader;
use unbloat_recording::{Header, Kind};
pub use writer::{Batch, Writer};

/// Creates the header of a recording that starts now and is written by this process.
#[must_use]
pub fn begin(kind: Kind) -> Header {
    Header {
        kind,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_ns: clock::wall_ns(),
        started_monotonic_ns: clock::monotonic_ns(),
        owner: Some(owner::this_process()),
        ended_ns: None,
        end_reason: None,
        exit_status: None,
    }
}

/// `PRAGMA application_id` of a recording: the bytes `unbl`.
pub const APPLICATION_ID: i32 = i32::from_be_bytes(*b"unbl");

/// `PRAGMA user_version` of a recording: the version of the schema.
pub const SCHEMA_VERSION: i32 = 1;
