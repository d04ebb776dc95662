//! Errors of the exporter, each with its next step.

use std::path::PathBuf;

/// A failure to start the exporter.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}. Choose another address with --listen")]
    Listen {
        /// The address.
        address: String,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// A file of the web configuration cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The web configuration is not what Prometheus' exporters have.
    #[error(
        "{}: {problem}. The format is that of Prometheus' exporters: \
         https://prometheus.io/docs/prometheus/latest/configuration/https/", path.display()
    )]
    WebConfig {
        /// The file.
        path: PathBuf,
        /// The part that is wrong, and why.
        problem: String,
    },
    /// No thread, or no runtime for connections.
    #[error("cannot start the server: {0}")]
    Start(#[source] std::io::Error),
}

/// A result of the exporter.
pub type Result<T> = std::result::Result<T, Error>;
