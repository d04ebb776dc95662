//! The processes of the machine and their parents.

use crate::{Error, Pid, Result, status};
use std::collections::HashMap;

/// A process in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its PID.
    pub pid: Pid,
    /// Its parent.
    pub parent: Pid,
    /// Its short name.
    pub name: String,
}

/// All processes in `/proc` at one moment.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    entries: Vec<Entry>,
}

impl Tree {
    /// Reads the list of processes, skipping any that end meanwhile.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub fn read() -> Result<Self> {
        let failed = |source| Error::Io { pid: Pid::this(), what: "the list of processes", source };
        let mut entries = Vec::new();
        for entry in std::fs::read_dir("/proc").map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(pid) = name.to_str().and_then(|n| n.parse().ok()).map(Pid) else { continue };
            if let Some(entry) = Entry::of(pid) {
                entries.push(entry);
            }
        }
        entries.sort_by_key(|entry| entry.pid);
        Ok(Tree { entries })
    }

    /// Iterates over all processes, ordered by PID.
    pub fn iter(&self) -> std::slice::Iter<'_, Entry> {
        self.entries.iter()
    }

    /// Returns `root` and everything below it, parents before their children. `root` is included even if it
    /// is not in the tree, so that an inspection of a nonexistent process fails for that process.
    #[must_use]
    pub fn below(&self, root: Pid) -> Vec<Pid> {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| entry.pid != entry.parent) {
            children.entry(entry.parent).or_default().push(entry.pid);
        }
        let mut found = vec![root];
        let mut next = 0;
        while let Some(&pid) = found.get(next) {
            // Removed from the map, so that even a tree read during changes has no cycles.
            found
                .extend(children.remove(&pid).unwrap_or_default().into_iter().filter(|&child| child != root));
            next += 1;
        }
        found
    }

    /// Returns the processes whose command line or short name satisfies `matches`, except those below another
    /// match. The calling process and its ancestors are excluded, because `sudo unbloat --name puma` also
    /// contains puma.
    #[must_use]
    pub fn roots_matching(&self, matches: impl Fn(&str) -> bool) -> Vec<Pid> {
        let parents: HashMap<Pid, Pid> = self.entries.iter().map(|e| (e.pid, e.parent)).collect();
        let parent = |pid: &Pid| parents.get(pid).copied();
        let own: Vec<Pid> =
            std::iter::successors(Some(Pid::this()), parent).take(self.entries.len() + 1).collect();
        let named: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| !own.contains(&entry.pid))
            .filter(|entry| {
                matches(&entry.name) || status::command(entry.pid).is_ok_and(|command| matches(command.raw()))
            })
            .collect();
        let has_matching_ancestor = |entry: &Entry| {
            let mut at = entry.parent;
            (0..self.entries.len()).any(|_| {
                let matching = named.iter().any(|n| n.pid == at);
                at = parents.get(&at).copied().unwrap_or(Pid(0));
                matching
            })
        };
        named.iter().filter(|entry| !has_matching_ancestor(entry)).map(|entry| entry.pid).collect()
    }
}

impl Entry {
    fn of(pid: Pid) -> Option<Self> {
        let stat = std::fs::read(pid.proc("stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    /// Parses `PID (NAME) STATE PPID …`; the name may contain parentheses and spaces.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let (before, after) = stat.rsplit_once(") ")?;
        let (_, name) = before.split_once(" (")?;
        let parent = Pid(after.split(' ').nth(1)?.parse().ok()?);
        Some(Entry { pid, parent, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn tree(pairs: &[(i32, i32)]) -> Tree {
        let entry = |&(pid, parent)| Entry { pid: Pid(pid), parent: Pid(parent), name: format!("p{pid}") };
        Tree { entries: pairs.iter().map(entry).collect() }
    }

    #[test]
    fn parents_come_before_children() {
        let tree = tree(&[(1, 0), (10, 1), (11, 10), (12, 10), (13, 12), (20, 1)]);
        assert_eq!(tree.below(Pid(10)), [10, 11, 12, 13].map(Pid));
        assert_eq!(tree.below(Pid(99)), [Pid(99)]);
    }

    #[test]
    fn a_cycle_ends() {
        assert_eq!(tree(&[(1, 2), (2, 1), (3, 3)]).below(Pid(1)), [1, 2].map(Pid));
    }

    #[test]
    fn only_the_topmost_match_counts() {
        let tree = tree(&[(1, 0), (999_990, 1), (999_991, 999_990), (999_992, 999_991)]);
        let roots = tree.roots_matching(|name| name == "p999990" || name == "p999992");
        assert_eq!(roots, [Pid(999_990)]);
    }

    #[test]
    fn a_strange_name_is_parsed() {
        let entry = Entry::parse(Pid(7), "7 (a) (b) S 3 7 7").unwrap();
        assert_eq!((entry.parent, entry.name.as_str()), (Pid(3), "a) (b"));
    }

    #[test]
    fn this_process_is_there() {
        let tree = Tree::read().unwrap();
        assert!(tree.below(Pid(std::os::unix::process::parent_id() as i32)).contains(&Pid::this()));
    }
}
