//! That a variant is what it says: read from the processes themselves, not from what was asked for.

use crate::server::RUN_VARIABLE;
use crate::variant::Claim;
use std::path::Path;
use unbloat_heap::model::Allocator;
use unbloat_heap::{Options, inspect};
use unbloat_process::tree::Tree;
use unbloat_process::{Maps, Pid, environment, status_page};

/// Checks every claim on every process of the tree below `root` that runs the same program as `root`. What was found,
/// in words.
///
/// # Errors
/// The first claim that does not hold, in words.
pub fn prove(root: Pid, claims: &[Claim]) -> Result<Vec<String>, String> {
    let program = |pid: Pid| std::fs::read_link(pid.proc("exe")).ok();
    let wanted = program(root).ok_or_else(|| format!("process {root} cannot be looked at"))?;
    let tree = Tree::read().map_err(|e| e.to_string())?;
    let servers: Vec<Pid> =
        tree.below(root).into_iter().filter(|&pid| program(pid).as_ref() == Some(&wanted)).collect();
    let plural = if servers.len() == 1 { "" } else { "es" };
    let mut proofs = vec![format!("{} process{plural} of {}", servers.len(), wanted.display())];
    for claim in claims {
        for &pid in &servers {
            let proof = check(pid, claim)?;
            if pid == root {
                proofs.push(proof);
            }
        }
    }
    Ok(proofs)
}

fn allocator(pid: Pid) -> Result<Allocator, String> {
    let report = inspect(pid, &Options::default()).map_err(|e| e.to_string())?;
    report.allocator.ok_or_else(|| "its allocator is not known".to_owned())
}

fn check(pid: Pid, claim: &Claim) -> Result<String, String> {
    let text = |e: unbloat_process::Error| e.to_string();
    match claim {
        Claim::Environment(key, value) => {
            let environment = environment::environment(pid).map_err(text)?;
            match environment.get(key) {
                Some(found) if found == value => Ok(format!("started with {key}={value}")),
                Some(found) => Err(format!("started with {key}={found}, not {value}")),
                // Every process of a run has the mark, unless it wrote its title over its environment.
                None if !environment.contains_key(RUN_VARIABLE) => in_memory(pid, key, value),
                None => Err(format!("started without {key}")),
            }
        }
        Claim::Mapped(wanted, package) => {
            let maps = Maps::of(pid).map_err(text)?;
            let mapping =
                maps.iter().filter(|m| m.execute).filter_map(|m| m.file()).find(|f| is_it(f, wanted));
            match (mapping, package) {
                (Some(file), _) => Ok(format!("{} is mapped", file.display())),
                (None, Some(package)) => {
                    Err(format!("{wanted} is not mapped: is it installed? Debian has it in {package}"))
                }
                (None, None) => Err(format!("{wanted} is not mapped: is it there?")),
            }
        }
        Claim::Policy(policy) => match status_page::read(pid).map_err(text)? {
            None => Err(format!("process {pid} has no status page, so policy {policy} cannot be proved")),
            Some(page) => match page.text(unbloat_contract::Text::Policy, &mut [0; 256]) {
                found if found == policy => Ok(format!("libunbloat.so runs policy {policy}")),
                found => Err(format!("libunbloat.so in process {pid} runs policy {found:?}, not {policy}")),
            },
        },
        Claim::Allocator(name) => {
            let found = allocator(pid)?;
            match found.kind.name() == name {
                true => Ok(found.evidence),
                false => Err(format!("{} serves malloc, not {name}: {}", found.kind.name(), found.evidence)),
            }
        }
        Claim::ArenaMax(limit) => match allocator(pid)?.settings.and_then(|settings| settings.arena_max) {
            Some(found) if found == *limit => Ok(format!("{ARENA_MAX} {found}")),
            Some(found) => Err(format!("glibc's arena_max is {found}, not {limit}")),
            None => Err(format!("glibc's arena_max is not set, and should be {limit}")),
        },
    }
}

/// A variable of a process that has written its title over what it was started with. Others it has copied before.
fn in_memory(pid: Pid, key: &str, value: &str) -> Result<String, String> {
    match environment::in_memory(pid).ok().flatten().and_then(|variables| variables.get(key).cloned()) {
        Some(found) if found == value => Ok(format!("{key}={value} is in its environment")),
        Some(found) => Err(format!("{key}={found} is in its environment, not {value}")),
        None => Ok(format!("{key} {UNREADABLE}: its title is written over its environment")),
    }
}

/// What stands in a proof for a variable that nothing shows.
const UNREADABLE: &str = "cannot be read back";

/// What of a run's variant is claimed and not proved, in words. glibc's arena limit shows in its own memory.
pub fn unproved(proofs: &[String]) -> impl Iterator<Item = &String> {
    let has_limit = proofs.iter().any(|proof| proof.starts_with(ARENA_MAX));
    let is_shown = move |proof: &&String| has_limit && proof.starts_with("MALLOC_ARENA_MAX ");
    proofs.iter().filter(|proof| proof.contains(UNREADABLE)).filter(move |proof| !is_shown(proof))
}

/// How the proof of glibc's arena limit begins.
const ARENA_MAX: &str = "glibc's arena_max is";

/// Whether a mapped file is the one that was asked for by path, or by name: libraries lie in the file system as NAME or
/// NAME.VERSION, whatever link they were asked for by.
fn is_it(file: &Path, wanted: &str) -> bool {
    match wanted.contains('/') {
        true => file == Path::new(wanted),
        false => file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_shows_is_told_from_what_shows_elsewhere() {
        let lost = |key: &str| format!("{key} {UNREADABLE}: its title is written over its environment");
        let limit = [lost("MALLOC_ARENA_MAX"), format!("{ARENA_MAX} 2")];
        assert_eq!(unproved(&limit).count(), 0);
        let tuned = [lost("MALLOC_CONF"), "libjemalloc.so.2 is mapped".to_owned()];
        assert_eq!(unproved(&tuned).collect::<Vec<_>>(), [&tuned[0]]);
    }
}
