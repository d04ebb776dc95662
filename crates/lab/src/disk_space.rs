//! Checks, before an experiment begins, that the disk has room for it: a full disk would end it hours later.

use crate::plan::Plan;
use std::path::{Path, PathBuf};

/// Bytes of one process's sample in the recording, indexes included (measured: about 100).
const SAMPLE_BYTES: u64 = 150;
/// Processes of a large server.
const PROCESSES: u64 = 10;
/// What a run writes besides, and what a server needs for its log and temporary files.
const SPARE_BYTES: u64 = 64 << 20;

/// Why an experiment does not begin.
#[derive(Debug, thiserror::Error)]
pub enum DiskSpaceError {
    /// Too little is free.
    #[error("{}: {} MiB are free, and the experiment may need {} MiB. Free some, or choose another place ({how})", directory.display(), free_bytes >> 20, need_bytes >> 20)]
    TooLittle {
        /// Where.
        directory: PathBuf,
        /// Bytes that are free for us.
        free_bytes: u64,
        /// Bytes that may be needed.
        need_bytes: u64,
        /// How to choose another place.
        how: &'static str,
    },
    /// The kernel does not say.
    #[error("cannot see how much of the disk is free in {}: {source}", directory.display())]
    Unknown {
        /// Where.
        directory: PathBuf,
        /// Its reason.
        source: std::io::Error,
    },
}

/// Checks the directory of the recording and that of temporary files, for `runs` runs.
///
/// # Errors
/// Either has too little room.
pub fn check(plan: &Plan, runs: usize, recording: &Path) -> Result<(), DiskSpaceError> {
    let beside = recording.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    enough(beside, free(beside)?, recording_bytes(plan, runs), "-o")?;
    let temporary = std::env::temp_dir();
    enough(&temporary, free(&temporary)?, SPARE_BYTES, "TMPDIR")
}

/// What the recording may grow to.
fn recording_bytes(plan: &Plan, runs: usize) -> u64 {
    let each = plan.run_takes(None);
    let samples = each.as_secs_f64() / plan.design.sample_every.as_secs_f64();
    SPARE_BYTES + (runs as f64 * samples) as u64 * PROCESSES * SAMPLE_BYTES
}

fn free(directory: &Path) -> Result<u64, DiskSpaceError> {
    let found = nix::sys::statvfs::statvfs(directory)
        .map_err(|errno| DiskSpaceError::Unknown { directory: directory.to_owned(), source: errno.into() })?;
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}

fn enough(
    directory: &Path,
    free_bytes: u64,
    need_bytes: u64,
    how: &'static str,
) -> Result<(), DiskSpaceError> {
    if free_bytes >= need_bytes {
        return Ok(());
    }
    Err(DiskSpaceError::TooLittle { directory: directory.to_owned(), free_bytes, need_bytes, how })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn too_little_room_is_said_with_what_is_needed() {
        let error = enough(Path::new("/data"), 5 << 20, 70 << 20, "-o").unwrap_err().to_string();
        assert!(error.starts_with("/data: 5 MiB are free, and the experiment may need 70 MiB"), "{error}");
        assert!(enough(Path::new("/data"), 70 << 20, 70 << 20, "-o").is_ok());
    }

    #[test]
    fn a_kernel_file_system_has_no_room_and_the_root_says_how_much() {
        assert!(free(Path::new("/")).unwrap() > 0);
        assert_eq!(free(Path::new("/proc")).unwrap(), 0);
        assert!(free(Path::new("/nonesuch")).unwrap_err().to_string().contains("/nonesuch"));
    }
}
