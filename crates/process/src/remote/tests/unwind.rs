//! Threads inside forbidden code are left alone; threads that were there only earlier are borrowed.

use super::*;

static INSIDE: LazyLock<Program> = LazyLock::new(|| {
    Program::build(Compiler::System, c_program("inside"), &["-O1", "-fno-inline", "-fno-toplevel-reorder"])
});

/// Returns the outcome of a call in a program that waits in `place`, and whether it then continues.
fn called(
    place: &str,
    unwinder: fn(&Pinned, &[Range<u64>]) -> Unwinder,
) -> (Result<Borrowed, Refusal>, String) {
    let mut target = Target::start_ready(INSIDE.command().arg(place));
    let code = code_of(&target.line());
    let ready = Ready::of(target.pid(), &LIBC);
    let unwinder = unwinder(&ready.pinned, std::slice::from_ref(&code));
    let outcome = ready.call_outside(vec![code], &unwinder);
    (outcome, target.ask("x"))
}

fn code_of(line: &str) -> Range<u64> {
    let addresses: Vec<u64> =
        line.split(' ').map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()).collect();
    addresses[0]..addresses[1]
}

#[test]
fn a_thread_inside_of_forbidden_code_is_left_alone() {
    for unwinder in [Unwinder::of, |_: &Pinned, _: &[Range<u64>]| Unwinder::default()] {
        let (outcome, answer) = called("inside", unwinder);
        assert!(matches!(outcome, Err(Refusal::NoSafePoint { .. })), "{outcome:?}");
        assert_eq!(answer, "done");
    }
}

#[test]
fn what_an_earlier_call_left_on_the_stack_does_not_count_where_it_can_be_unwound() {
    let (outcome, answer) = called("beside", Unwinder::of);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(answer, "done");
    let (outcome, _) = called("beside", |_, _| Unwinder::default());
    assert!(matches!(outcome, Err(Refusal::NoSafePoint { .. })), "{outcome:?}");
}
