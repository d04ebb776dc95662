//! Checks before an experiment that the disk has room for it, because a full disk would end it hours later.

use crate::plan::Plan;
use std::path::{Path, PathBuf};

/// Size of one process's sample in the recording, including indexes (measured: about 100).
const SAMPLE_BYTES: u64 = 150;
/// Number of processes of a large server.
const PROCESSES: u64 = 10;
/// Additional bytes written by a run and by a server's log and temporary files.
const SPARE_BYTES: u64 = 64 << 20;

/// The reason why an experiment does not start.
#[derive(Debug, thiserror::Error)]
pub enum DiskSpaceError {
    /// Too little space is free.
    #[error("{}: {} MiB are free, and the experiment may need {} MiB. Free some, or choose another \
        directory ({how})", directory.display(), free_bytes >> 20, need_bytes >> 20)]
    TooLittle {
        /// The directory.
        directory: PathBuf,
        /// Free bytes available to us.
        free_bytes: u64,
        /// Bytes that may be needed.
        need_bytes: u64,
        /// The option that chooses another directory.
        how: &'static str,
    },
    /// The kernel does not report the free space.
    #[error("cannot determine the free disk space in {}: {source}", directory.display())]
    Unknown {
        /// The directory.
        directory: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
}

/// Checks the directories of the recording and of temporary files, for `runs` runs.
///
/// # Errors
/// Either has too little space.
pub fn check(plan: &Plan, runs: usize, recording: &Path) -> Result<(), DiskSpaceError> {
    let beside = recording.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    enough(beside, free(beside)?, recording_bytes(plan, runs), "-o")?;
    let temporary = std::env::temp_dir();
    enough(&temporary, free(&temporary)?, SPARE_BYTES, "TMPDIR")
}

/// Returns the maximum size of the recording.
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
