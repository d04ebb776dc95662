//! Writes to the file on a separate thread, so that neither a slow disk nor another process's lock delays a
//! sample.
//!
//! Everything that has accumulated becomes one transaction. The sampler hands over four times per second, so
//! that a recorder that is killed loses less than the last second. While another process holds a lock on the
//! file, a [`Backlog`] keeps the operations.

use crate::backlog::{Backlog, TooMuch};
use crate::ops::Op;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unbloat_store::{Error, Result, Writer};

/// Number of hand-overs that may wait for a slow disk before the sampler waits too (and counts the looks it
/// misses).
const QUEUE: usize = 64;

/// Maximum wait of one attempt for a lock: the queue must not fill up meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);

/// Maximum wait for a lock at the end of a recording.
const LAST_PATIENCE: Duration = Duration::from_secs(60);

/// The sending end of the queue.
#[derive(Debug)]
pub(crate) struct Out {
    queue: Option<SyncSender<Vec<Op>>>,
    thread: Option<JoinHandle<(Writer, Result<()>)>>,
}

impl Out {
    /// Starts the thread.
    pub(crate) fn start(mut writer: Writer, max_bytes: u64) -> std::io::Result<Self> {
        let (queue, ops) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new().name("writer".into()).spawn(move || {
            let written = write(&mut writer, &ops, max_bytes);
            (writer, written)
        })?;
        Ok(Out { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands over operations. `false`: the writer has failed; [`Out::end`] has the reason.
    pub(crate) fn send(&self, ops: Vec<Op>) -> bool {
        ops.is_empty() || self.queue.as_ref().is_some_and(|queue| queue.send(ops).is_ok())
    }

    /// Waits until everything is written, and returns the file.
    pub(crate) fn end(mut self) -> Option<(Writer, Result<()>)> {
        drop(self.queue.take());
        self.thread.take()?.join().ok()
    }
}

fn write(writer: &mut Writer, ops: &Receiver<Vec<Op>>, max_bytes: u64) -> Result<()> {
    writer.wait_for_locks(PATIENCE)?;
    let mut backlog = Backlog::default();
    // While operations wait, retries happen from time to time even if nothing new arrives.
    while gather(ops, &mut backlog, writer)? {
        attempt(writer, &mut backlog, max_bytes)?;
    }
    writer.wait_for_locks(LAST_PATIENCE)?;
    let deadline = Instant::now() + LAST_PATIENCE;
    while !backlog.is_empty() && Instant::now() < deadline {
        attempt(writer, &mut backlog, max_bytes)?;
    }
    if backlog.is_empty() { Ok(()) } else { Err(Error::Locked { path: writer.path().to_owned() }) }
}

/// Collects what has arrived; `false` if nothing more will come.
fn gather(ops: &Receiver<Vec<Op>>, backlog: &mut Backlog, writer: &Writer) -> Result<bool> {
    let first = if backlog.is_empty() {
        ops.recv().map_err(|_| RecvTimeoutError::Disconnected)
    } else {
        ops.recv_timeout(PATIENCE)
    };
    let came = match first {
        Ok(first) => first.into_iter().chain(ops.try_iter().flatten()).collect(),
        Err(RecvTimeoutError::Timeout) => Vec::new(),
        Err(RecvTimeoutError::Disconnected) => return Ok(false),
    };
    let full = |TooMuch| Error::Locked { path: writer.path().to_owned() };
    backlog.add(came).map_err(full).map(|()| true)
}

/// Writes the backlog; if the file is locked, it stays.
fn attempt(writer: &mut Writer, backlog: &mut Backlog, max_bytes: u64) -> Result<()> {
    match writer.batch(|batch| backlog.iter().try_for_each(|op| op.write(batch))) {
        Ok(()) => {}
        Err(Error::Locked { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    let dropped = backlog.clear();
    if dropped > 0 {
        let gap = format!(
            "another process held a lock on this file: {dropped} rows of readings before this are missing"
        );
        let _ = backlog.add(vec![Op::Mark(writer.elapsed_ns(), gap)]);
    }
    match writer.keep_below(max_bytes) {
        Ok(()) | Err(Error::Locked { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
