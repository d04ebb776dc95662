//! The causes by which a forked Ruby no longer shares the pages that it inherited.

use crate::closer;
use crate::model::{RubyLook, Unshared};
use crate::ruby::unshared as causes;
use crate::sharing::Inherited;
use unbloat_process::{LiveMemory, Pid, Pinned, ResidentOnly, Result, Rollup, status};

/// Compares the pages that a Ruby no longer shares with `parent`, which forked it, word by word. Nothing is stopped.
///
/// # Errors
/// As [`crate::inspect::inspect`], for both processes.
pub fn unshared(pid: Pid, parent: Pid) -> Result<RubyLook<Unshared>> {
    let pinned = Pinned::open(parent)?;
    closer::look_beside(pid, &pinned, |scene, _| {
        let inherited = Inherited::from_parent(parent, pid)?;
        let memory = LiveMemory::of_pinned(&pinned)?;
        let directory = status::directory(pid).ok();
        let theirs = ResidentOnly::new(&memory);
        let found = causes::compare(scene, (parent, &theirs), &inherited, directory.as_deref())?;
        Ok(Unshared { private_bytes: Rollup::of(pid).ok().map(|rollup| rollup.uss_bytes), ..found })
    })
}
