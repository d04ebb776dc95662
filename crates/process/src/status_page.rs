//! Finding and reading the status page that `libunbloat.so` keeps in a process.
//!
//! The page is found through the process's own mappings, not by guessing a directory: what is mapped there is what
//! the runtime is writing to, whatever the environment of the two sides. See [`unbloat_status_page`] for the layout.

use std::path::{Path, PathBuf};
use std::{fs, io};
use unbloat_status_page::{FileName, Malformed, PAGE_BYTES, Snapshot};

/// Why a process's status page could not be read.
#[derive(Debug, thiserror::Error)]
pub enum StatusPageError {
    /// The process does not exist, or its mappings are not ours to read.
    #[error(
        "cannot read the mappings of {pid}: {source}. Run as the same user, or with CAP_SYS_PTRACE (in a container: --cap-add SYS_PTRACE)"
    )]
    Maps {
        /// The process.
        pid: u32,
        /// The cause.
        source: io::Error,
    },
    /// The file that is mapped cannot be opened.
    #[error("cannot read the status page {path} of {pid}: {source}. Run as the same user as the process", path = path.display())]
    Read {
        /// The process.
        pid: u32,
        /// The page, as seen from here.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file is not a page of this version.
    #[error("cannot read the status page {path} of {pid}: {source}", path = path.display())]
    Malformed {
        /// The process.
        pid: u32,
        /// The page, as seen from here.
        path: PathBuf,
        /// The cause.
        source: Malformed,
    },
}

/// Reads the status page of a process; `None` when it has none mapped.
///
/// `pid` is the process id as seen from here. A process in another container is reached through `/proc/PID/root`.
///
/// # Errors
/// [`StatusPageError`] when the process cannot be looked into or the page is of another version.
pub fn read(pid: u32) -> Result<Option<Snapshot>, StatusPageError> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(|source| StatusPageError::Maps { pid, source })?;
    let Some(mapped) = mapped_page(&maps) else { return Ok(None) };
    let path = Path::new("/proc").join(pid.to_string()).join("root").join(mapped.trim_start_matches('/'));
    let bytes = read_page(&path).map_err(|source| StatusPageError::Read { pid, path: path.clone(), source })?;
    match Snapshot::parse(&bytes) {
        Ok(snapshot) => Ok(Some(snapshot)),
        // It is mapped but not finished: the process is starting this very moment.
        Err(Malformed::NotAPage) => Ok(None),
        Err(source) => Err(StatusPageError::Malformed { pid, path, source }),
    }
}

/// Every process that has a status page and that we may look at, by pid.
///
/// # Errors
/// The error of reading `/proc` itself. Processes that vanish or that belong to others are left out.
pub fn list() -> io::Result<Vec<(u32, Snapshot)>> {
    let mut found: Vec<_> = fs::read_dir("/proc")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, read(pid).ok()??)))
        .collect();
    found.sort_by_key(|&(pid, _)| pid);
    Ok(found)
}

/// The path of the status page among the mappings (text of `/proc/PID/maps`), as the process itself names it.
fn mapped_page(maps: &str) -> Option<&str> {
    maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..))).find(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        FileName::parse(name).is_some() && path.contains("unbloat")
    })
}

fn read_page(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::with_capacity(PAGE_BYTES);
    fs::File::open(path)?.take(PAGE_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_page_is_found_among_the_mappings() {
        let maps = "55d0c8a00000-55d0c8a01000 r--p 00000000 fe:00 12 /usr/bin/ruby3.1\n\
                    7f00aa000000-7f00aa001000 rw-s 00000000 00:18 9 /dev/shm/unbloat-1000/4026531836-42.status\n\
                    7ffd0a000000-7ffd0a021000 rw-p 00000000 00:00 0 [stack]\n";
        assert_eq!(mapped_page(maps), Some("/dev/shm/unbloat-1000/4026531836-42.status"));
        assert_eq!(mapped_page("7f00aa000000-7f00aa001000 rw-s 00000000 00:18 9 /dev/shm/other.status\n"), None);
        assert_eq!(mapped_page("7f00-7f01 rw-s 0 00:18 9 /dev/shm/unbloat-0/1-2.status (deleted)\n"), None);
    }

    #[test]
    fn a_process_without_a_page_has_none() {
        assert!(read(std::process::id()).unwrap().is_none());
    }

    #[test]
    fn a_process_that_is_not_there_is_named() {
        let error = read(u32::MAX).unwrap_err();
        assert!(error.to_string().contains("cannot read the mappings of 4294967295"), "{error}");
    }
}
