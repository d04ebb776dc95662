//! Directories that nobody else can change, by the rules of sshd's `StrictModes` (`safe_path` in its misc.c),
//! with Debian's allowance for a user's private group.

use crate::error::BundleError;
use nix::unistd::{Gid, Group, Uid, User};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const STICKY: u32 = 0o1000;
const GROUP_WRITE: u32 = 0o020;
const OTHER_WRITE: u32 = 0o002;

/// Refuses a directory that another user could change, or replace through an ancestor. The path must be free
/// of links.
///
/// # Errors
/// [`BundleError::NotPrivate`] names the unsafe directory.
pub(crate) fn check(directory: &Path) -> Result<(), BundleError> {
    let meta = metadata(directory)?;
    if !meta.is_dir() || !owner_is_trusted(&meta) || others_can_write(&meta) {
        return Err(BundleError::NotPrivate { path: directory.to_owned() });
    }
    directory.parent().map_or(Ok(()), check_above)
}

/// Refuses a directory in which another user could replace our entries. In a sticky one, other users can only
/// rename their own.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_above(directory: &Path) -> Result<(), BundleError> {
    for ancestor in directory.ancestors() {
        let meta = metadata(ancestor)?;
        let can_replace = others_can_write(&meta) && meta.mode() & STICKY == 0;
        if !meta.is_dir() || !owner_is_trusted(&meta) || can_replace {
            return Err(BundleError::NotPrivate { path: ancestor.to_owned() });
        }
    }
    Ok(())
}

fn metadata(path: &Path) -> Result<Metadata, BundleError> {
    fs::symlink_metadata(path).map_err(|cause| BundleError::Write { path: path.to_owned(), cause })
}

/// Returns whether a file belongs to this user or to root.
pub(crate) fn owner_is_trusted(meta: &Metadata) -> bool {
    meta.uid() == user() || meta.uid() == 0
}

/// Returns the effective user.
pub(crate) fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

fn others_can_write(meta: &Metadata) -> bool {
    let by_group = meta.mode() & GROUP_WRITE != 0 && !is_private_group(meta.uid(), meta.gid());
    meta.mode() & OTHER_WRITE != 0 || by_group
}

/// Returns whether this is the group with its user's name and no other member, which is typical of a umask of
/// 002.
fn is_private_group(user: u32, group: u32) -> bool {
    let user = User::from_uid(Uid::from_raw(user)).ok().flatten();
    let group = Group::from_gid(Gid::from_raw(group)).ok().flatten();
    let (Some(user), Some(group)) = (user, group) else { return false };
    user.gid == group.gid && user.name == group.name && group.mem.iter().all(|member| *member == user.name)
}
