//! Locates glibc's arenas in real processes.
#![allow(clippy::unwrap_used, missing_docs)]

use unbloat_heap::allocators::glibc::Glibc;
use unbloat_process::{LiveMemory, Maps, Memory as _, Pid, ResidentOnly};
use unbloat_test_support::{Compiler, Program, Target, c_program};

fn arenas_of(compiler: Compiler) -> (Glibc, usize, usize) {
    let program = Program::build(compiler, c_program("heap"), &[]);
    let target = Target::start_ready(program.command().args(["3", "2000", "4000", "3", "2"]));
    let pid = Pid(target.pid());
    let maps = Maps::of(pid).unwrap();
    let glibc = Glibc::locate(pid, &maps).unwrap();
    let live = LiveMemory::of(pid).unwrap();
    let memory = ResidentOnly::new(&live);
    let ring = glibc.arenas(&memory).unwrap();
    assert!(ring.broken.is_none(), "{:?}", ring.broken);
    assert!(ring.arenas[0].main && ring.arenas.iter().all(|a| a.mutex == 0));
    let heaps = ring.arenas[1..].iter().map(|a| glibc.heaps(&memory, a).unwrap().len()).sum();
    let top = ring.arenas[0].top;
    assert!(maps.find(top).is_some_and(|m| m.write), "the top {top:#x} lies in writable memory");
    assert_ne!(live.word(top + 8).unwrap(), 0);
    let settings = glibc.parameters.unwrap().read(&memory).unwrap();
    assert_eq!(settings.n_mmaps, 2);
    assert_eq!(maps.find(settings.sbrk_base).unwrap().backing, unbloat_process::Backing::Brk);
    (glibc, ring.arenas.len(), heaps)
}

#[test]
fn a_shared_glibc() {
    let (glibc, arenas, heaps) = arenas_of(Compiler::System);
    assert_eq!((arenas, heaps), (4, 3));
    assert!(!glibc.linked_statically);
    assert!(glibc.version.unwrap().starts_with("2."));
}

#[test]
fn a_glibc_linked_into_the_program() {
    for compiler in [Compiler::Static, Compiler::StaticPie] {
        let (glibc, arenas, heaps) = arenas_of(compiler);
        assert_eq!((arenas, heaps), (4, 3), "{compiler:?}");
        assert!(glibc.linked_statically);
    }
}
