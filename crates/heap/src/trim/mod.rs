//! Returns freed memory of a live process, through its allocator's own release call.
//!
//! | module | concept |
//! |---|---|
//! | [`release`] | the function to call in each allocator, and its arguments |
//!
//! [`unbloat_process::remote`] calls functions in another process; the reasons why it is safe to call *these*
//! are given here and in `docs/method/trim.md`.

pub mod release;

use crate::allocators::{LiveAllocator, Look, Prediction};
use crate::model::AllocatorKind;
use release::Release;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use unbloat_process::{
    Error, Kind, LiveMemory, Maps, Pid, Pinned, ResidentOnly, Result, Rollup, Status, Stopping, look_at,
    status,
};
use unbloat_untrusted::Untrusted;

/// Options of a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Predict, and touch nothing.
    pub dry_run: bool,
    /// Maximum time to look for a thread to borrow.
    pub timeout: Duration,
    /// The user takes responsibility for the host's init and for system call filters.
    pub trusted: bool,
}

/// The outcome for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The release call was made.
    Trimmed,
    /// The release call has begun, and the borrowed thread was left to finish it unattended.
    LeftAlone,
    /// There was nothing to return, so nothing was done.
    NothingToTrim,
    /// It could not be done safely, so nothing was done.
    Refused,
    /// No release call of its allocator is known, so nothing was done.
    Unsupported,
}

/// The trim of one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Trim {
    /// The process.
    pub pid: Pid,
    /// Its command line.
    pub command: Untrusted,
    /// Its allocator.
    pub allocator: AllocatorKind,
    /// Bytes that the release call is predicted to return, from the arenas; absent if the heap was not
    /// walked.
    pub predicted_bytes: Option<u64>,
    /// RSS before it.
    pub rss_before_bytes: u64,
    /// RSS after it; absent when nothing was done.
    pub rss_after_bytes: Option<u64>,
    /// Time for which the one thread was stopped. No other thread is stopped. Absent if nothing was done.
    pub paused: Option<Duration>,
    /// Time for which it was away from its system call.
    pub borrowed: Option<Duration>,
    /// The thread, and the system call it was borrowed from.
    pub thread: Option<(Pid, &'static str)>,
    /// Number of failed attempts to borrow a thread.
    pub retries: u32,
    /// The outcome; absent for a dry run that found something to return.
    pub outcome: Option<Outcome>,
    /// The reason why nothing was done, or the limits of the prediction.
    pub reason: Option<String>,
}

impl Trim {
    /// Returns RSS before − RSS after: the memory returned to the kernel, less what the program took
    /// meanwhile.
    #[must_use]
    pub fn returned_bytes(&self) -> Option<u64> {
        Some(self.rss_before_bytes.saturating_sub(self.rss_after_bytes?))
    }

    fn done(mut self, outcome: Outcome, reason: impl Into<Option<String>>) -> Self {
        self.outcome = Some(outcome);
        self.reason = reason.into();
        self
    }
}

/// Trims one process.
///
/// # Errors
/// The process is gone or may not be inspected. A trim that is unsafe or impossible is not an error but an
/// [`Outcome`].
pub fn trim(pid: Pid, options: &Options) -> Result<Trim> {
    let state = Status::of(pid)?;
    let mut trim = Trim {
        pid,
        command: status::command(pid)?,
        allocator: AllocatorKind::Unknown,
        predicted_bytes: None,
        rss_before_bytes: state.rss_bytes.unwrap_or(0),
        rss_after_bytes: None,
        paused: None,
        borrowed: None,
        thread: None,
        retries: 0,
        outcome: None,
        reason: None,
    };
    match state.kind {
        Kind::Program => {}
        Kind::KernelThread => {
            return Ok(trim.done(Outcome::Unsupported, "a kernel thread has no memory".to_owned()));
        }
        Kind::Zombie => {
            return Ok(
                trim.done(Outcome::Unsupported, "it has ended, and its memory has been returned".to_owned())
            );
        }
    }
    if let Some(reason) = refused_at_once(pid, options)? {
        return Ok(trim.done(Outcome::Refused, reason));
    }
    let pinned = Pinned::open(pid)?;
    let survey = look_at(&pinned, Stopping::Never, |pinned| Survey::of(pinned, options.dry_run))?;
    trim.allocator = survey.allocator;
    trim.predicted_bytes = survey.predicted_bytes;
    trim.reason = survey.reason;
    match survey.next {
        Next::Done(outcome) => {
            trim.outcome = Some(outcome);
            Ok(trim)
        }
        Next::Tell => Ok(trim),
        Next::Call(prepared) => call(trim, *prepared, &pinned, options),
    }
}

/// The findings of the confined child before a trim: everything needed from the target's structures.
#[derive(Debug, Serialize, Deserialize)]
struct Survey {
    allocator: AllocatorKind,
    predicted_bytes: Option<u64>,
    reason: Option<String>,
    next: Next,
}

/// The next step that follows from the findings.
#[derive(Debug, Serialize, Deserialize)]
enum Next {
    /// Nothing more is done.
    Done(Outcome),
    /// Report the prediction, since this is a dry run.
    Tell,
    /// Make the release call.
    Call(Box<Prepared>),
}

impl Survey {
    fn of(pinned: &Pinned, dry_run: bool) -> Result<Self> {
        let pid = pinned.pid();
        let memory = LiveMemory::of_pinned(pinned)?;
        let maps = Maps::of(pid)?;
        let found = LiveAllocator::of(pid, &maps, &ResidentOnly::new(&memory));
        let allocator = found.allocator.kind;
        let mut survey = Survey { allocator, predicted_bytes: None, reason: None, next: Next::Tell };
        let release = match Release::of(pid, &maps, &found) {
            Ok(release) => release,
            Err(unsupported) => return Ok(survey.done(Outcome::Unsupported, unsupported.to_string())),
        };
        let look = Look { pid, memory: &memory, maps: &maps, claims: &[], stop: false };
        if let Some(prediction) = predict(&found, &look)? {
            if let Some(damage) = prediction.damage {
                return Ok(survey.done(Outcome::Refused, damage));
            }
            survey.predicted_bytes = Some(prediction.bytes);
            survey.reason = prediction.rough;
        }
        if survey.predicted_bytes == Some(0) {
            return Ok(survey.done(Outcome::NothingToTrim, None));
        }
        if dry_run {
            return Ok(survey);
        }
        Ok(match Prepared::of(&release, &memory) {
            Ok(prepared) => Survey { next: Next::Call(Box::new(prepared)), ..survey },
            Err((outcome, why)) => survey.done(outcome, why),
        })
    }

    fn done(mut self, outcome: Outcome, reason: impl Into<Option<String>>) -> Self {
        self.next = Next::Done(outcome);
        self.reason = reason.into();
        self
    }
}

/// Predicts the effect of the live allocator's release call; `None` if its heap is not walked.
fn predict(live: &LiveAllocator, look: &Look<'_>) -> Result<Option<Prediction>> {
    let heaps = live.heaps(look.pid, look.maps, look.memory)?;
    let mut heaps = heaps.iter().filter(|heap| heap.kind() == live.allocator.kind);
    heaps.next().map(|heap| heap.predict(look)).transpose()
}

/// Returns the exact RSS. From Linux 6.2 to 6.16 the cheap counter may be off by many pages per processor
/// (`percpu_counter_read_positive`), so the page tables are read there.
fn resident_bytes(pid: Pid) -> Result<u64> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if ((6, 2)..(6, 17)).contains(&version) {
        return Ok(Rollup::of(pid)?.rss_bytes);
    }
    Status::of(pid)?.rss_bytes.ok_or(Error::Gone { pid })
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{
        AllocatorKind, Deserialize, Error, LiveMemory, Maps, Options, Outcome, Pid, Pinned, Release, Result,
        Serialize, Stopping, Trim, look_at, resident_bytes,
    };
    use crate::allocators::glibc::locks::ArenaLocks;
    use crate::allocators::{Release as ReleaseMethod, ReleaseCall};
    use unbloat_process::remote::{self, Call, Gadgets, Host, Refusal, Returned, Safety, Unwinder};

    pub(super) fn refused_at_once(pid: Pid, options: &Options) -> Result<Option<String>> {
        reason_of(remote::preflight(pid, options.trusted).err())
    }

    /// Returns a refusal's text as an outcome. It is an error if the process is gone or may not be touched.
    fn reason_of(refusal: Option<Refusal>) -> Result<Option<String>> {
        match refusal {
            None => Ok(None),
            Some(Refusal::Process(error)) => Err(error),
            Some(refusal) => Ok(Some(refusal.to_string())),
        }
    }

    /// Everything needed from the target's structures for a release call.
    #[derive(Debug, Serialize, Deserialize)]
    pub(super) struct Prepared {
        call: Call,
        gadgets: Gadgets,
        locks: Option<ArenaLocks>,
    }

    impl Prepared {
        pub(super) fn of(release: &Release, memory: &LiveMemory) -> Result<Self, (Outcome, String)> {
            let gadgets =
                release.gadgets(memory).map_err(|unknown| (Outcome::Unsupported, unknown.to_string()))?;
            let locks = release.locks(memory).map_err(|why| (Outcome::Refused, why.to_string()))?;
            Ok(Prepared { call: release.call.clone(), gadgets, locks })
        }
    }

    pub(super) fn call(
        mut trim: Trim,
        prepared: Prepared,
        pinned: &Pinned,
        options: &Options,
    ) -> Result<Trim> {
        let pid = trim.pid;
        let Prepared { call, gadgets, mut locks } = prepared;
        // Here is nothing that ends a walk: only single words of the target are read from now on.
        let memory = LiveMemory::at_hand(pinned)?;
        let maps = look_at(pinned, Stopping::Never, |_| Maps::of(pid))?;
        let unwinder = Unwinder::for_call(&call, pinned);
        trim.rss_before_bytes = resident_bytes(pid)?;
        let host = Host { pid, pinned, memory: &memory, maps: &maps, gadgets: &gadgets, unwinder: &unwinder };
        let called = remote::call(&host, &call, options.timeout, || match &mut locks {
            Some(locks) => locks.verdict(&memory),
            None => Safety::Safe,
        });
        match called {
            Ok(borrowed) => {
                trim.rss_after_bytes = Some(resident_bytes(pid)?);
                trim.paused = Some(borrowed.held);
                trim.borrowed = Some(borrowed.borrowed);
                trim.thread = Some((borrowed.thread, borrowed.wait));
                trim.retries = borrowed.retries;
                let predicted = trim.predicted_bytes.is_some();
                let reason =
                    trim.reason.take().or_else(|| unpredicted(trim.allocator).filter(|_| !predicted));
                Ok(match borrowed.returned {
                    Returned::Back => trim.done(Outcome::Trimmed, reason),
                    Returned::LeftAlone(why) => trim.done(Outcome::LeftAlone, why.to_string()),
                })
            }
            Err(Refusal::Ended) => Err(Error::Gone { pid }),
            Err(refusal) => {
                let reason = reason_of(Some(refusal))?;
                Ok(trim.done(Outcome::Refused, reason))
            }
        }
    }

    /// Describes the reach of an allocator's release call where it was not predicted.
    fn unpredicted(allocator: AllocatorKind) -> Option<String> {
        let ReleaseMethod::Call(ReleaseCall { reach, .. }) = &allocator.descriptor()?.release else {
            return None;
        };
        Some(format!("{reach}. A prediction exists only for glibc's malloc and jemalloc"))
    }
}

#[cfg(target_arch = "x86_64")]
use x86_64::{Prepared, call, refused_at_once};

/// Refuses every process where signal frames are unknown.
#[cfg(not(target_arch = "x86_64"))]
fn refused_at_once(_: Pid, options: &Options) -> Result<Option<String>> {
    Ok((!options.dry_run)
        .then(|| "trimming from outside works on x86-64 only so far. A server that is started with `unbloat run` trims itself".to_owned()))
}

#[cfg(not(target_arch = "x86_64"))]
fn call(trim: Trim, _: Prepared, _: &Pinned, _: &Options) -> Result<Trim> {
    Ok(trim)
}

#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug, Serialize, Deserialize)]
struct Prepared;

#[cfg(not(target_arch = "x86_64"))]
impl Prepared {
    fn of(_: &Release, _: &LiveMemory) -> Result<Self, (Outcome, String)> {
        Ok(Prepared)
    }
}
