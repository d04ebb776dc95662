//! Verifies each variant against its live processes, not its configuration.

use crate::server::RUN_VARIABLE;
use std::time::Duration;
use unbloat_policy::{Claim, Evidence};
use unbloat_process::tree::Tree;
use unbloat_process::{Error, Pid};

/// Maximum number of attempts for a process that becomes another program meanwhile, and the pause between
/// them.
const LOOKS: usize = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Checks every claim on every process of the tree below `root` that runs the same program as `root`. Returns
/// the proofs in words. A server that has just reported readiness may become another program (exec) at that
/// moment; only then is it checked again.
///
/// # Errors
/// The first claim that does not hold, in words.
pub fn prove(root: Pid, claims: &[Claim]) -> Result<Vec<String>, String> {
    for _ in 1..LOOKS {
        match prove_once(root, claims) {
            Err(Unproved::Replaced(_)) => std::thread::sleep(LOOK_AGAIN),
            seen => return seen.map_err(|why| why.to_string()),
        }
    }
    prove_once(root, claims).map_err(|why| why.to_string())
}

/// The reason why a variant is not proved.
#[derive(Debug, thiserror::Error)]
enum Unproved {
    /// A claim does not hold, or a process cannot be inspected.
    #[error("{0}")]
    Refuted(String),
    /// A process became another program meanwhile.
    #[error("{0}")]
    Replaced(Error),
}

impl From<Error> for Unproved {
    fn from(error: Error) -> Self {
        match error {
            Error::Replaced { .. } => Unproved::Replaced(error),
            error => Unproved::Refuted(error.to_string()),
        }
    }
}

impl From<String> for Unproved {
    fn from(why: String) -> Self {
        Unproved::Refuted(why)
    }
}

fn prove_once(root: Pid, claims: &[Claim]) -> Result<Vec<String>, Unproved> {
    let program = |pid: Pid| std::fs::read_link(pid.proc("exe")).ok();
    let wanted = program(root).ok_or_else(|| format!("process {root} cannot be inspected"))?;
    let tree = Tree::read()?;
    let servers: Vec<Pid> =
        tree.below(root).into_iter().filter(|&pid| program(pid).as_ref() == Some(&wanted)).collect();
    let plural = if servers.len() == 1 { "" } else { "es" };
    let mut proofs = vec![format!("{} process{plural} of {}", servers.len(), wanted.display())];
    for pid in servers {
        let process = evidence(pid)?;
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
    unbloat_record::evidence::of(pid, RUN_VARIABLE)
}
