//! Finds and reads the status page that `libunbloat.so` keeps in a process.
//!
//! The page is found through the process's own mappings, not by guessing a directory: what is mapped there is what
//! the runtime is writing to, whatever the environment of the two sides. See [`unbloat_contract`] for the layout.
//!
//! The page is read where it is mapped, in the target's memory. That asks for more permission than the file does
//! (ptrace(2), "access mode checking"); without it the mapped file is opened, with the care of `target_file`. A path is never
//! opened as it stands: a FIFO, a device or a link in its place is the target's to put there.

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

/// Reads the status page of a process in a confined child; `None` when it has none (or has not finished making it).
///
/// `pid` is the process id as seen from here. A process in another container is reached through its own root.
///
/// # Errors
/// When the process cannot be looked into, or its page is of another version of the layout.
pub fn read(pid: Pid) -> Result<Option<Snapshot>> {
    let bytes = look(pid, Stopping::Never, |_| page_of(pid))?;
    Ok(bytes.and_then(|bytes| Snapshot::parse(&bytes).ok()))
}

/// Every process that has a status page and that we may look at, by pid.
///
/// One confined child looks at all of them. If one process keeps it from its end, each gets a child of its own.
///
/// # Errors
/// The error of reading `/proc` itself. Processes that vanish or that belong to others are left out.
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

/// The time for one look at all processes.
const LISTING: Duration = Duration::from_secs(2);

/// The bytes of a process's page, well formed.
fn page_of(pid: Pid) -> Result<Option<Vec<u8>>> {
    let maps = Maps::of(pid)?;
    let is_page = |mapping: &&Mapping| mapping.file().is_some_and(is_status_page);
    let Some(mapping) = maps.iter().find(is_page) else { return Ok(None) };
    let bytes = match from_memory(pid, mapping).or_else(|_| from_file(pid, mapping)) {
        Ok(bytes) => bytes,
        // Its file is cut short or was not made by the runtime: there is no page to be read.
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
