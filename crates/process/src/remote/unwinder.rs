//! Asks a confined child whether a stopped thread is inside some code.
//!
//! The call frame information of the target's files is as untrusted as its memory. So a [confined child](crate::sandbox) reads
//! it before any thread is stopped, and unwinds the stacks about which it is asked.

use super::arch::Registers;
use super::call::Call;
use super::stack::Stack;
use super::unwind::{Frame, FrameRules};
use crate::sandbox::servant::Servant;
use crate::sandbox::{Limits, Scope};
use crate::{LiveMemory, Maps, Pinned};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;

/// Maximum time until the child has read the files.
const LOADING: Duration = Duration::from_secs(20);
/// Maximum time to hold a thread for an answer, which takes some 0.1 ms where the child need not wait for a processor.
const PATIENCE: Duration = Duration::from_millis(100);

/// Answers of the child: the thread is proved to be outside, or it is not.
const OUTSIDE: u8 = 1;
const UNKNOWN: u8 = 0;

/// The unwinder of a process's stacks: a confined child that has read its call frame information. Without one, no stack can
/// be unwound.
#[derive(Debug, Default)]
pub struct Unwinder(RefCell<Option<Servant>>);

/// A stopped thread.
#[derive(Debug, Serialize, Deserialize)]
struct Question {
    innermost: Frame,
    stack: Range<u64>,
}

impl Unwinder {
    /// Starts the child that a call needs: none if it forbids no code.
    #[must_use]
    pub fn for_call(call: &Call, pinned: &Pinned) -> Self {
        if call.forbidden.is_empty() { Unwinder::default() } else { Unwinder::of(pinned, &call.forbidden) }
    }

    /// Starts a child that tells whether threads of a process are outside some code, and waits until it is ready. Without
    /// a child that gets ready, no stack can be unwound.
    #[must_use]
    pub fn of(pinned: &Pinned, code: &[Range<u64>]) -> Self {
        let scope = Scope::of(pinned.pid(), pinned.descriptors());
        let servant = Servant::start(&Limits::of_resident(0), &scope, || answers(pinned, code));
        // Any answer will do.
        let ready = servant.ok().and_then(|servant| servant.ask(&[UNKNOWN], LOADING));
        Unwinder(RefCell::new(ready.map(|(_, servant)| servant)))
    }

    /// Returns whether a stopped thread is proved to be outside the code.
    pub(super) fn is_outside(&self, registers: &Registers, stack: &Stack) -> bool {
        let question = Question { innermost: Frame::innermost(registers), stack: stack.range() };
        let Ok(question) = postcard::to_stdvec(&question) else { return false };
        let Some(servant) = self.0.take() else { return false };
        let Some((answer, servant)) = servant.ask(&question, PATIENCE) else { return false };
        *self.0.borrow_mut() = Some(servant);
        answer == OUTSIDE
    }
}

/// Reads the call frame information, in the child; returns what answers there.
fn answers(pinned: &Pinned, code: &[Range<u64>]) -> impl FnMut(&[u8]) -> u8 {
    let pid = pinned.pid();
    let memory = LiveMemory::at_hand(pinned).ok();
    let rules = Maps::of(pid).map(|maps| FrameRules::of(pid, &maps)).unwrap_or_default();
    move |question: &[u8]| {
        let calls = memory.as_ref().and_then(|memory| {
            let Question { innermost, stack } = postcard::from_bytes(question).ok()?;
            rules.calls(innermost, &Stack::read(memory, &stack).ok()?)
        });
        let inside = |at: &u64| code.iter().any(|code| code.contains(at));
        if calls.is_some_and(|calls| !calls.iter().any(inside)) { OUTSIDE } else { UNKNOWN }
    }
}
