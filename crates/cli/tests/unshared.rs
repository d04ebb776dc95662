//! `unbloat unshared` on a master and a worker that writes known things.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::process::{Command, Output};
use unbloat_test_support::{Target, assert_follows, ruby};

const PREFORKED: &str = r#"
$stdout.sync = true
class Written; def initialize; @a = nil; end; attr_writer :a; end
class Fresh; def initialize(i); @i = i; end; end
class Quiet; def initialize; @a = nil; end; end
QUIET = Array.new(60_000) { Quiet.new }
WRITTEN = Array.new(20_000) { Written.new }
garbage = Array.new(40_000) { Object.new }
4.times { GC.start }
garbage.clear
garbage = nil
GC.start
# The worker's collections would write to everything.
GC.disable
read, write = IO.pipe
child = fork do
  read.close
  WRITTEN.each { |w| w.a = 1 }
  FRESH = Array.new(30_000) { |i| Fresh.new(i) }
  write.puts "done"
  sleep
end
write.close
read.gets
puts "ready"
$stdin.gets
Process.kill(:KILL, child)
"#;

fn unbloat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).output().unwrap()
}

/// Ends the worker with its master.
struct Tree(Target);

impl Drop for Tree {
    fn drop(&mut self) {
        self.0.tell("end");
        let _ = self.0.line_or_end();
    }
}

#[test]
fn writes_of_a_worker_are_told_by_their_cause() {
    let tree = Tree(Target::start_ready(&mut ruby(&[], PREFORKED)));
    let pid = tree.0.pid().to_string();
    let output = unbloat(&["unshared", "--json", &pid]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "unshared.schema.json");
    let [worker] = &document["processes"].as_array().unwrap()[..] else { panic!("{document:#}") };
    let found = &worker["ruby"];
    assert_eq!(found["parent"].as_i64().unwrap(), i64::from(tree.0.pid()));
    let causes = found["causes"].as_array().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let sum: u64 = causes.iter().map(|cause| number(&cause["bytes"])).sum();
    let expected = number(&found["unshared_bytes"]) - number(&found["unread_bytes"]);
    assert!(sum.abs_diff(expected) <= causes.len() as u64, "{sum} of {expected}: each page once");
    let bytes = |cause: &str, name: &str| -> u64 {
        let rows = causes.iter().filter(|row| row["cause"] == cause && row["name"] == name);
        rows.map(|row| number(&row["bytes"])).sum()
    };
    // 20,000 slots of 40 bytes, and as many pages as 30,000 new objects take of those that had gaps.
    assert!(bytes("written_objects", "Written") > 600_000, "{document:#}");
    assert!(bytes("new_objects", "Fresh") > 600_000, "{document:#}");
    assert!(bytes("written_objects", "Quiet") < 100_000, "{document:#}");
    assert!(number(&found["shared_bytes"]) > 60_000 * 40, "what nobody wrote is shared");
    let remedies: Vec<&str> =
        found["remedies"].as_array().unwrap().iter().map(|one| one["remedy"].as_str().unwrap()).collect();
    assert!(remedies.contains(&"warm_up") && remedies.contains(&"refork"), "{remedies:?}");
    let text = String::from_utf8(unbloat(&["unshared", &pid]).stdout).unwrap();
    assert!(text.contains("Written") && text.contains("new objects") && text.contains("Gain"), "{text}");
}

#[test]
fn a_process_that_nobody_forked_is_refused() {
    let target = Target::start(&mut ruby(&[], "$stdin.gets"));
    let output = unbloat(&["unshared", &target.pid().to_string()]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("Name the master"), "{error}");
}
