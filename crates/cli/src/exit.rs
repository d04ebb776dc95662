//! Exit statuses, and the one place that prints an error.

use std::io::Write as _;
use std::process::ExitCode;

/// What a command that did not fail has to say to the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The work is done (status 0).
    Done,
    /// Something went wrong (status 1).
    Failed,
    /// The arguments make no sense together (status 2); clap reports the rest itself.
    Usage,
    /// The work is done but the answer is no: a threshold that was asked for is exceeded (status 3).
    No,
    /// The status of a command that was run on the user's behalf.
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

/// Whether the reader of stdout has gone away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    kind == Some(std::io::ErrorKind::BrokenPipe)
}

/// Prints an error with its causes to stderr, on one line, as `unbloat: thing: cause: next step`.
pub(crate) fn report(error: &anyhow::Error) {
    // A closed stderr is nobody's problem: there is no one left to tell.
    let _ = writeln!(std::io::stderr(), "unbloat: {}", in_words(error));
}

/// An error and its causes. Many errors say their cause in the middle of their own sentence: it is not said again.
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
