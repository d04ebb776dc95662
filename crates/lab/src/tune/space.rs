//! The setups to try for a plan, likely ones first: a search with little time tries the front of the list.
//!
//! Three kinds are tried alone and in combination: the allocator, the time of Ruby's collections, and Puma's
//! numbers of processes and threads. Kinds that cannot be tried here are listed with the reason.

use super::puma::{Cluster, refork};
use crate::plan::Plan;
use crate::variant::{Variant, built_in};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The setups for a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Space {
    /// Setups, most promising first.
    pub candidates: Vec<Variant>,
    /// Kinds that cannot be tried.
    pub left_out: Vec<LeftOut>,
}

/// A kind of setup that cannot be tried.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// The setup.
    pub what: String,
    /// The reason.
    pub why: Why,
}

/// The reason why a setup cannot be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Its library is not installed.
    NotInstalled,
    /// The start command does not name both workers and threads.
    NoNumbers,
    /// The start command does not run Puma itself with several workers.
    NotPuma,
    /// There is no time for it.
    NoTime,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::NotInstalled => "its library is not installed",
            Why::NoNumbers => "server.start does not name both workers and threads (puma -w 2 -t 5)",
            Why::NotPuma => "server.start does not run puma itself with several workers",
            Why::NoTime => "no time for it; a longer --within tries it",
        })
    }
}

/// Allocators and policies, likely ones first.
const MEMORY: [&str; 12] = [
    "lean",
    "jemalloc-tuned",
    "arenas=2",
    "arenas=1,trim=adaptive",
    "jemalloc-bundled",
    "trim=adaptive",
    "arenas=1",
    "trim=major",
    "jemalloc",
    "compact",
    "mimalloc",
    "tcmalloc",
];

/// Number of them to combine with the other kinds.
const COMBINED: usize = 3;

/// Settings of Ruby's collector.
struct Collection {
    name: &'static str,
    /// First version that reads all of the variables.
    since: (u32, u32),
    variables: &'static [(&'static str, &'static str)],
}

/// Defaults and meaning: CRuby's `gc.c` (2.7 to 3.3; `gc/default/default.c` from 3.4 on). Values below the defaults make
/// full collections come earlier.
const COLLECTION: [Collection; 3] = [
    Collection {
        name: "gc-early",
        since: (2, 1),
        variables: &[
            // Defaults: 32 MiB, 128 MiB, 2.0.
            ("RUBY_GC_MALLOC_LIMIT_MAX", "16777216"),
            ("RUBY_GC_OLDMALLOC_LIMIT_MAX", "25165824"),
            ("RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR", "1.3"),
        ],
    },
    Collection {
        name: "gc-slow-growth",
        since: (2, 1),
        // Default: 1.8.
        variables: &[("RUBY_GC_HEAP_GROWTH_FACTOR", "1.1")],
    },
    Collection {
        name: "gc-unprotected",
        since: (3, 3),
        // Default: 0.01.
        variables: &[("RUBY_GC_HEAP_REMEMBERED_WB_UNPROTECTED_OBJECTS_LIMIT_RATIO", "0.005")],
    },
];

/// Requests after which workers are forked from a worker again. One refork early in a run frees most
/// (docs/results); Puma's own default, 1,000, would not come within a short run.
const REFORK_AFTER: usize = 150;

/// Lists the setups for a plan. `ruby` is the version of the server's Ruby, if known; `is_installed` checks
/// for a library by its file name.
#[must_use]
pub fn space(
    plan: &Plan,
    control: &Variant,
    own: &[Variant],
    ruby: Option<(u32, u32)>,
    is_installed: impl Fn(&str) -> bool,
) -> Space {
    let mut left_out = Vec::new();
    let mut leave_out = |what: &str, why| left_out.push(LeftOut { what: what.to_owned(), why });
    let is_there = |variant: &Variant| variant.preload.as_deref().is_none_or(&is_installed);
    let (memory, missing): (Vec<_>, Vec<_>) = MEMORY.into_iter().map(memory).partition(is_there);
    missing.iter().for_each(|variant| leave_out(&variant.name, Why::NotInstalled));
    let start = control.start.as_ref().unwrap_or(&plan.server.start);
    let others: Vec<Variant> = collection(ruby).chain(processes(start, &mut leave_out)).collect();
    let pairs =
        memory.iter().take(COMBINED).flat_map(|first| others.iter().map(move |second| both(first, second)));
    let all = own.iter().cloned().chain(memory.clone()).chain(others.clone()).chain(pairs);
    let mut names = BTreeSet::from([control.name.clone()]);
    let mut settings = vec![Variant { name: String::new(), ..control.clone() }];
    let mut is_new = |variant: &Variant| {
        let nameless = Variant { name: String::new(), ..variant.clone() };
        let is_new = !settings.contains(&nameless) && names.insert(variant.name.clone());
        settings.push(nameless);
        is_new
    };
    // A setup of the plan is complete; the others are added to the control's settings.
    let own_count = own.len();
    let candidates = all
        .enumerate()
        .map(|(index, variant)| if index < own_count { variant } else { both(&bare(control), &variant) })
        .filter(|variant| is_new(variant))
        .collect();
    Space { candidates, left_out }
}

fn memory(name: &str) -> Variant {
    built_in(name).unwrap_or_else(|| Variant {
        name: name.to_owned(),
        policy: Some(name.to_owned()),
        allocator: Some("glibc".to_owned()),
        ..Variant::default()
    })
}

/// Returns the settings of Ruby's collector. A Ruby with an unknown version gets those that all have.
fn collection(ruby: Option<(u32, u32)>) -> impl Iterator<Item = Variant> {
    let known = ruby.unwrap_or((2, 7));
    COLLECTION.into_iter().filter(move |setting| known >= setting.since).map(
        |Collection { name, variables, .. }| Variant {
            name: name.to_owned(),
            environment: variables
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Variant::default()
        },
    )
}

fn processes(start: &[String], leave_out: &mut impl FnMut(&str, Why)) -> Vec<Variant> {
    let mut found = Vec::new();
    match Cluster::of(start) {
        Some(cluster) => found.extend(cluster.alike().into_iter().map(|(workers, threads)| Variant {
            name: format!("puma={workers}x{threads}"),
            start: Some(cluster.with(workers, threads)),
            ..Variant::default()
        })),
        None => leave_out("other numbers of workers and threads", Why::NoNumbers),
    }
    match refork(start, REFORK_AFTER) {
        Some(start) => {
            found.push(Variant { name: "refork".to_owned(), start: Some(start), ..Variant::default() });
        }
        None => leave_out("refork", Why::NotPuma),
    }
    found
}

/// Returns the control without its name, as the base of a setup.
fn bare(control: &Variant) -> Variant {
    Variant { name: String::new(), ..control.clone() }
}

/// Combines both; the second one's settings win.
fn both(first: &Variant, second: &Variant) -> Variant {
    let pick = |a: &Option<String>, b: &Option<String>| b.clone().or_else(|| a.clone());
    let mut environment: BTreeMap<_, _> = first.environment.clone();
    environment.extend(second.environment.clone());
    // A chosen allocator replaces the first one's.
    let chooses = second.preload.is_some() || second.policy.is_some() || second.allocator.is_some();
    let names: Vec<&str> =
        [&first.name, &second.name].into_iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
    Variant {
        name: names.join(" + "),
        environment,
        preload: if chooses { second.preload.clone() } else { first.preload.clone() },
        package: if chooses { second.package.clone() } else { first.package.clone() },
        policy: if chooses { second.policy.clone() } else { first.policy.clone() },
        allocator: if chooses { second.allocator.clone() } else { first.allocator.clone() },
        wrapper: if second.wrapper.is_empty() { first.wrapper.clone() } else { second.wrapper.clone() },
        start: second.start.clone().or_else(|| first.start.clone()),
        mapped: pick(&first.mapped, &second.mapped),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plan(start: &str) -> Plan {
        Plan::parse(&format!(
            "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [{start}]\nready = {{ line = \"r\" }}\n[load]\ndriver = \"own\"\n"
        ))
        .unwrap()
    }

    const PUMA: &str = r#""puma", "-w", "2", "-t", "5""#;

    fn names(space: &Space) -> Vec<&str> {
        space.candidates.iter().map(|variant| variant.name.as_str()).collect()
    }

    fn of(start: &str, ruby: Option<(u32, u32)>) -> Space {
        let plan = plan(start);
        let variants = plan.variants().unwrap();
        space(&plan, &variants[0], &variants[1..], ruby, |library| library.contains("jemalloc"))
    }

    #[test]
    fn the_likely_ones_come_first_each_once_and_combined_later() {
        let space = of(PUMA, Some((3, 1)));
        let names = names(&space);
        assert_eq!(names[..3], ["lean", "jemalloc-tuned", "arenas=2"], "the plan's own is not tried twice");
        for name in [
            "arenas=1,trim=adaptive",
            "gc-early",
            "puma=1x10",
            "refork",
            "lean + refork",
            "jemalloc-tuned + gc-early",
        ] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(
            !names.contains(&"glibc") && !names.contains(&"gc-unprotected") && !names.contains(&"mimalloc")
        );
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
        let why = |what: &str| space.left_out.iter().find(|left| left.what == what).map(|left| left.why);
        assert_eq!((why("mimalloc"), why("refork")), (Some(Why::NotInstalled), None));
    }

    #[test]
    fn a_newer_ruby_has_more_to_set_and_a_script_without_numbers_fewer_processes_to_share() {
        assert!(names(&of(PUMA, Some((3, 3)))).contains(&"gc-unprotected"));
        let space = of(r#""./start""#, None);
        assert!(names(&space).iter().all(|name| !name.contains("puma=") && !name.contains("refork")));
        let reasons: Vec<Why> = space.left_out.iter().map(|left| left.why).collect();
        assert!(reasons.contains(&Why::NoNumbers) && reasons.contains(&Why::NotPuma));
    }

    #[test]
    fn a_combination_has_the_settings_of_both() {
        let space = of(PUMA, Some((3, 1)));
        let of = |name: &str| space.candidates.iter().find(|variant| variant.name == name).unwrap();
        let both = of("jemalloc-tuned + gc-early");
        assert!(both.environment.contains_key("MALLOC_CONF"));
        assert_eq!(both.environment["RUBY_GC_HEAP_OLDOBJECT_LIMIT_FACTOR"], "1.3");
        assert_eq!((both.allocator.as_deref(), both.preload.is_some()), (Some("jemalloc"), true));
        let lean = of("lean + puma=1x10");
        assert_eq!(
            (lean.policy.as_deref(), lean.start.as_ref().unwrap().join(" ")),
            (Some("lean"), "puma -w 1 -t 10".to_owned())
        );
        // Alone it keeps the control's allocator.
        assert_eq!(of("gc-early").allocator.as_deref(), Some("glibc"));
    }
}
