//! Finds and reads the status page that `libunbloat.so` keeps in a process.
//!
//! The page is found through the process's own mappings rather than by guessing a directory: the mapped page
//! is the one the runtime writes to, whatever the environments of the two sides. See [`unbloat_contract`] for
//! the layout.
//!
//! The page is read in the target's memory. This requires more permission than the file does (ptrace(2),
//! "access mode checking"); without it the mapped file is opened, with the precautions of `target_file`. A
//! path is never opened directly, because the target could put a FIFO, a device or a link there.

use crate::sandbox::{self, Limits, Scope};
use crate::target_file::{NotOpened, open_mapped};
use crate::watch::ProcFs;
use crate::{Error, Mapping, Maps, Pid, Result, Stopping, look};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;
use unbloat_contract::{FileName, Malformed, PAGE_BYTES, Snapshot};

/// Reads the status page of a process in a confined child; `None` if it has none (or has not finished
/// creating it).
///
/// `pid` is the process ID in our namespace. A process in another container is reached through its own root.
///
/// # Errors
/// Access to the process is denied, or its page has another version of the layout.
pub fn read(pid: Pid) -> Result<Option<Snapshot>> {
    let bytes = look(pid, Stopping::Never, |_| page_of(pid))?;
    Ok(bytes.and_then(|bytes| Snapshot::parse(&bytes).ok()))
}

/// Returns all accessible processes that have a status page, by PID.
///
/// One confined child examines all of them. If one process keeps it from finishing, each gets its own child.
///
/// # Errors
/// The error of reading `/proc` itself. Processes that vanish or belong to others are skipped.
pub fn list() -> io::Result<Vec<(Pid, Snapshot)>> {
    let pids = ProcFs::default().pids()?;
    let limits = Limits { deadline: LISTING, ..Limits::of_resident(0) };
    let all = sandbox::look(Pid::this(), &limits, &Scope::default(), || {
        let pages = pids.iter().filter_map(|&pid| Some((pid, page_of(pid).ok()??)));
        Ok(pages.collect::<Vec<_>>())
    });
    let mut pages: Vec<_> = match all {
        Ok(pages) => {
            pages.iter().filter_map(|(pid, page)| Some((*pid, Snapshot::parse(page).ok()?))).collect()
        }
        Err(_) => pids.iter().filter_map(|&pid| Some((pid, read(pid).ok()??))).collect(),
    };
    pages.sort_by_key(|&(pid, _)| pid);
    Ok(pages)
}

/// Time limit for examining all processes.
const LISTING: Duration = Duration::from_secs(2);

/// Returns the bytes of a process's page, if well formed.
fn page_of(pid: Pid) -> Result<Option<Vec<u8>>> {
    let maps = Maps::of(pid)?;
    let is_page = |mapping: &&Mapping| mapping.file().is_some_and(is_status_page);
    let Some(mapping) = maps.iter().find(is_page) else { return Ok(None) };
    let bytes = match from_memory(pid, mapping).or_else(|_| from_file(pid, mapping)) {
        Ok(bytes) => bytes,
        // Its file is truncated or was not created by the runtime, so there is no page to read.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(source) => return Err(Error::from_io(pid, "the status page", source)),
    };
    match Snapshot::parse(&bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(Malformed::NotAPage) => Ok(None),
        Err(malformed) => {
            let path = mapping.file().map(Path::to_owned).unwrap_or_default();
            Err(Error::StatusPage { pid, path, reason: malformed.to_string() })
        }
    }
}

fn is_status_page(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse).is_some();
    named && path.parent().is_some_and(|directory| directory.to_string_lossy().contains("unbloat"))
}

fn from_memory(pid: Pid, mapping: &Mapping) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; PAGE_BYTES];
    File::open(pid.proc("mem"))?.read_exact_at(&mut bytes, mapping.start)?;
    Ok(bytes)
}

fn from_file(pid: Pid, mapping: &Mapping) -> io::Result<Vec<u8>> {
    let file = open_mapped(pid, mapping).map_err(|reason| match reason {
        NotOpened::Io(error) => error,
        other => io::Error::other(other.to_string()),
    })?;
    let mut bytes = vec![0; PAGE_BYTES];
    file.read_exact_at(&mut bytes, mapping.offset)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_page_is_told_from_other_files() {
        assert!(is_status_page(Path::new("/dev/shm/unbloat-1000/4026531836-42.status")));
        assert!(is_status_page(Path::new("/run/user/1000/unbloat/4026531836-42.status")));
        assert!(!is_status_page(Path::new("/dev/shm/unbloat-1000/other.status")));
        assert!(!is_status_page(Path::new("/dev/shm/1-2.status")));
    }

    #[test]
    fn a_process_without_a_page_has_none() {
        assert!(read(Pid::this()).unwrap().is_none());
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = read(Pid(i32::MAX)).unwrap_err();
        assert!(error.to_string().contains("2147483647"), "{error}");
    }
}
