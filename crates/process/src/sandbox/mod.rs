//! Runs everything that parses a target in a short-lived, confined child.
//!
//! The memory, the ELF files, the mappings and the status page of a target can be faked by the target. A
//! [`look`] at them runs in a forked child with limits on memory and processor time, a deadline and a filter
//! of system calls; it can read, but cannot write, signal or start anything. The result comes back as one
//! message of bounded size. A crash, a limit or the deadline ends the child and becomes a [`GaveUp`]; nothing
//! else is affected.
//!
//! | module | concept |
//! |---|---|
//! | `limits` | the limits of one look |
//! | `gave_up` | the ways in which a look fails |
//! | `child` | the child's life: confinement, work, message |
//! | `filter` | the system calls of the child |
//! | `parent` | receives the message, ends the child |
//! | `servant` | a child that answers questions |
//! | [`spent`] | the processor time of looks |
//! | `names`, `path`, `io_error` | static strings, paths and kernel errors across the boundary |

#![allow(unsafe_code)] // fork, and what a child does to itself

mod child;
mod filter;
mod gave_up;
pub(crate) mod io_error;
mod limits;
pub mod names;
mod parent;
pub mod path;
pub(crate) mod servant;
pub mod spent;
#[cfg(test)]
mod tests;

pub use gave_up::GaveUp;
pub use limits::{Limits, Scope};

use crate::{Error, Pid, Result};
use serde::{Serialize, de::DeserializeOwned};
use std::os::fd::AsFd;

/// Runs `work` in a confined child and returns its result.
///
/// `pid` names the target in errors. A nested look runs in the same child.
///
/// # Errors
/// Those of `work`, and [`Error::GaveUp`] if it did not finish within its limits.
pub fn look<T: Serialize + DeserializeOwned>(
    pid: Pid,
    limits: &Limits,
    scope: &Scope<'_>,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if child::is_confined() {
        return work();
    }
    run(limits, scope, work).unwrap_or_else(|reason| Err(Error::GaveUp { pid, reason }))
}

fn run<T: Serialize + DeserializeOwned>(
    limits: &Limits,
    scope: &Scope<'_>,
    work: impl FnOnce() -> T,
) -> std::result::Result<T, GaveUp> {
    let (message, outbox) = std::io::pipe()?;
    let (errors, error_outbox) = std::io::pipe()?;
    let parent = nix::unistd::getpid();
    child::prepare();
    // SAFETY: the child runs `child::live`, which ends it without returning here. Other threads of this process may hold
    // locks at this moment: libc hands malloc's over, and `child` takes no other.
    match unsafe { nix::unistd::fork() }.map_err(std::io::Error::from)? {
        nix::unistd::ForkResult::Child => {
            child::live(parent, limits, scope, outbox.as_fd(), error_outbox.as_fd(), work)
        }
        nix::unistd::ForkResult::Parent { child } => {
            drop((outbox, error_outbox));
            let bytes = parent::receive(child, limits, message, errors)?;
            postcard::from_bytes(&bytes).map_err(|_| GaveUp::Garbled)
        }
    }
}
