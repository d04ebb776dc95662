//! A confined child that answers questions until it is dropped.
//!
//! For what is asked while a thread of the target is stopped: starting a child only then would hold the thread for longer.
//! Question and answer are one message each, small enough that a pipe takes it at once.

use super::parent::Child;
use super::{GaveUp, Limits, Scope, child};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

/// Maximum length of a question: what an empty pipe takes without blocking, as a whole (`PIPE_BUF`, pipe(7)).
const MAX_QUESTION: usize = 4096;

/// A confined child that answers questions. It is killed when dropped.
#[derive(Debug)]
pub(crate) struct Servant {
    questions: PipeWriter,
    answers: PipeReader,
    _child: Child,
}

impl Servant {
    /// Starts a child that gets ready by `begin` and then answers with what that returns.
    ///
    /// # Errors
    /// It could not be started. That it failed to get ready shows in its answers.
    pub(crate) fn start<A: FnMut(&[u8]) -> u8>(
        limits: &Limits,
        scope: &Scope<'_>,
        begin: impl FnOnce() -> A,
    ) -> Result<Self, GaveUp> {
        let (inbox, questions) = std::io::pipe()?;
        let (answers, outbox) = std::io::pipe()?;
        // Nobody reads its last words.
        let (_, error_outbox) = std::io::pipe()?;
        let parent = nix::unistd::getpid();
        let mut scope = scope.clone();
        scope.descriptors.push(inbox.as_fd());
        child::prepare();
        // SAFETY: as in `super::run`.
        match unsafe { nix::unistd::fork() }.map_err(std::io::Error::from)? {
            nix::unistd::ForkResult::Child => {
                child::live(parent, limits, &scope, outbox.as_fd(), error_outbox.as_fd(), || {
                    serve(&inbox, &outbox, begin());
                })
            }
            nix::unistd::ForkResult::Parent { child } => {
                Ok(Servant { questions, answers, _child: Child::of(child) })
            }
        }
    }

    /// Asks, and waits for the answer; `None` if there is none in time, and from then on.
    pub(crate) fn ask(self, question: &[u8], patience: Duration) -> Option<(u8, Self)> {
        if question.len() > MAX_QUESTION || (&self.questions).write(question).ok()? != question.len() {
            return None;
        }
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            // Rounded up, because a timeout of 0 would return without waiting.
            let left = PollTimeout::try_from(left + Duration::from_millis(1)).ok()?;
            match poll(&mut [PollFd::new(self.answers.as_fd(), PollFlags::POLLIN)], left) {
                Err(Errno::EINTR) if Instant::now() < deadline => {}
                Ok(1..) => break,
                _ => return None,
            }
        }
        let mut answer = [0];
        // Readable or at its end, so this does not block.
        (&self.answers).read_exact(&mut answer).ok()?;
        Some((answer[0], self))
    }
}

/// Answers one question after the other, until nobody can ask any more.
fn serve(mut inbox: &PipeReader, mut outbox: &PipeWriter, mut answer: impl FnMut(&[u8]) -> u8) {
    let mut question = [0; MAX_QUESTION];
    while let Ok(len @ 1..) = inbox.read(&mut question) {
        let asked = question.get(..len).unwrap_or_default();
        if outbox.write_all(&[answer(asked)]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn limits() -> Limits {
        Limits::of_resident(0)
    }

    #[test]
    fn questions_are_answered_one_by_one() {
        let mut asked = 0;
        let count = move |question: &[u8]| {
            asked += 1;
            asked + question[0]
        };
        let servant = Servant::start(&limits(), &Scope::default(), || count).unwrap();
        let (first, servant) = servant.ask(&[10], PATIENCE).unwrap();
        let (second, servant) = servant.ask(&[20; MAX_QUESTION], PATIENCE).unwrap();
        assert_eq!((first, second), (11, 22));
        assert!(servant.ask(&[0; MAX_QUESTION + 1], PATIENCE).is_none());
    }

    #[test]
    fn one_that_fails_or_takes_too_long_gives_no_answer() {
        let start =
            |answer: fn(&[u8]) -> u8| Servant::start(&limits(), &Scope::default(), || answer).unwrap();
        assert!(start(|_| std::process::abort()).ask(&[1], PATIENCE).is_none());
        let sleeping: fn(&[u8]) -> u8 = |_| {
            std::thread::sleep(PATIENCE);
            0
        };
        assert!(start(sleeping).ask(&[1], Duration::from_millis(20)).is_none());
    }
}
