//! The environment of a process, at its start and now.
//!
//! `/proc/PID/environ` shows the variables passed to `execve`, without later changes by the program. A
//! program that writes a title (Puma, Sidekiq: `Process.setproctitle`) overwrites that very memory after
//! copying the variables elsewhere (CRuby: `compat_init_setproctitle`, missing/setproctitle.c). libc's
//! `environ` points to the copy.

use crate::elf::first_mappings;
use crate::watch::read_up_to;
use crate::{
    Error, Image, LiveMemory, Maps, Memory, Pid, Pinned, ResidentOnly, Result, Stopping, look, page_size,
};
use std::collections::BTreeMap;

/// The limit of `execve` for arguments and variables together where that of the stack is the usual 8 MiB (a quarter of it:
/// `bprm_stack_limits`, fs/exec.c). A process may declare any part of its memory to be its environment (`PR_SET_MM_MAP`, prctl(2)).
const MAX_BYTES: u64 = 2 << 20;
/// Upper bound on the number of variables, as a sanity check.
const MAX_VARIABLES: u64 = 100_000;
/// The longest variable that `execve` takes, in pages (`MAX_ARG_STRLEN`, include/uapi/linux/binfmts.h).
const MAX_VARIABLE_PAGES: u64 = 32;

/// Returns the variables and values with which the process was started. Bytes that are not UTF-8 are
/// replaced.
///
/// # Errors
/// The process is gone, or access to it is denied.
pub fn environment(pid: Pid) -> Result<BTreeMap<String, String>> {
    let bytes = read_up_to(&pid.proc("environ"), MAX_BYTES);
    let bytes = bytes.map_err(|e| Error::from_io(pid, "the environment", e))?;
    let entries = bytes.split(|&b| b == 0).filter(|entry| !entry.is_empty());
    Ok(entries.filter_map(variable).collect())
}

/// Returns the variables and values that `getenv` would find now, read from memory by a confined child.
/// `None` if `environ` cannot be found or its target is not resident.
///
/// # Errors
/// The process is gone, access to it is denied, or the child did not finish within its limits.
pub fn in_memory(pid: Pid) -> Result<Option<BTreeMap<String, String>>> {
    look(pid, Stopping::Never, in_pinned_memory)
}

fn in_pinned_memory(pinned: &Pinned) -> Result<Option<BTreeMap<String, String>>> {
    let pid = pinned.pid();
    let maps = Maps::of(pid)?;
    let memory = LiveMemory::of_pinned(pinned)?;
    // A program that refers to `environ` itself has it in its own data (a copy relocation) and is mapped
    // below libc.
    let mut images = first_mappings(&maps).filter_map(|mapping| Image::of_mapping(pid, mapping).ok());
    let environ = images.find_map(|image| image.symbol("environ"));
    Ok(environ.and_then(|environ| variables(&ResidentOnly::new(&memory), environ)))
}

fn variables(memory: &dyn Memory, environ: u64) -> Option<BTreeMap<String, String>> {
    let array = memory.word(environ).ok()?;
    let mut variables = BTreeMap::new();
    for index in 0..MAX_VARIABLES {
        match memory.word(array.checked_add(8 * index)?).ok()? {
            0 => return Some(variables),
            entry => variables.extend(variable(&text(memory, entry)?)),
        }
    }
    None
}

/// Returns the bytes up to the next zero.
fn text(memory: &dyn Memory, address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while (text.len() as u64) < MAX_VARIABLE_PAGES * page_size() {
        let at = address.checked_add(text.len() as u64)?;
        // Stops at the end of the page, since the next one may be absent.
        let mut piece = vec![0; (page_size() - at % page_size()).min(256) as usize];
        memory.read(at, &mut piece).ok()?;
        match piece.iter().position(|&byte| byte == 0) {
            Some(end) => {
                text.extend_from_slice(piece.get(..end)?);
                return Some(text);
            }
            None => text.extend(piece),
        }
    }
    None
}

fn variable(entry: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(entry);
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn own_environment_has_a_path() {
        assert!(environment(Pid::this()).unwrap().contains_key("PATH"));
    }

    #[test]
    fn memory_has_the_same_variables_as_getenv() {
        let found = in_memory(Pid::this()).unwrap().unwrap();
        let own: BTreeMap<_, _> = std::env::vars().collect();
        assert_eq!(found.get("PATH"), own.get("PATH"));
        assert_eq!(found.len(), own.len());
    }
}
