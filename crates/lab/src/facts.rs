//! Facts about the origin of an experiment's runs: the machine, the build and the software, and changes
//! between runs.

use crate::file::Stored;
use crate::result::RunResult;
use crate::variant::Variant;
use crate::{machine, software};
use std::collections::BTreeMap;
use unbloat_recording::RunId;

/// A fact that differs between runs that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixed {
    /// Its name, and the variant's if it belongs to one.
    pub what: String,
    /// Its values, in the order of their appearance.
    pub values: Vec<String>,
}

impl Stored {
    /// Returns the known facts about the origin of the figures, for people: the machine's facts, the server's
    /// software by variant, and the CPU share of other programs.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts: Vec<(String, String)> = Vec::new();
        for name in self.machine_names() {
            let values = distinct(self.counting().filter_map(|(id, _)| self.machine_fact(id, &name)));
            let known = self.environment.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone());
            let value = if values.is_empty() { known.unwrap_or_default() } else { values.join(", then ") };
            facts.push((name, value));
        }
        facts.extend(
            software::NAMES.iter().filter_map(|name| Some(((*name).to_owned(), self.by_variant(name)?))),
        );
        let others = self
            .counting()
            .filter_map(|(_, run)| run.other_cpu)
            .fold(None::<f64>, |most, share| Some(share.max(most.unwrap_or(0.0))));
        facts.extend(others.map(|share| {
            let text = format!("{:.1} % of the machine, while the load ran", share * 100.0);
            ("CPU of other programs, at most".to_owned(), text)
        }));
        facts
    }

    /// Returns the facts that changed between runs that count: someone continued with another build, after an
    /// upgrade, or on another machine.
    #[must_use]
    pub fn mixed(&self) -> Vec<Mixed> {
        let machine = self.machine_names().into_iter().map(|name| {
            let values = distinct(self.counting().filter_map(|(id, _)| self.machine_fact(id, &name)));
            Mixed { what: name, values }
        });
        let software = self.variants.iter().enumerate().flat_map(|(index, variant)| {
            software::NAMES.map(|name| Mixed {
                what: format!("{name} of {}", variant.name),
                values: self.software(index, name),
            })
        });
        machine.chain(software).filter(|mixed| mixed.values.len() > 1).collect()
    }

    /// Returns the variants' claims that nothing proved, as (variant, claim).
    #[must_use]
    pub fn unproved(&self) -> Vec<(String, String)> {
        let of = |(index, variant): (usize, &Variant)| {
            let mut runs = self.counting().map(|(_, run)| run).filter(|run| run.slot.variant == index);
            let texts = runs
                .next()
                .map(|run| unbloat_policy::proof::unproved(&run.proof).cloned().collect::<Vec<_>>());
            texts.unwrap_or_default().into_iter().map(|text| (variant.name.clone(), text)).collect::<Vec<_>>()
        };
        self.variants.iter().enumerate().flat_map(of).collect()
    }

    /// Returns the differences between this machine and that of the last run, as (name, then, now). Empty if
    /// there is no run yet.
    #[must_use]
    pub fn changed(&self) -> Vec<(&'static str, String, String)> {
        let Some((last, _)) = self.runs.last() else { return Vec::new() };
        let then = |name: &str| self.machine_fact(*last, name);
        let facts = machine::facts().into_iter();
        facts.filter_map(|(name, now)| Some((name, then(name).filter(|then| *then != now)?, now))).collect()
    }

    /// Returns the values of a fact about the server's software in a variant's runs; several if it changed in
    /// between.
    #[must_use]
    pub fn software(&self, variant: usize, name: &str) -> Vec<String> {
        let runs = self.counting().filter(|(_, run)| run.slot.variant == variant);
        distinct(runs.filter_map(|(id, _)| self.run_facts.get(&id)?.get(name).cloned()))
    }

    fn counting(&self) -> impl Iterator<Item = (RunId, &RunResult)> {
        self.runs.iter().filter(|(_, run)| run.excluded.is_none()).map(|(id, run)| (*id, run))
    }

    /// Returns the names in the order of the file, then those that only runs have.
    fn machine_names(&self) -> Vec<String> {
        let of_runs = self.run_facts.values().flat_map(BTreeMap::keys);
        let names = self.environment.iter().map(|(name, _)| name).chain(of_runs);
        distinct(names.filter(|name| !software::NAMES.contains(&name.as_str())).cloned())
    }

    /// Returns a machine fact of a run. Files of earlier versions have machine facts only for all runs
    /// together.
    fn machine_fact(&self, run: RunId, name: &str) -> Option<String> {
        let own = self.run_facts.get(&run).filter(|facts| !facts.is_empty());
        match own {
            Some(facts) => facts.get(name).cloned(),
            None => self.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone()),
        }
    }

    /// Formats as `3.1.2`, or, if variants differ, as `jemalloc 5.3.0 (jemalloc), glibc (glibc, lean)`.
    fn by_variant(&self, name: &str) -> Option<String> {
        let mut variants: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (index, variant) in self.variants.iter().enumerate() {
            for value in self.software(index, name) {
                variants.entry(value).or_default().push(&variant.name);
            }
        }
        if variants.len() < 2 {
            return variants.into_keys().next();
        }
        let one = |(value, names): (String, Vec<&str>)| format!("{value} ({})", names.join(", "));
        Some(variants.into_iter().map(one).collect::<Vec<_>>().join(", "))
    }
}

/// Returns each value once, in the order of appearance.
fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::analysis::tests::runs;
    use crate::plan::Plan;

    /// Creates two blocks of a control and a variant; the build changed after the first block, Ruby for the
    /// variant only.
    fn stored() -> Stored {
        let plan = Plan::parse(
            "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"a\"]\nready = { line = \"r\" }\n[load]\ndriver = \"own\"\n",
        )
        .unwrap();
        let runs: Vec<_> = runs(2, &[(1.0, 1.0), (1.0, 1.0)])
            .into_iter()
            .zip(1..)
            .map(|(run, id)| (RunId(id), run))
            .collect();
        let facts = |run: &RunResult| {
            let text = |text: &str| text.to_owned();
            let build = if run.slot.block == 0 { "aa" } else { "bb" };
            let ruby = if run.slot.variant == 0 { "3.1.2" } else { "3.3.8" };
            let facts = [("unbloat_build", build), ("kernel", "6.1"), ("ruby", ruby)];
            facts.map(|(name, value)| (text(name), text(value))).into()
        };
        Stored {
            variants: plan.variants().unwrap(),
            plan,
            run_facts: runs.iter().map(|(id, run)| (*id, facts(run))).collect(),
            runs,
            looks: Some(1),
            calibration: None,
            environment: vec![("kernel".into(), "6.1".into()), ("unbloat_build".into(), "aa".into())],
        }
    }

    #[test]
    fn what_changed_between_runs_is_said() {
        let stored = stored();
        let build = Mixed { what: "unbloat_build".into(), values: vec!["aa".into(), "bb".into()] };
        assert_eq!(stored.mixed(), [build]);
        let facts: BTreeMap<_, _> = stored.facts().into_iter().collect();
        assert_eq!(facts["unbloat_build"], "aa, then bb");
        assert_eq!(facts["ruby"], "3.1.2 (glibc), 3.3.8 (lean)");
        assert_eq!(facts["kernel"], "6.1");
        let changed: Vec<_> = stored.changed().into_iter().map(|(name, then, _)| (name, then)).collect();
        assert_eq!(changed, [("unbloat_build", "bb".into()), ("kernel", "6.1".into())]);
    }

    /// Recordings from before facts were kept per run.
    #[test]
    fn without_facts_of_runs_those_of_the_file_hold() {
        let stored = Stored { run_facts: BTreeMap::new(), ..stored() };
        assert_eq!(stored.mixed(), []);
        assert_eq!(stored.facts()[0], ("kernel".into(), "6.1".into()));
    }
}
