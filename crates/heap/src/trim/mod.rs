//! Giving freed memory back in a live process, through its allocator's own release call.
//!
//! | module | concept |
//! |---|---|
//! | [`release`] | which function of which allocator is called, and with what |
//!
//! How a function is called in another process is [`unbloat_process::remote`]'s business; why it is safe to call *these*
//! is told here and in `docs/method/trim.md`.

pub mod release;

use crate::allocators::{LiveAllocator, Look, Prediction};
use crate::model::AllocatorKind;
use release::Release;
use std::time::Duration;
use unbloat_process::{Error, Kind, LiveMemory, Maps, Pid, ResidentOnly, Result, Rollup, Status, status};

/// How to trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Predict, and touch nothing.
    pub dry_run: bool,
    /// How long to look for a thread that can be borrowed.
    pub timeout: Duration,
    /// The user vouches for the host's init and for system call filters.
    pub trusted: bool,
}

/// What became of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The release call was made.
    Trimmed,
    /// There was nothing to return, so nothing was done.
    NothingToTrim,
    /// It could not be done safely, so nothing was done.
    Refused,
    /// Its allocator has no release call that is known, so nothing was done.
    Unsupported,
}

/// One process's trim.
#[derive(Debug, Clone, PartialEq)]
pub struct Trim {
    /// The process.
    pub pid: Pid,
    /// Its command line.
    pub command: String,
    /// Its allocator.
    pub allocator: AllocatorKind,
    /// What the release call returns, as the arenas say; only for glibc.
    pub predicted_bytes: Option<u64>,
    /// RSS before it.
    pub rss_before_bytes: u64,
    /// RSS after it; absent when nothing was done.
    pub rss_after_bytes: Option<u64>,
    /// How long the one thread was held still. No other thread is stopped. Absent when nothing was done.
    pub paused: Option<Duration>,
    /// How long it was away from its system call.
    pub borrowed: Option<Duration>,
    /// The thread, and the system call that it was borrowed from.
    pub thread: Option<(Pid, &'static str)>,
    /// Attempts to borrow a thread that came to nothing.
    pub retries: u32,
    /// What became of it; absent for a dry run that found something to return.
    pub outcome: Option<Outcome>,
    /// Why nothing was done, or what the prediction does not know.
    pub reason: Option<String>,
}

impl Trim {
    /// RSS before − RSS after: what the kernel got back, less what the program took meanwhile.
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
/// The process is gone or may not be looked at. What is not safe or not possible is no error but an [`Outcome`].
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
            return Ok(trim.done(Outcome::Unsupported, "a thread of the kernel has no memory".to_owned()));
        }
        Kind::Zombie => {
            return Ok(trim.done(Outcome::Unsupported, "it has ended; its memory is returned".to_owned()));
        }
    }
    if let Some(reason) = refused_at_once(pid, options)? {
        return Ok(trim.done(Outcome::Refused, reason));
    }
    let memory = LiveMemory::of(pid)?;
    let maps = Maps::of(pid)?;
    let found = LiveAllocator::of(pid, &maps, &ResidentOnly::new(&memory));
    trim.allocator = found.allocator.kind;
    let release = match Release::of(pid, &maps, &found) {
        Ok(release) => release,
        Err(unsupported) => return Ok(trim.done(Outcome::Unsupported, unsupported.to_string())),
    };
    let look = Look { pid, memory: &memory, maps: &maps, claims: &[], stop: false };
    if let Some(prediction) = predict(&found, &look)? {
        if let Some(damage) = prediction.damage {
            return Ok(trim.done(Outcome::Refused, damage));
        }
        trim.predicted_bytes = Some(prediction.bytes);
        trim.reason = prediction.rough;
    }
    if trim.predicted_bytes == Some(0) {
        return Ok(trim.done(Outcome::NothingToTrim, None));
    }
    if options.dry_run {
        return Ok(trim);
    }
    call(trim, &release, &memory, &maps, options)
}

/// What the release call of the live allocator would return; `None` where its heap is not walked.
fn predict(live: &LiveAllocator, look: &Look<'_>) -> Result<Option<Prediction>> {
    let heaps = live.heaps(look.pid, look.maps, look.memory)?;
    let mut heaps = heaps.iter().filter(|heap| heap.kind() == live.allocator.kind);
    heaps.next().map(|heap| heap.predict(look)).transpose()
}

/// RSS, exactly. From Linux 6.2 to 6.16 the cheap counter may be off by many pages a processor
/// (`percpu_counter_read_positive`), so there the page tables are asked.
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
        AllocatorKind, Error, LiveMemory, Maps, Options, Outcome, Pid, Release, Result, Trim, resident_bytes,
    };
    use crate::allocators::{Release as ReleaseMethod, ReleaseCall};
    use unbloat_process::remote::{self, Host, Refusal, Safety};

    pub(super) fn refused_at_once(pid: Pid, options: &Options) -> Result<Option<String>> {
        told(remote::preflight(pid, options.trusted).err())
    }

    /// A refusal is an outcome; that the process is gone or may not be touched is an error.
    fn told(refusal: Option<Refusal>) -> Result<Option<String>> {
        match refusal {
            None => Ok(None),
            Some(Refusal::Process(error)) => Err(error),
            Some(refusal) => Ok(Some(refusal.to_string())),
        }
    }

    pub(super) fn call(
        mut trim: Trim,
        release: &Release,
        memory: &LiveMemory,
        maps: &Maps,
        options: &Options,
    ) -> Result<Trim> {
        let pid = trim.pid;
        let gadgets = match release.gadgets(memory) {
            Ok(gadgets) => gadgets,
            Err(unknown) => return Ok(trim.done(Outcome::Unsupported, unknown.to_string())),
        };
        let mut locks = match release.locks(memory) {
            Ok(locks) => locks,
            Err(why) => return Ok(trim.done(Outcome::Refused, why.to_string())),
        };
        trim.rss_before_bytes = resident_bytes(pid)?;
        let host = Host { pid, memory, maps, gadgets: &gadgets };
        let called = remote::call(&host, &release.call, options.timeout, || match &mut locks {
            Some(locks) => locks.verdict(memory),
            None => Safety::Safe,
        });
        match called {
            Ok(borrowed) => {
                trim.rss_after_bytes = Some(resident_bytes(pid)?);
                trim.paused = Some(borrowed.held);
                trim.borrowed = Some(borrowed.borrowed);
                trim.thread = Some((borrowed.thread, borrowed.wait));
                trim.retries = borrowed.retries;
                let reason = trim.reason.take().or_else(|| unpredicted(trim.allocator));
                Ok(trim.done(Outcome::Trimmed, reason))
            }
            Err(Refusal::Ended) => Err(Error::Gone { pid }),
            Err(refusal) => {
                let reason = told(Some(refusal))?;
                Ok(trim.done(Outcome::Refused, reason))
            }
        }
    }

    /// What the call of an allocator reaches, where that was not predicted.
    fn unpredicted(allocator: AllocatorKind) -> Option<String> {
        if allocator == AllocatorKind::Glibc {
            return None;
        }
        let ReleaseMethod::Call(ReleaseCall { reach, .. }) = &allocator.descriptor()?.release else {
            return None;
        };
        Some(format!("{reach}. What comes back is only predicted for glibc's malloc"))
    }
}

#[cfg(target_arch = "x86_64")]
use x86_64::{call, refused_at_once};

/// Where signal frames are not known, nothing is called.
#[cfg(not(target_arch = "x86_64"))]
fn refused_at_once(_: Pid, options: &Options) -> Result<Option<String>> {
    Ok((!options.dry_run).then(|| "calling a function in another process is only known on x86-64".to_owned()))
}

#[cfg(not(target_arch = "x86_64"))]
fn call(trim: Trim, _: &Release, _: &LiveMemory, _: &Maps, _: &Options) -> Result<Trim> {
    Ok(trim)
}
