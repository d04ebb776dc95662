//! Verifies each variant against its live processes, not its configuration.

use crate::server::RUN_VARIABLE;
use unbloat_policy::{Claim, Evidence};
use unbloat_process::tree::Tree;
use unbloat_process::{Pid, environment};

/// Checks every claim on every process of the tree below `root` that runs the same program as `root`. Returns the proofs, in
/// words.
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
    for pid in servers {
        let process = evidence(pid).map_err(|e| e.to_string())?;
        for claim in claims {
            let proof = process.check(claim).map_err(|problem| format!("process {pid}: {problem}"))?;
            if pid == root {
                proofs.push(proof.to_string());
            }
        }
    }
    Ok(proofs)
}

fn evidence(pid: Pid) -> unbloat_process::Result<Evidence> {
    // Every process of a run has the mark, unless it wrote its title over its environment.
    let started_with = environment::environment(pid)?;
    let environment = started_with.contains_key(RUN_VARIABLE).then_some(started_with);
    let environment_in_memory = match environment {
        Some(_) => None,
        None => environment::in_memory(pid).ok().flatten(),
    };
    Ok(Evidence { environment, environment_in_memory, ..unbloat_record::evidence::of(pid)? })
}
