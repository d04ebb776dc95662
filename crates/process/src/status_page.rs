//! Finding and reading the status page that `libunbloat.so` keeps in a process.
//!
//! The page is found through the process's own mappings, not by guessing a directory: what is mapped there is what
//! the runtime is writing to, whatever the environment of the two sides. See [`unbloat_contract`] for the layout.
//!
//! Its file can be out of reach while the process lives and writes: a logout removes `/run/user/UID` and what the user has in `/dev/shm`,
//! and the path that `/proc` tells of a mount in another mount namespace is none. Then the page is read where it is mapped, which asks
//! for more permission than the file does (ptrace(2), "access mode checking").

use crate::{Error, LiveMemory, Mapping, Maps, Memory as _, Pid, Result};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use unbloat_contract::{FileName, Malformed, PAGE_BYTES, Snapshot};

/// Reads the status page of a process; `None` when it has none (or has not finished making it).
///
/// `pid` is the process id as seen from here. A process in another container is reached through `/proc/PID/root`.
///
/// # Errors
/// When the process cannot be looked into, or its page is of another version of the layout.
pub fn read(pid: Pid) -> Result<Option<Snapshot>> {
    let maps = Maps::of(pid)?;
    let mapped = |mapping: &Mapping| {
        let path = mapping.file().filter(|path| is_status_page(path))?;
        Some((mapping.range().start, path.to_owned()))
    };
    let Some((address, mapped)) = maps.iter().find_map(mapped) else {
        return Ok(None);
    };
    let path = pid.proc("root").join(mapped.strip_prefix("/").unwrap_or(&mapped));
    let bytes = match read_page(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = vec![0; PAGE_BYTES];
            LiveMemory::of(pid)?.read(address, &mut bytes)?;
            bytes
        }
        read => read.map_err(|source| Error::from_io(pid, "status page", source))?,
    };
    match Snapshot::parse(&bytes) {
        Ok(snapshot) => Ok(Some(snapshot)),
        Err(Malformed::NotAPage) => Ok(None),
        Err(source) => Err(Error::StatusPage { pid, path, source }),
    }
}

/// Every process that has a status page and that we may look at, by pid.
///
/// # Errors
/// The error of reading `/proc` itself. Processes that vanish or that belong to others are left out.
pub fn list() -> io::Result<Vec<(Pid, Snapshot)>> {
    let mut found: Vec<_> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid))
        .filter_map(|pid| Some((pid, read(pid).ok()??)))
        .collect();
    found.sort_by_key(|&(pid, _)| pid);
    Ok(found)
}

fn is_status_page(path: &Path) -> bool {
    let named = path.file_name().and_then(|name| name.to_str()).and_then(FileName::parse).is_some();
    named && path.parent().is_some_and(|directory| directory.to_string_lossy().contains("unbloat"))
}

fn read_page(path: &PathBuf) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    File::open(path)?.take(PAGE_BYTES as u64).read_to_end(&mut bytes)?;
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
