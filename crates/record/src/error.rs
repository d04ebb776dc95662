//! Errors of recording, each with the next step.

/// The crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why there is no recording, or why it ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command could not be started.
    #[error("cannot start the command: {0}. Check its name and that it is executable")]
    NotStarted(#[source] std::io::Error),
    /// The kernel cannot create a process or thread.
    #[error("cannot start recording: {0}")]
    Start(#[source] std::io::Error),
    /// A process cannot be recorded.
    #[error(transparent)]
    Process(#[from] unbloat_process::Error),
    /// The file cannot be used.
    #[error(transparent)]
    Store(#[from] unbloat_store::Error),
    /// A thread of the recorder ended because of a defect.
    #[error(
        "the thread that writes the file has crashed. Please report this; the recording is readable up to then"
    )]
    Crashed,
}
