//! Exit statuses, and the single place that prints errors.

use std::io::Write as _;
use std::process::ExitCode;

/// The outcome of a command that did not fail with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The work is done (status 0).
    Done,
    /// Something went wrong (status 1).
    Failed,
    /// The combination of arguments is invalid (status 2); clap reports all other usage errors itself.
    Usage,
    /// The work is done but the answer is no: a requested threshold is exceeded (status 3).
    No,
    /// The status of a command run on the user's behalf.
    Status(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::No => 3,
            Exit::Status(status) => status,
        })
    }
}

/// Returns whether the reader of stdout has gone away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

/// Prints an error with its causes to stderr, on one line, as `unbloat: thing: cause: next step`.
pub(crate) fn report(error: &anyhow::Error) {
    // A closed stderr means that there is no reader.
    let _ = writeln!(std::io::stderr(), "unbloat: {}", in_words(error));
}

/// Joins an error and its causes. Many errors include their cause in their own sentence; it is not repeated.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::in_words;
    use anyhow::{Context as _, anyhow};

    #[test]
    fn a_cause_is_said_once() {
        let plain: anyhow::Result<()> = Err(anyhow!("permission denied")).context("cannot write x");
        assert_eq!(plain.map_err(|e| in_words(&e)), Err("cannot write x: permission denied".to_owned()));
        let quoted: anyhow::Result<()> =
            Err(anyhow!("not found")).context("cannot start x: not found. Check its name").context("no run");
        assert_eq!(
            quoted.map_err(|e| in_words(&e)),
            Err("no run: cannot start x: not found. Check its name".to_owned())
        );
    }
}
