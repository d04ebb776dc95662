//! References, holders and garbage, against what the process says of itself (`ObjectSpace.dump_all`) and what a collection leaves.
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use unbloat_heap::model::{ClassKind, ClassLabel, HeapDump, Holder, Holds};
use unbloat_heap::{Wanted, heap_dump, held, holds};
use unbloat_process::Pid;
use unbloat_test_support::{Target, TargetDirectory, ruby};

struct Holding {
    target: Target,
    version: String,
}

impl Holding {
    /// Starts it; `None` for a Ruby whose references are not known.
    fn start() -> Option<Self> {
        let mut target = Target::start_ready(&mut ruby(&[], include_str!("ruby/holds.rb")));
        let version = target.ask("version");
        let known = version.starts_with("3.1.") || version.starts_with("3.3.");
        known.then_some(Holding { target, version })
    }

    fn pid(&self) -> Pid {
        Pid(self.target.pid())
    }

    fn dump(&self) -> HeapDump {
        heap_dump(self.pid(), false).unwrap().found.expect("a Ruby whose references are known")
    }

    fn holds(&self, wanted: Option<&Wanted>) -> Holds {
        holds(self.pid(), wanted, false).unwrap().found.expect("a Ruby whose references are known")
    }
}

/// References by object as Ruby itself dumps them, classes left out.
fn said(holding: &mut Holding, directory: &TargetDirectory) -> HashMap<u64, (String, BTreeSet<u64>)> {
    let answer = holding.target.ask(&format!("dump {}", directory.inside().join("dump").display()));
    assert_eq!(answer, "dumped");
    let text = std::fs::read_to_string(directory.outside().join("dump")).unwrap();
    let number = |value: &Value| u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok();
    let object = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let class = number(&line["class"]);
        let references = line["references"].as_array().into_iter().flatten().filter_map(number);
        let references = references.filter(|&to| Some(to) != class).collect();
        Some((number(&line["address"])?, (line["type"].as_str()?.to_owned(), references)))
    };
    text.lines().filter_map(object).collect()
}

#[test]
fn references_are_those_of_ruby_s_own_dump() {
    let Some(mut holding) = Holding::start() else { return };
    let directory = TargetDirectory::new();
    // The first dump makes the methods, caches and strings that the second one uses again.
    said(&mut holding, &directory);
    let found = holding.dump();
    let said = said(&mut holding, &directory);
    // Right, ours and theirs, of wrapped data and of everything else.
    let mut counts: BTreeMap<bool, [u64; 3]> = BTreeMap::new();
    let mut wrong: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    for object in &found.objects {
        let Some((kind, theirs)) = said.get(&object.address) else { continue };
        // Of internal objects the word where others have their class is a reference, which only some versions list.
        let without_class = |to: &u64| *to != object.class;
        let ours: BTreeSet<u64> = object.references.iter().copied().filter(without_class).collect();
        let theirs: BTreeSet<u64> = theirs.iter().copied().filter(without_class).collect();
        let right = ours.intersection(&theirs).count() as u64;
        for sums in [counts.entry(kind == "DATA").or_default(), wrong.entry(kind.as_str()).or_default()] {
            for (sum, more) in sums.iter_mut().zip([right, ours.len() as u64, theirs.len() as u64]) {
                *sum += more;
            }
        }
    }
    for (is_data, [right, ours, theirs]) in counts {
        let (precision, recall) = (right as f64 / ours as f64, right as f64 / theirs as f64);
        let least = if is_data { 0.97 } else { 0.999 };
        assert!(
            precision >= least && recall >= least,
            "Ruby {}: precision {precision}, recall {recall}, wrapped data: {is_data}; right, ours, theirs: {wrong:?}",
            holding.version
        );
    }
}

#[test]
fn what_roots_reach_survives_a_collection_and_nothing_else_does() {
    let Some(mut holding) = Holding::start() else { return };
    let before = holding.dump();
    assert_eq!(holding.target.ask("collect"), "collected");
    let after = holding.dump();
    let alive: BTreeSet<(u64, u8, u64)> =
        after.objects.iter().map(|o| (o.address, o.code, o.class)).collect();
    let mut counts = [[0u64; 2]; 2];
    for object in &before.objects {
        let survived = alive.contains(&(object.address, object.code, object.class));
        counts[usize::from(object.reached)][usize::from(survived)] += 1;
    }
    let [[gone, stayed], [lost, kept]] = counts;
    let share = |part: u64, rest: u64| part as f64 / (part + rest) as f64;
    assert!(gone > 6000, "{counts:?}");
    assert!(
        share(kept, lost) >= 0.995 && share(gone, stayed) >= 0.995,
        "Ruby {}: {counts:?}",
        holding.version
    );
}

fn path(holder: &Holder) -> String {
    let step = |step: &unbloat_heap::model::Step| format!("{} {}", step.by, step.what);
    holder.path.iter().map(step).collect::<Vec<_>>().join(" → ")
}

#[test]
fn holders_are_named_with_the_path_to_them() {
    let Some(holding) = Holding::start() else { return };
    let found = holding.holds(None);
    assert!(found.waiting.objects > 6000, "{:?}", found.waiting);
    assert!(
        found.waiting_classes.iter().any(|row| row.name == *"Garbage" && row.held.objects >= 2970),
        "{:?}",
        found.waiting_classes
    );
    let paths: Vec<String> = found.holders.iter().map(path).collect();
    let holder = |inside: &str| {
        let found = found.holders.iter().find(|holder| path(holder).contains(inside));
        found.unwrap_or_else(|| panic!("nothing by {inside}: {paths:#?}"))
    };
    // 2000 leaks with a text and the hash that they are in, and 1500 in an array. What something else reaches as well is
    // retained by neither: 61 objects on Ruby 3.3, probably by stale words of a stack. It has not been looked into.
    let cache = holder("::REGISTRY Cache");
    assert!(cache.retained_objects >= 3900 && cache.retained_bytes > 2000 * 120, "{cache:?}");
    assert!(path(cache).contains("@entries Hash{2000}"), "{}", path(cache));
    let journal = holder("@@journal Array[1500]");
    assert!(journal.retained_objects >= 2990, "{journal:?}");
}

#[test]
fn an_object_that_is_asked_for_has_a_path_from_a_root() {
    let Some(holding) = Holding::start() else { return };
    for (class, by) in [
        ("InThread", "VM/thread"),
        ("InClosure", "::CLOSURE Proc"),
        ("InGlobal", "InGlobal"),
        ("InFiber", "::FIBER Fiber"),
        ("Cache", "::REGISTRY"),
    ] {
        let wanted = Wanted::Class(class.to_owned());
        let found = holding.holds(Some(&wanted));
        let [holder] = &found.asked[..] else { panic!("{class}: {:?}", found.asked) };
        assert!(path(holder).contains(by), "{class}: {}", path(holder));
        assert!(holder.retained_objects > 400, "{class}: {holder:?}");
        let wanted = Wanted::Address(holder.address.unwrap());
        assert_eq!(holding.holds(Some(&wanted)).asked, found.asked);
    }
}

#[test]
fn most_objects_of_a_class_have_a_holder() {
    let Some(holding) = Holding::start() else { return };
    let class = |name: &str| ClassLabel { kind: ClassKind::Class, name: name.into() };
    let classes = [class("Leak"), class("InGlobal"), class("Garbage"), class("NoSuchClass")];
    let found = held(holding.pid(), &classes).unwrap().found.expect("a Ruby whose references are known");
    let [leaks, single, garbage, nothing] = &found[..] else { panic!("{found:?}") };
    assert_eq!(leaks.reached.objects, 3500, "{leaks:?}");
    let (holder, of_it) = leaks.holder.as_ref().unwrap();
    assert!(path(holder).ends_with("@entries Hash{2000}"), "{}", path(holder));
    // Some may be reached by a stale word of a stack as well: 33 with Ruby 3.3.
    assert!((1900..=2000).contains(&of_it.objects), "{of_it:?}");
    let (holder, of_it) = single.holder.as_ref().unwrap();
    assert!(holder.what == *"InGlobal" && of_it.objects == 1, "{single:?}");
    assert!(garbage.reached.objects < 30, "{garbage:?}");
    assert!(nothing.reached.objects == 0 && nothing.holder.is_none(), "{nothing:?}");
}
