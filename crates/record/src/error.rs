//! Errors of recording, each with the next step.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// There is no recording, or it ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command could not be started.
    #[error("cannot start the command: {0}. Check its name and that it is executable")]
    NotStarted(#[source] std::io::Error),
    /// The kernel gives us no process or thread.
    #[error("cannot start recording: {0}")]
    Start(#[source] std::io::Error),
    /// A process that cannot be recorded.
    #[error(transparent)]
    Process(#[from] unbloat_process::Error),
    /// The file.
    #[error(transparent)]
    Store(#[from] unbloat_store::Error),
    /// A thread of the recorder ended by a defect.
    #[error(
        "the thread that writes the file has crashed. Please report this; the recording is readable up to then"
    )]
    Crashed,
}
