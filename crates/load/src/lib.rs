//! Load drivers: Action Cable broadcast, HTTP, Sidekiq jobs; schedules; latency histograms.
//!
//! Each driver takes its options, runs in the calling thread and returns figures with distributions, counts
//! and the generator's measurements of itself. None of them prints; a [`Progress`] follows them.
//!
//! | module | concept |
//! |---|---|
//! | [`cable`] | broadcasts over WebSockets |
//! | [`http`] | HTTP requests |
//! | [`jobs`] | Sidekiq jobs |
//! | `document` | the document of `unbloat bench --json`, written and read back |
//! | `options` | errors for invalid options |
//! | `schedule` | the intended times of an open loop |
//! | `clock` | one clock for all times of a run |
//! | `latency` | distributions of times |
//! | `fault` | faults, by class |
//! | `generator` | the generator's measurements of itself |
//! | `progress` | progress reports of a running driver |
//! | `net` | addresses, TLS, the limit of open files |
//! | [`ws`] | WebSocket frames and upgrades |

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
