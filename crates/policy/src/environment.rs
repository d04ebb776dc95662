//! The variables that bring a policy about, kept apart from those that the user has set.
//!
//! What the user has in `LD_PRELOAD`, `RUBYOPT` and `MALLOC_CONF` is kept; ours is put in front, and what an outer
//! `unbloat run` left there (`UNBLOAT_POLICY` tells what) is taken out first, so that nesting does not pile up and `off` is a
//! control. Where the two sides contradict each other, a note says so.

use crate::policy::{Allocator, Policy};
use std::path::Path;
use unbloat_contract::Library;

/// What to change in an environment, and what there is to say about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Variables to set.
    pub set: Vec<(&'static str, String)>,
    /// Variables to remove: left from an earlier `unbloat run` and not wanted now.
    pub unset: Vec<&'static str>,
    /// Conflicts and limits, each a sentence for stderr.
    pub notes: Vec<String>,
}

/// The variables that only `unbloat run` sets, and that a nested run therefore starts without.
const OURS: [&str; 4] = ["UNBLOAT_POLICY", "UNBLOAT_TRIM", "UNBLOAT_COMPACT", "UNBLOAT_WARMUP"];

/// Parts of the names of libraries that bring a malloc of their own.
const ALLOCATORS: [&str; 6] = ["jemalloc", "tcmalloc", "mimalloc", "snmalloc", "libmesh", "hardened_malloc"];

/// glibc's malloc settings that a user may have (mallopt(3)), the limit of arenas apart.
const GLIBC_SETTINGS: [&str; 4] =
    ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_"];

/// What switches the runtime off, as the value of `UNBLOAT` (`settings::switch` of crates/runtime).
const OFF: [&str; 4] = ["0", "off", "false", "no"];

/// The changes that a policy makes to an environment, with our libraries in `libraries`.
#[must_use]
pub fn plan(policy: &Policy, libraries: &Path, environment: impl Fn(&str) -> Option<String>) -> Plan {
    let outer = environment("UNBLOAT_POLICY").and_then(|outer| outer.parse().ok()).unwrap_or(Policy::OFF);
    let mut plan = Plan::default();
    plan_preload(&mut plan, policy, &outer, libraries, &environment);
    plan_require(&mut plan, policy, libraries, &environment);
    plan_arenas(&mut plan, policy, &outer, &environment);
    note_glibc_settings(&mut plan, policy, &environment);
    // Also without a runtime: whoever looks at the process later, and a nested run, can tell.
    plan.set.push(("UNBLOAT_POLICY", policy.to_string()));
    if policy.needs_runtime() {
        plan.set.push(("UNBLOAT_TRIM", policy.trim.map_or("off", |trim| trim.word()).to_owned()));
        let off = environment("UNBLOAT").filter(|value| OFF.contains(&value.as_str()));
        plan.notes
            .extend(off.map(|value| format!("UNBLOAT={value} is set, so libunbloat.so will do nothing")));
    }
    plan.set.extend(policy.compact.map(|compact| ("UNBLOAT_COMPACT", compact.word().to_owned())));
    plan.set.extend(policy.warmup.then(|| ("UNBLOAT_WARMUP", "1".to_owned())));
    let stale = OURS.into_iter().filter(|name| environment(name).is_some());
    plan.unset.extend(stale.filter(|name| plan.set.iter().all(|(set, _)| set != name)));
    plan
}

/// `LD_PRELOAD`: the allocator first, then what the user has.
fn plan_preload(
    plan: &mut Plan,
    policy: &Policy,
    outer: &Policy,
    libraries: &Path,
    environment: &impl Fn(&str) -> Option<String>,
) {
    let before = environment("LD_PRELOAD").unwrap_or_default();
    let left = preloaded(outer, libraries);
    let theirs: Vec<&str> =
        items(&before).filter(|item| !is_ours(item) && Some(*item) != left.as_deref()).collect();
    let ours = preloaded(policy, libraries);
    let rival = theirs.iter().find(|item| is_allocator(item) && Some(**item) != ours.as_deref());
    if let Some(rival) = rival {
        plan.notes.extend(match &ours {
            Some(ours) => Some(format!(
                "LD_PRELOAD already names the allocator {rival}; {ours} is put in front of it and serves malloc"
            )),
            None if policy.trim.is_some() || policy.arenas.is_some() => Some(format!(
                "LD_PRELOAD already names the allocator {rival}, which serves malloc instead of glibc: arenas=N has no \
                 effect there, and trims are its own"
            )),
            None => None,
        });
    }
    if let Some(ours) = &ours {
        let conf = environment("MALLOC_CONF").filter(|conf| !conf.is_empty() && ours.contains("jemalloc"));
        plan.notes
            .extend(conf.map(|conf| format!("MALLOC_CONF={conf} overrides the same settings of the policy")));
    }
    let wanted: Vec<&str> = ours
        .as_deref()
        .into_iter()
        .chain(theirs.iter().copied().filter(|item| Some(*item) != ours.as_deref()))
        .collect();
    change(plan, "LD_PRELOAD", &before, &wanted, ":");
}

/// The allocator that a policy preloads.
fn preloaded(policy: &Policy, libraries: &Path) -> Option<String> {
    match &policy.allocator {
        Allocator::Own => None,
        Allocator::Jemalloc => Some(libraries.join(Library::Jemalloc.file_name()).display().to_string()),
        Allocator::System(path) => Some(path.display().to_string()),
    }
}

/// `RUBYOPT`: the runtime first, then what the user has.
fn plan_require(
    plan: &mut Plan,
    policy: &Policy,
    libraries: &Path,
    environment: &impl Fn(&str) -> Option<String>,
) {
    let before = environment("RUBYOPT").unwrap_or_default();
    let runtime = libraries.join(Library::Runtime.file_name());
    let ours = policy.needs_runtime().then(|| format!("-r{}", runtime.display()));
    let theirs = before.split_whitespace().filter(|item| !is_ours(item));
    let wanted: Vec<&str> = ours.as_deref().into_iter().chain(theirs).collect();
    change(plan, "RUBYOPT", &before, &wanted, " ");
}

/// `MALLOC_ARENA_MAX`.
fn plan_arenas(
    plan: &mut Plan,
    policy: &Policy,
    outer: &Policy,
    environment: &impl Fn(&str) -> Option<String>,
) {
    let before = environment("MALLOC_ARENA_MAX");
    let left = before.is_some() && before == outer.arenas.map(|arenas| arenas.to_string());
    let theirs = before.filter(|theirs| !left && !theirs.is_empty());
    let replaced = policy.allocator != Allocator::Own;
    let Some(arenas) = policy.arenas.map(|arenas| arenas.to_string()) else {
        plan.unset.extend(left.then_some("MALLOC_ARENA_MAX"));
        plan.notes
            .extend(theirs.filter(|_| replaced).map(|theirs| without_glibc("MALLOC_ARENA_MAX", &theirs)));
        return;
    };
    if let Some(theirs) = theirs.filter(|theirs| *theirs != arenas) {
        plan.notes.push(format!("MALLOC_ARENA_MAX={theirs} is replaced by {arenas}, as the policy says"));
    }
    if replaced {
        plan.notes.push(without_glibc("arenas", &arenas));
    }
    plan.set.push(("MALLOC_ARENA_MAX", arenas));
}

/// The user's other settings for glibc's malloc, where they come to nothing or undo the policy.
fn note_glibc_settings(plan: &mut Plan, policy: &Policy, environment: &impl Fn(&str) -> Option<String>) {
    let tunables = environment("GLIBC_TUNABLES").unwrap_or_default();
    let tunables =
        tunables.split(':').filter_map(|tunable| tunable.strip_prefix("glibc.malloc.")?.split_once('='));
    if policy.allocator != Allocator::Own {
        let set = GLIBC_SETTINGS.into_iter().filter_map(|name| Some((name, environment(name)?)));
        plan.notes.extend(set.map(|(name, value)| without_glibc(name, &value)));
        plan.notes
            .extend(tunables.map(|(name, value)| without_glibc(&format!("glibc.malloc.{name}"), value)));
        return;
    }
    // A tunable wins over the variable that stands for it (`__tunables_init`, elf/dl-tunables.c).
    let undone = |arenas: u16| {
        let limit = tunables.filter(|(name, _)| *name == "arena_max").map(|(_, value)| value).next_back()?;
        (limit != arenas.to_string()).then(|| {
            format!(
                "GLIBC_TUNABLES holds glibc.malloc.arena_max={limit}, which wins over the policy's arenas={arenas}: take it out"
            )
        })
    };
    plan.notes.extend(policy.arenas.and_then(undone));
}

/// Why a setting has no effect where another allocator serves.
fn without_glibc(name: &str, value: &str) -> String {
    format!("{name}={value} concerns glibc's malloc, which another allocator replaces here: it has no effect")
}

/// Sets or removes a list when its items are to be others than before.
fn change(plan: &mut Plan, name: &'static str, before: &str, wanted: &[&str], separator: &str) {
    if items(before).eq(wanted.iter().copied()) {
        return;
    }
    if wanted.is_empty() {
        plan.unset.push(name);
    } else {
        plan.set.push((name, wanted.join(separator)));
    }
}

/// The items of `LD_PRELOAD`, separated by spaces or colons (ld.so(8)). The words of `RUBYOPT` hold no colon that
/// matters here: they are only compared.
fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split([' ', ':']).filter(|item| !item.is_empty())
}

fn is_ours(item: &str) -> bool {
    let path = item.strip_prefix("-r").unwrap_or(item);
    let name = path.rsplit('/').next().unwrap_or_default();
    Library::ALL.into_iter().any(|library| library.file_name() == name)
}

/// Whether a library brings a malloc of its own, by its name.
#[must_use]
pub fn is_allocator(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    ALLOCATORS.iter().any(|allocator| name.contains(allocator))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn planned(policy: &str, before: &[(&str, &str)]) -> Plan {
        plan(&policy.parse().unwrap(), Path::new("/lib/u"), |name| {
            before.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn value<'a>(plan: &'a Plan, name: &str) -> Option<&'a str> {
        plan.set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    }

    #[test]
    fn off_changes_nothing() {
        let before = [("LD_PRELOAD", "/x.so"), ("RUBYOPT", "-W0  -rset"), ("MALLOC_ARENA_MAX", "2")];
        let only_its_name = Plan { set: vec![("UNBLOAT_POLICY", "off".to_owned())], ..Plan::default() };
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
        assert!(plan.notes.iter().any(|note| note.contains("libjemalloc.so.2")));
        assert!(plan.notes.iter().any(|note| note.contains("narenas:4")));
        assert!(plan.notes.iter().any(|note| note.contains("MALLOC_ARENA_MAX=4")));
    }

    #[test]
    fn an_allocator_that_serves_instead_of_glibc_is_named() {
        let preloaded = [("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4")];
        for policy in ["arenas=1", "trim=adaptive"] {
            let plan = planned(policy, &preloaded);
            assert!(
                plan.notes.iter().any(|note| note.contains("libtcmalloc.so.4")),
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
        let notes = planned("lean", &before).notes;
        assert_eq!(notes.len(), 3, "{notes:?}");
        let notes = planned("arenas=2", &before).notes;
        assert!(notes.len() == 1 && notes[0].contains("arena_max=3"), "{notes:?}");
        assert!(planned("arenas=3", &before[2..]).notes.is_empty());
        assert!(planned("trim=adaptive", &before).notes.is_empty());
    }

    #[test]
    fn every_word_that_switches_off_is_known() {
        for word in OFF {
            let notes = planned("lean", &[("UNBLOAT", word)]).notes;
            assert!(notes.len() == 1 && notes[0].contains(&format!("UNBLOAT={word}")), "{notes:?}");
        }
        assert!(planned("lean", &[("UNBLOAT", "1")]).notes.is_empty());
    }
}
