//! Metrics for Prometheus and whatever speaks its formats.
//!
//! ```text
//! record::monitor ──► snapshot ──► families ──► text ──► server ──► Prometheus
//! ```
//!
//! A scrape reads the latest snapshot of the monitor and waits for nothing: its cost does not depend on the size of the
//! processes.
//!
//! | module | concept |
//! |---|---|
//! | [`metric`] | the metrics: names, types, help. Names are a promise |
//! | [`families`](mod@families) | a snapshot as samples of the metrics |
//! | [`text`] | the two text formats |
//! | [`web_config`] | the file that gives the server TLS and passwords |
//! | `passwords` | basic authentication |
//! | [`server`] | the HTTP server |
//! | [`error`] | errors, with their next steps |

pub mod error;
pub mod families;
pub mod metric;
mod passwords;
pub mod server;
pub mod text;
pub mod web_config;

pub use error::{Error, Result};
pub use families::families;
pub use metric::Metric;
pub use server::Server;
pub use web_config::WebConfig;
