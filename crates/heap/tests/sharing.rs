//! The memory that a forked Ruby shares with its parent, before and after it writes to its share.
#![allow(missing_docs)]

use unbloat_heap::sharing::with_parent;
use unbloat_process::Pid;
use unbloat_test_support::{Target, ruby};

const MIB: u64 = 1 << 20;

/// The parent has 32 MiB of strings, large enough for their own mappings and never moved; on request the
/// child writes to half of them.
const SCRIPT: &str = r#"
$stdout.sync = true
blocks = Array.new(8) { "x" * (4 << 20) }
child = fork do
  $stdin.gets
  blocks.first(4).each { |block| (0...block.bytesize).step(4096) { |i| block.setbyte(i, 121) } }
  puts "written"
  $stdin.read # until the test is over
end
puts child
Process.wait(child)
"#;

#[test]
fn writing_to_inherited_memory_unshares_it() {
    let mut target = Target::start(&mut ruby(&[], SCRIPT));
    let child: i32 = target.line().parse().unwrap_or_else(|e| panic!("the child's number: {e}"));
    let (parent, child) = (Pid(target.pid()), Pid(child));
    let look = || with_parent(parent, child).unwrap_or_else(|e| panic!("{e}"));
    let before = look();
    assert_eq!(target.ask(""), "written");
    let after = look();
    assert_eq!(before.parent, parent);
    assert!(before.shared_bytes >= 32 * MIB, "{before:?}");
    let moved = after.unshared_bytes - before.unshared_bytes;
    assert!((16 * MIB..18 * MIB).contains(&moved), "{before:?} {after:?}");
    assert!(before.shared_bytes - after.shared_bytes >= 16 * MIB, "{before:?} {after:?}");
}
