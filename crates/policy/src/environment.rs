//! Computes the variables of a policy, keeping those that the user has set.
//!
//! The user's own entries in `LD_PRELOAD`, `RUBYOPT` and `MALLOC_CONF` stay, with ours in front. The entries
//! of an outer `unbloat run` (recognized by `UNBLOAT_POLICY`) are removed first, so that nesting does not
//! accumulate entries and `off` is a control. Contradictions between the two are reported as a [`Note`].

use crate::note::Note;
use crate::policy::{Allocator, Carrier, Policy, rows};
use std::path::Path;
use unbloat_contract::{Library, Variable, switch};

/// Changes to an environment, with notes on conflicts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Variables to set.
    pub set: Vec<(&'static str, String)>,
    /// Variables to remove: left over from an earlier `unbloat run` and no longer wanted.
    pub unset: Vec<&'static str>,
    /// Conflicts and limits.
    pub notes: Vec<Note>,
}

/// Name parts of libraries that contain a malloc.
const ALLOCATORS: [&str; 6] = ["jemalloc", "tcmalloc", "mimalloc", "snmalloc", "libmesh", "hardened_malloc"];

/// Settings for glibc's malloc that a user may have (mallopt(3)), except for the limit of arenas.
const GLIBC_SETTINGS: [&str; 4] =
    ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"];

/// Returns the changes that a policy makes to an environment, with our libraries in `libraries`.
#[must_use]
pub fn changes(policy: &Policy, libraries: &Path, environment: impl Fn(&str) -> Option<String>) -> Changes {
    let outer = environment(Variable::Policy.name()).and_then(|outer| outer.parse().ok());
    let mut draft = Draft {
        policy,
        outer: outer.unwrap_or(Policy::OFF),
        libraries,
        environment: &environment,
        changes: Changes::default(),
    };
    draft.require_runtime();
    for row in rows() {
        match row.carrier {
            Carrier::Environment(change) => change(&mut draft),
            Carrier::Runtime { variable, value } if policy.needs_runtime() => {
                draft.changes.set.extend(value(policy).map(|value| (variable.name(), value.to_owned())));
            }
            Carrier::Runtime { .. } => {}
        }
    }
    draft.note_glibc_settings();
    draft.note_switch();
    draft.name_policy();
    draft.changes
}

/// Changes under construction.
pub(crate) struct Draft<'a> {
    policy: &'a Policy,
    /// The policy of an outer `unbloat run`.
    outer: Policy,
    libraries: &'a Path,
    environment: &'a dyn Fn(&str) -> Option<String>,
    changes: Changes,
}

/// Computes `LD_PRELOAD`: the policy's allocator first, then the user's entries.
pub(crate) fn preload(draft: &mut Draft<'_>) {
    let before = draft.value("LD_PRELOAD").unwrap_or_default();
    let left = draft.preloaded(&draft.outer);
    let theirs: Vec<&str> =
        items(&before).filter(|item| !is_ours(item) && Some(*item) != left.as_deref()).collect();
    let ours = draft.preloaded(draft.policy);
    let rival = theirs.iter().find(|item| is_allocator(item) && Some(**item) != ours.as_deref());
    if let Some(rival) = rival {
        draft.note_rival(rival, ours.as_deref());
    }
    if let Some(ours) = &ours {
        let conf = draft.value("MALLOC_CONF").filter(|conf| !conf.is_empty() && ours.contains("jemalloc"));
        draft.changes.notes.extend(conf.map(|conf| Note::JemallocSettings { conf }));
    }
    let behind = theirs.iter().copied().filter(|item| Some(*item) != ours.as_deref());
    let wanted: Vec<&str> = ours.as_deref().into_iter().chain(behind).collect();
    draft.change_list("LD_PRELOAD", &before, &wanted, ":");
    // Identifies our entry for the runtime.
    draft.changes.set.extend(ours.map(|ours| (Variable::Preload.name(), ours)));
}

/// Computes `MALLOC_ARENA_MAX`.
pub(crate) fn arenas(draft: &mut Draft<'_>) {
    const NAME: &str = "MALLOC_ARENA_MAX";
    let before = draft.value(NAME);
    let left = before.is_some() && before == draft.outer.arenas.map(|arenas| arenas.to_string());
    let theirs = before.filter(|theirs| !left && !theirs.is_empty());
    let replaced = draft.replaces_glibc();
    let Some(arenas) = draft.policy.arenas.map(|arenas| arenas.to_string()) else {
        draft.changes.unset.extend(left.then_some(NAME));
        let idle = theirs.filter(|_| replaced).map(|theirs| Note::without_glibc(NAME, &theirs));
        draft.changes.notes.extend(idle);
        return;
    };
    if let Some(theirs) = theirs.filter(|theirs| *theirs != arenas) {
        draft.changes.notes.push(Note::ArenasReplaced { theirs, ours: arenas.clone() });
    }
    if replaced {
        draft.changes.notes.push(Note::without_glibc("arenas", &arenas));
    }
    if draft.policy.loads_runtime() {
        draft.changes.set.push((Variable::Arenas.name(), arenas.clone()));
    }
    draft.changes.set.push((NAME, arenas));
}

impl Draft<'_> {
    fn value(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    fn replaces_glibc(&self) -> bool {
        self.policy.allocator != Allocator::Own
    }

    /// Returns the allocator that a policy preloads.
    fn preloaded(&self, policy: &Policy) -> Option<String> {
        match &policy.allocator {
            Allocator::Own => None,
            Allocator::Jemalloc => {
                Some(self.libraries.join(Library::Jemalloc.file_name()).display().to_string())
            }
            Allocator::System(path) => Some(path.display().to_string()),
        }
    }

    fn note_rival(&mut self, rival: &str, ours: Option<&str>) {
        let rival = rival.to_owned();
        match ours {
            Some(ours) => self.changes.notes.push(Note::RivalBehind { rival, ours: ours.to_owned() }),
            None if self.policy.trim != unbloat_contract::Trim::Off || self.policy.arenas.is_some() => {
                self.changes.notes.push(Note::RivalServes { rival });
            }
            None => {}
        }
    }

    /// Computes `RUBYOPT`: the runtime first, then the user's options.
    fn require_runtime(&mut self) {
        let before = self.value("RUBYOPT").unwrap_or_default();
        let runtime = self.libraries.join(Library::Runtime.file_name());
        let ours = self.policy.loads_runtime().then(|| format!("-r{}", runtime.display()));
        let theirs = before.split_whitespace().filter(|item| !is_ours(item));
        let wanted: Vec<&str> = ours.as_deref().into_iter().chain(theirs).collect();
        self.change_list("RUBYOPT", &before, &wanted, " ");
    }

    /// Notes the user's other settings for glibc's malloc if they have no effect or undo the policy.
    fn note_glibc_settings(&mut self) {
        let tunables = self.value("GLIBC_TUNABLES").unwrap_or_default();
        let tunables =
            tunables.split(':').filter_map(|tunable| tunable.strip_prefix("glibc.malloc.")?.split_once('='));
        if self.replaces_glibc() {
            let set = GLIBC_SETTINGS.into_iter().filter_map(|name| Some((name, self.value(name)?)));
            let settings: Vec<Note> = set.map(|(name, value)| Note::without_glibc(name, &value)).collect();
            let named =
                |(name, value): (&str, &str)| Note::without_glibc(&format!("glibc.malloc.{name}"), value);
            self.changes.notes.extend(settings.into_iter().chain(tunables.map(named)));
            return;
        }
        // A tunable takes precedence over the corresponding variable (`__tunables_init`, elf/dl-tunables.c).
        let limit = tunables.filter(|(name, _)| *name == "arena_max").map(|(_, value)| value).next_back();
        if let (Some(arenas), Some(limit)) = (self.policy.arenas, limit)
            && limit != arenas.to_string()
        {
            self.changes.notes.push(Note::TunableWins { limit: limit.to_owned(), arenas });
        }
    }

    fn note_switch(&mut self) {
        let value = self.value(Variable::Enabled.name()).filter(|value| switch(value) == Some(false));
        let value = value.filter(|_| self.policy.needs_runtime());
        self.changes.notes.extend(value.map(|value| Note::SwitchedOff { value }));
    }

    /// Names the policy, even without a runtime, so that the process can be identified later, also by a
    /// nested run. Removes variables of an outer run that this one does not set.
    fn name_policy(&mut self) {
        self.changes.set.push((Variable::Policy.name(), self.policy.to_string()));
        let names = Variable::OF_A_POLICY.map(Variable::name);
        let stale: Vec<&str> = names.into_iter().filter(|name| self.value(name).is_some()).collect();
        let set = &self.changes.set;
        let stale = stale.into_iter().filter(|name| set.iter().all(|(set, _)| set != name));
        self.changes.unset.extend(stale.collect::<Vec<_>>());
    }

    /// Sets or removes a list if its items change.
    fn change_list(&mut self, name: &'static str, before: &str, wanted: &[&str], separator: &str) {
        if items(before).eq(wanted.iter().copied()) {
            return;
        }
        if wanted.is_empty() {
            self.changes.unset.push(name);
        } else {
            self.changes.set.push((name, wanted.join(separator)));
        }
    }
}

/// Iterates over the items of `LD_PRELOAD`, separated by spaces or colons (ld.so(8)). Colons in `RUBYOPT` do
/// not matter here, because its words are only compared.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split([' ', ':']).filter(|item| !item.is_empty())
}

fn is_ours(item: &str) -> bool {
    let path = item.strip_prefix("-r").unwrap_or(item);
    let name = path.rsplit('/').next().unwrap_or_default();
    Library::ALL.into_iter().any(|library| library.file_name() == name)
}

/// Returns whether a library contains a malloc, judging by its name.
#[must_use]
pub fn is_allocator(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ALLOCATORS.iter().any(|allocator| name.contains(allocator))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn notes_of(changes: &Changes) -> Vec<String> {
        changes.notes.iter().map(ToString::to_string).collect()
    }

    fn planned(policy: &str, before: &[(&str, &str)]) -> Changes {
        changes(&policy.parse().unwrap(), Path::new("/lib/u"), |name| {
            before.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn value<'a>(changes: &'a Changes, name: &str) -> Option<&'a str> {
        changes.set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn off_changes_nothing() {
        let before = [("LD_PRELOAD", "/x.so"), ("RUBYOPT", "-W0  -rset"), ("MALLOC_ARENA_MAX", "2")];
        let only_its_name = Changes { set: vec![("UNBLOAT_POLICY", "off".to_owned())], ..Changes::default() };
        assert_eq!(planned("off", &before), only_its_name);
    }

    #[test]
    fn a_trim_policy_loads_the_runtime_into_ruby_only() {
        let plan = planned("trim=major", &[]);
        assert_eq!(value(&plan, "RUBYOPT"), Some("-r/lib/u/libunbloat.so"));
        assert_eq!(value(&plan, "UNBLOAT_TRIM"), Some("major"));
        assert_eq!(value(&plan, "LD_PRELOAD"), None);
    }

    #[test]
    fn what_the_user_has_is_kept_behind_ours() {
        let before = [("LD_PRELOAD", "/a.so /b.so"), ("RUBYOPT", "-W0 -rset")];
        let plan = planned("allocator=jemalloc,trim=adaptive", &before);
        assert_eq!(value(&plan, "LD_PRELOAD"), Some("/lib/u/libunbloat-jemalloc.so:/a.so:/b.so"));
        assert_eq!(value(&plan, "RUBYOPT"), Some("-r/lib/u/libunbloat.so -W0 -rset"));
        assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    }

    #[test]
    fn a_rival_allocator_and_conflicting_settings_are_named() {
        let before =
            [("LD_PRELOAD", "libjemalloc.so.2"), ("MALLOC_CONF", "narenas:4"), ("MALLOC_ARENA_MAX", "4")];
        let plan = planned("allocator=jemalloc,arenas=1", &before);
        assert_eq!(plan.notes.len(), 4, "{:?}", plan.notes);
        assert!(notes_of(&plan).iter().any(|note| note.contains("libjemalloc.so.2")));
        assert!(notes_of(&plan).iter().any(|note| note.contains("narenas:4")));
        assert!(notes_of(&plan).iter().any(|note| note.contains("MALLOC_ARENA_MAX=4")));
    }

    #[test]
    fn an_allocator_that_serves_instead_of_glibc_is_named() {
        let preloaded = [("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4")];
        for policy in ["arenas=1", "trim=adaptive"] {
            let plan = planned(policy, &preloaded);
            assert!(
                notes_of(&plan).iter().any(|note| note.contains("libtcmalloc.so.4")),
                "{policy}: {:?}",
                plan.notes
            );
        }
        assert!(planned("compact=boot", &preloaded).notes.is_empty());
    }

    #[test]
    fn a_nested_run_does_not_pile_up() {
        let before = [
            ("LD_PRELOAD", "/old/libunbloat-jemalloc.so:/a.so"),
            ("RUBYOPT", "-r/old/libunbloat.so"),
            ("UNBLOAT_TRIM", "adaptive"),
        ];
        let plan = planned("off", &before);
        assert_eq!(value(&plan, "LD_PRELOAD"), Some("/a.so"));
        assert_eq!(plan.unset, ["RUBYOPT", "UNBLOAT_TRIM"]);
    }

    #[test]
    fn what_an_outer_run_set_is_told_from_what_the_user_has() {
        let outer = [
            ("UNBLOAT_POLICY", "allocator=system:/m/libmimalloc.so,arenas=2"),
            ("LD_PRELOAD", "/m/libmimalloc.so:/a.so"),
            ("MALLOC_ARENA_MAX", "2"),
        ];
        let off = planned("off", &outer);
        assert_eq!((value(&off, "LD_PRELOAD"), value(&off, "UNBLOAT_POLICY")), (Some("/a.so"), Some("off")));
        assert_eq!((off.unset, off.notes), (vec!["MALLOC_ARENA_MAX"], Vec::new()));
        let one = planned("arenas=1", &outer);
        assert_eq!(value(&one, "MALLOC_ARENA_MAX"), Some("1"));
        assert!(one.notes.is_empty(), "{:?}", one.notes);
        let users = planned("off", &[("UNBLOAT_POLICY", "arenas=2"), ("MALLOC_ARENA_MAX", "4")]);
        assert!(users.unset.is_empty(), "{users:?}");
    }

    #[test]
    fn settings_for_glibc_that_come_to_nothing_are_named() {
        let before = [
            ("MALLOC_TRIM_THRESHOLD_", "100000"),
            ("MALLOC_ARENA_MAX", "2"),
            ("GLIBC_TUNABLES", "glibc.cpu.x86_ibt=on:glibc.malloc.arena_max=3"),
        ];
        let notes = notes_of(&planned("lean", &before));
        assert_eq!(notes.len(), 3, "{notes:?}");
        let notes = notes_of(&planned("arenas=2", &before));
        assert!(notes.len() == 1 && notes[0].contains("arena_max=3"), "{notes:?}");
        assert!(planned("arenas=3", &before[2..]).notes.is_empty());
        assert!(planned("trim=adaptive", &before).notes.is_empty());
    }

    #[test]
    fn every_word_that_switches_off_is_known() {
        for word in ["0", "off", "false", "no"] {
            let notes = notes_of(&planned("lean", &[("UNBLOAT", word)]));
            assert!(notes.len() == 1 && notes[0].contains(&format!("UNBLOAT={word}")), "{notes:?}");
        }
        assert!(planned("lean", &[("UNBLOAT", "1")]).notes.is_empty());
    }
}
