//! The variables that bring a policy about, kept apart from those that the user has set.
//!
//! What the user has in `LD_PRELOAD`, `RUBYOPT` and `MALLOC_CONF` is kept; ours is put in front, and what an earlier
//! `unbloat run` left there is taken out first, so that nesting does not pile up. Where the two sides contradict each
//! other, a note says so.

use crate::bundle::Library;
use crate::policy::{Allocator, Policy};
use std::path::Path;

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

/// The changes that a policy makes to an environment, with our libraries in `libraries`.
#[must_use]
pub fn plan(policy: &Policy, libraries: &Path, environment: impl Fn(&str) -> Option<String>) -> Plan {
    let mut plan = Plan::default();
    plan_preload(&mut plan, policy, libraries, &environment);
    plan_require(&mut plan, policy, libraries, &environment);
    plan_arenas(&mut plan, policy, &environment);
    if policy.needs_runtime() {
        plan.set.push(("UNBLOAT_POLICY", policy.to_string()));
        plan.set.push(("UNBLOAT_TRIM", policy.trim.map_or("off", |trim| trim.word()).to_owned()));
        if environment("UNBLOAT").is_some_and(|value| value == "0") {
            plan.notes.push("UNBLOAT=0 is set, so the runtime will do nothing".to_owned());
        }
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
    libraries: &Path,
    environment: &impl Fn(&str) -> Option<String>,
) {
    let before = environment("LD_PRELOAD").unwrap_or_default();
    let theirs: Vec<&str> = items(&before).filter(|item| !is_ours(item)).collect();
    let ours = match &policy.allocator {
        Allocator::Own => None,
        Allocator::Jemalloc => Some(libraries.join(Library::Jemalloc.file_name()).display().to_string()),
        Allocator::System(path) => Some(path.display().to_string()),
    };
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
fn plan_arenas(plan: &mut Plan, policy: &Policy, environment: &impl Fn(&str) -> Option<String>) {
    let Some(arenas) = policy.arenas.map(|arenas| arenas.to_string()) else { return };
    if let Some(theirs) = environment("MALLOC_ARENA_MAX").filter(|theirs| *theirs != arenas) {
        plan.notes.push(format!("MALLOC_ARENA_MAX={theirs} is replaced by {arenas}, as the policy says"));
    }
    if policy.allocator != Allocator::Own {
        plan.notes
            .push(format!("arenas={arenas} concerns glibc's malloc, which another allocator replaces here"));
    }
    plan.set.push(("MALLOC_ARENA_MAX", arenas));
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
        assert_eq!(planned("off", &[("LD_PRELOAD", "/x.so"), ("RUBYOPT", "-W0  -rset")]), Plan::default());
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
}
