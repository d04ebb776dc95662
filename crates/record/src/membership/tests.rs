//! Members of synthetic process trees.
#![allow(clippy::unwrap_used)]
use super::*;
use std::fs;
use std::path::Path;

/// A synthetic `/proc`.
struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        World(tempfile::tempdir().unwrap())
    }

    fn has(&self, pid: i32, parent: i32, state: char, start: u64) -> &Self {
        let directory = self.path().join(pid.to_string());
        fs::create_dir_all(&directory).unwrap();
        let stat =
            format!("{pid} (x) {state} {parent} {pid} 1 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 {start} 0 10\n");
        fs::write(directory.join("stat"), stat).unwrap();
        fs::write(directory.join("status"), format!("Tgid:\t{pid}\n")).unwrap();
        self
    }

    fn loses(&self, pid: i32) {
        fs::remove_dir_all(self.path().join(pid.to_string())).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Creates a membership below a keeper with PID 10.
    fn membership(&self) -> Membership {
        Membership::new(ProcFs::at(self.path()), Some(Pid(10)))
    }
}

fn fork(parent: i32, child: i32) -> Event {
    Event::Fork { parent: Pid(parent), child: Pid(child), at_ns: 5 }
}

fn exit(pid: i32) -> Event {
    Event::Exit { pid: Pid(pid), status: 0, at_ns: 6 }
}

fn born(changes: &[Change]) -> Vec<i32> {
    changes.iter().filter_map(|c| if let Change::Born { pid, .. } = c { Some(pid.0) } else { None }).collect()
}

#[test]
fn who_is_found_and_then_told_of_is_born_once() {
    let world = World::new();
    world.has(20, 10, 'S', 1).has(21, 20, 'S', 2).has(99, 1, 'S', 0);
    let mut membership = world.membership();
    let (found, gone) = membership.scan(vec![Pid(21), Pid(20), Pid(99), Pid(50)], Dead::Skip);
    assert_eq!((born(&found), gone), (vec![20, 21], 1));
    assert_eq!(membership.handle(fork(10, 20)), None);
    // It has ended and is gone before its birth is reported; this is still not a second process.
    world.loses(21);
    assert_eq!(membership.handle(fork(20, 21)), None);
    assert!(matches!(membership.handle(exit(21)), Some(Change::Ended { pid: Pid(21), .. })));
    assert_eq!(membership.handle(exit(21)), None);
}

#[test]
fn who_was_told_of_is_not_found_again_while_it_waits_for_its_parent() {
    let world = World::new();
    world.has(20, 10, 'S', 1);
    let mut membership = world.membership();
    assert!(membership.handle(fork(10, 20)).is_some());
    world.has(20, 10, 'Z', 1);
    assert!(membership.handle(exit(20)).is_some());
    assert_eq!(membership.scan(vec![Pid(20)], Dead::Skip).0, []);
    // The same without reports.
    let mut membership = world.membership();
    assert_eq!(born(&membership.scan(vec![Pid(20)], Dead::Count).0), [20]);
    membership.ended(Pid(20), Some(1), true);
    assert_eq!(membership.scan(vec![Pid(20)], Dead::Count).0, []);
}

#[test]
fn a_number_that_is_given_out_again_names_another_process() {
    let world = World::new();
    world.has(20, 10, 'S', 1);
    let mut membership = world.membership();
    assert!(membership.adopt(Pid(20)).is_some() && membership.adopt(Pid(20)).is_none());
    world.has(20, 10, 'S', 7);
    assert_eq!(born(&membership.scan(vec![Pid(20)], Dead::Count).0), [20]);
    membership.ended(Pid(20), Some(1), false);
    assert!(membership.is_alive(Pid(20)), "the end of the first is not that of the second");
    // Now another process has the PID, with a child.
    world.has(20, 1, 'S', 9).has(21, 20, 'S', 9);
    assert_eq!(membership.scan(vec![Pid(21), Pid(20)], Dead::Count).0, []);
}

#[test]
fn a_process_outlives_its_first_thread_and_execve_by_another() {
    let world = World::new();
    world.has(20, 10, 'S', 1);
    let mut membership = world.membership();
    membership.handle(fork(10, 20));
    // Another thread calls execve: the first one ends, the process continues.
    assert_eq!(membership.handle(exit(20)), None);
    membership.handle(Event::Exec { pid: Pid(20) });
    assert_eq!(membership.headless_ended(), []);
    assert!(!membership.has_headless());
    // The first thread ends by itself, and later the last one.
    assert_eq!(membership.handle(exit(20)), None);
    assert_eq!(membership.headless_ended(), []);
    world.loses(20);
    assert!(matches!(membership.headless_ended()[..], [Change::Ended { status: None, .. }]));
    assert!(!membership.has_headless() && !membership.has(Pid(20)));
}

#[test]
fn after_a_loss_the_missing_are_given_up_unless_their_end_is_told() {
    let world = World::new();
    world.has(20, 10, 'S', 1).has(21, 10, 'S', 1);
    let mut membership = world.membership();
    assert!(membership.handle(fork(10, 20)).is_some() && membership.handle(fork(10, 21)).is_some());
    world.loses(20);
    world.loses(21);
    let missing = membership.missing();
    assert_eq!(missing.len(), 2);
    assert!(membership.handle(exit(20)).is_some());
    assert!(matches!(membership.give_up(missing)[..], [Change::Ended { pid: Pid(21), .. }]));
}
