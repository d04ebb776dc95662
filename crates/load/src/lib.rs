//! Load drivers: Action Cable broadcast, HTTP, Sidekiq jobs; schedules; latency histograms.
//!
//! Each driver takes a plan, runs it in the calling thread and returns an outcome with distributions, counts and the
//! generator's own account: [`cable`], [`http`], [`jobs`]. None of them prints; a [`Progress`] follows them.

pub mod cable;
mod clock;
mod document;
mod fault;
mod generator;
pub mod http;
pub mod jobs;
mod latency;
mod net;
mod options;
mod progress;
mod schedule;
pub mod ws;

pub use document::{BenchDocument, BenchRun, CableRun, HttpRun, JobsRun, OpenLoopSettings};
pub use fault::{Fault, Faults};
pub use generator::Generator;
pub use latency::{Latency, Summary, Times};
pub use net::limit::FileLimit;
pub use net::target::TargetError;
pub use net::tls::{Trust, TrustError};
pub use options::OptionsError;
pub use progress::{Live, Progress, Silent};
pub use schedule::{Arrivals, OpenLoop};
