//! Arguments that select running processes, shared by all commands about processes.

use anyhow::bail;
use regex::Regex;
use unbloat_process::{Pid, Tree};

/// Processes selected by PID or by a pattern.
#[derive(Debug, clap::Args)]
pub(crate) struct Targets {
    /// Processes by PID; their descendants are included.
    #[arg(value_name = "PID", required_unless_present = "name", value_parser = clap::value_parser!(i32).range(1..))]
    pids: Vec<i32>,
    /// Processes whose command line matches a regular expression, and their descendants.
    #[arg(long, value_name = "REGEX")]
    name: Option<Regex>,
    /// Select only the named processes, without their descendants.
    #[arg(long)]
    no_children: bool,
}

impl Targets {
    /// Returns the processes given by PID, or found by name.
    pub(crate) fn roots(&self) -> anyhow::Result<Vec<Pid>> {
        let mut roots: Vec<Pid> = self.pids.iter().copied().map(Pid).collect();
        if let Some(name) = &self.name {
            let found = Tree::read()?.roots_matching(|command| name.is_match(command));
            if found.is_empty() && roots.is_empty() {
                bail!("no running process matches {:?}. Look for its name with `ps -ef`", name.as_str());
            }
            roots.extend(found);
        }
        Ok(once(roots))
    }

    /// Returns the currently selected processes: the roots and, unless `--no-children`, all their
    /// descendants, parents first.
    pub(crate) fn processes(&self, roots: &[Pid]) -> anyhow::Result<Vec<Pid>> {
        if self.no_children {
            return Ok(roots.to_vec());
        }
        let tree = Tree::read()?;
        Ok(once(roots.iter().flat_map(|&root| tree.below(root)).collect()))
    }
}

/// Removes duplicates, keeping the first occurrence.
fn once(pids: Vec<Pid>) -> Vec<Pid> {
    let mut seen = std::collections::HashSet::new();
    pids.into_iter().filter(|pid| seen.insert(*pid)).collect()
}
