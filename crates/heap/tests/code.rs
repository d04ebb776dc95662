//! The memory of loaded code by gem and file, against what the process says of itself.
//!
//! `UNBLOAT_TEST_ROOT` and `UNBLOAT_TEST_RUBY` choose another Ruby than the machine's (see `unbloat-test-support`).
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use unbloat_heap::model::{ClassKind, Code, CodePart, Origin};
use unbloat_heap::{code, objects};
use unbloat_process::Pid;
use unbloat_test_support::{Target, TargetDirectory, ruby};

struct Loaded {
    target: Target,
    _directory: TargetDirectory,
}

impl Loaded {
    fn start() -> Self {
        let directory = TargetDirectory::new();
        let mut command = ruby(&[], include_str!("ruby/code.rb"));
        command.arg(directory.inside());
        Loaded { target: Target::start_ready(&mut command), _directory: directory }
    }

    fn pid(&self) -> Pid {
        Pid(self.target.pid())
    }

    fn sequences(&mut self) -> BTreeMap<String, u64> {
        let answer = self.target.ask("sequences");
        answer
            .split(' ')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.parse().unwrap()))
            .collect()
    }
}

fn planted() -> Origin {
    Origin::Gem { name: "planted".into(), version: Some("1.2.3".into()) }
}

fn bytes(code: &Code, part: CodePart, which: impl Fn(&Origin) -> bool) -> u64 {
    let files = code.files.iter().filter(|file| which(&file.origin));
    files.filter_map(|file| file.parts.get(part)).map(|held| held.bytes()).sum()
}

#[test]
fn the_code_of_a_gem_is_what_ruby_says_of_its_methods() {
    let mut loaded = Loaded::start();
    let said = loaded.sequences();
    let look = code(loaded.pid(), None, false).unwrap();
    let untold = look.notes.iter().any(|note| note.code.name().starts_with("ruby-"));
    assert!(!untold, "{:?}", look.notes);
    let found = look.found.unwrap();
    assert_eq!(found.sequences_without_path, 0);
    assert_eq!(found.total().parts.sequences(), said["all"]);
    let origins = found.origins();
    let (_, gem) = origins.iter().find(|(origin, _)| **origin == planted()).expect("the gem");
    // Each method has one; those of the file and of the module's body are gone once they have run.
    assert_eq!((gem.files, gem.parts.sequences()), (1, said["methods"]));
    assert_eq!(gem.parts.get(CodePart::Methods).unwrap().objects, said["methods"]);
    let malloc = |part| gem.parts.get(part).unwrap().malloc_bytes.unwrap();
    let found = malloc(CodePart::Sequences) + malloc(CodePart::InlineCaches);
    let ratio = found as f64 / said["bytes"] as f64;
    assert!((0.97..1.15).contains(&ratio), "{ratio}: {found} of {said:?}");
    // The module and its singleton class, with a table of 2000 methods.
    assert!(gem.parts.get(CodePart::Tables).unwrap().bytes() > 2000 * 16, "{gem:?}");
    let (_, app) =
        origins.iter().find(|(origin, _)| **origin == Origin::Application).expect("the application");
    assert_eq!((app.files, app.parts.sequences()), (1, 50));
}

#[test]
fn gems_sum_to_the_instruction_sequences_of_the_census() {
    let loaded = Loaded::start();
    let by_class = objects(loaded.pid(), false).unwrap().found.unwrap();
    let found = code(loaded.pid(), None, false).unwrap().found.unwrap();
    let sequences =
        by_class.classes.iter().find(|row| row.kind == ClassKind::Internal && row.name == *"iseq");
    let known = |origin: &Origin| *origin != Origin::Unknown;
    let counted = bytes(&found, CodePart::Sequences, known) + bytes(&found, CodePart::InlineCaches, known);
    assert_eq!(counted, sequences.unwrap().held.bytes());
}

#[test]
fn a_forked_worker_says_what_it_still_shares() {
    let mut loaded = Loaded::start();
    let child = Pid(loaded.target.ask("child").parse().unwrap());
    let look = code(child, Some(loaded.pid()), false).unwrap();
    let total = look.found.unwrap().total();
    let shared = total.shared_bytes.unwrap();
    let all = total.parts.bytes();
    assert!(shared <= all && shared > all / 2, "{shared} of {all}");
    let alone = code(loaded.pid(), None, false).unwrap().found.unwrap();
    assert_eq!(alone.total().shared_bytes, None);
}
