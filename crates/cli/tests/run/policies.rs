//! The effect of each policy in a real Ruby.

use crate::home::*;
use std::path::Path;

#[test]
fn trimming_after_collections_counts_what_it_did() {
    for policy in ["trim=every", "trim=major"] {
        let output = Home::new().ruby(
            policy,
            "Thread.new { burst }.join
             before = resident
             5.times { |n| GC.start; wait_until { Unbloat.status[:trims] > n } }
             status = Unbloat.status
             abort 'nothing came back' unless before - resident > 30 << 20 && status[:trim_returned_bytes] > 30 << 20
             abort 'no time' unless status[:trim_s] >= status[:trim_max_s] && status[:trim_max_s] > 0
             puts status[:policy]",
        );
        assert_eq!(stdout(&output), format!("{policy}\n"), "{}", stderr(&output));
    }
}

#[test]
fn minor_collections_are_not_followed_by_a_trim_under_major() {
    let output = Home::new().ruby(
        "trim=major",
        "GC.start; wait_until { Unbloat.status[:trims] > 0 }
         before = Unbloat.status
         10.times { GC.start(full_mark: false); sleep 0.02 }
         after = Unbloat.status
         majors, trims = %i[gc_major_count trims].map { |key| after[key] - before[key] }
         abort \"#{trims} trims, #{majors} full collections\" if trims > majors
         puts after[:last_reason]",
    );
    assert_eq!(
        stdout(&output),
        "the last collection was minor, and this policy trims after full ones\n",
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_burst_is_returned_when_the_process_falls_idle() {
    for policy in ["trim=adaptive", "arenas=1,trim=adaptive", "lean"] {
        let output = Home::new().ruby(
            policy,
            "start = resident
             Thread.new { burst }.join
             GC.start
             wait_until { resident < start + (40 << 20) }
             puts 'lean again'",
        );
        assert_eq!(stdout(&output), "lean again\n", "{policy}: {}", stderr(&output));
    }
}

#[test]
fn under_lean_what_a_burst_frees_goes_back_as_it_is_freed() {
    let output = Home::new().ruby(
        "lean",
        "GC.start; wait_until { Unbloat.status[:returning] == 'at_once' }
         start = resident
         Thread.new { burst }.join
         GC.start
         puts resident < start + (40 << 20)",
    );
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn memory_that_is_needed_again_at_once_is_soon_kept_for_a_while() {
    let output = Home::new().ruby(
        "lean",
        "GC.start; wait_until { Unbloat.status[:returning] == 'at_once' }
         wait_until { 100.times { 'x' * 1_000_000 }; Unbloat.status[:returning] == 'later' }
         puts Unbloat.status[:refaults] > 10_000",
    );
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn a_delay_of_the_users_own_is_left_alone() {
    let code = with_helpers(
        "GC.start; wait_until { Unbloat.status[:gc_count] > 0 }; sleep 0.2; p Unbloat.status[:returning]",
    );
    let output = Home::new()
        .unbloat(&["run", "--policy", "lean", "--", "ruby", "-e", &code])
        .env("MALLOC_CONF", "dirty_decay_ms:500")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "nil\n", "{}", stderr(&output));
}

/// glibc's trim holds the arena's lock, so a busy process gets none that is predicted to be long.
#[test]
fn a_long_trim_waits_until_the_process_is_idle() {
    let code = with_helpers(
        "Thread.new { burst }.join
         wait_until { 1000.times { 'x' * 1000 }; GC.start; Unbloat.status[:last_reason].include?('until the process is idle') }
         abort 'trimmed all the same' unless Unbloat.status[:trims].zero?
         before = resident
         wait_until { Unbloat.status[:idle_trims] > 0 }
         puts before - resident > 30 << 20",
    );
    let output = Home::new()
        .unbloat(&["run", "--policy", "arenas=1,trim=adaptive", "--", "ruby", "-e", &code])
        .env("UNBLOAT_TRIM_MAX", "0")
        .env("UNBLOAT_IDLE", "2")
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn a_preloaded_jemalloc_serves_and_answers_malloc_trim() {
    let output = Home::new().ruby(
        "allocator=jemalloc,trim=adaptive",
        "require 'fiddle'
         trim = Fiddle::Function.new(Fiddle.dlopen(nil)['malloc_trim'], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
         puts Unbloat.status[:allocator], trim.call(0)",
    );
    assert_eq!(stdout(&output), "jemalloc 5.3.1\n1\n", "{}", stderr(&output));
}

/// Prints a jemalloc's own options.
const OPTIONS: &str = "
    require 'fiddle'
    POINTER = Fiddle::TYPE_VOIDP
    MALLCTL = Fiddle::Function.new(Fiddle.dlopen(nil)['mallctl'], [POINTER] * 4 + [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
    def option(name, format)
      value = [0].pack(format)
      size = [value.bytesize].pack('J')
      abort \"no #{name}\" unless MALLCTL.call(\"opt.#{name}\", value, size, nil, 0).zero?
      value.unpack1(format)
    end
    p [option('narenas', 'I!'), option('dirty_decay_ms', 'j'), option('tcache_max', 'J')]";

#[test]
fn jemallocs_settings_are_in_force_and_the_users_override_them_key_by_key() {
    let home = Home::new();
    let settings = |users: Option<&str>| {
        let mut command =
            home.unbloat(&["run", "--quiet", "--policy", "allocator=jemalloc", "--", "ruby", "-e"]);
        command.arg(OPTIONS).envs(users.map(|users| ("MALLOC_CONF", users)));
        let output = command.output().unwrap();
        format!("{}{}", stdout(&output), stderr(&output))
    };
    assert_eq!(settings(None), "[1, 1000, 1024]\n");
    assert_eq!(settings(Some("narenas:3")), "[3, 1000, 1024]\n");
}

#[test]
fn another_allocator_can_be_preloaded_by_its_path() {
    let Some(path) = ["x86_64", "aarch64"]
        .map(|machine| format!("/usr/lib/{machine}-linux-gnu/libjemalloc.so.2"))
        .into_iter()
        .find(|path| Path::new(path).exists())
    else {
        panic!("libjemalloc2 is missing: run scripts/deps test");
    };
    let output = Home::new()
        .ruby(&format!("allocator=system:{path},trim=adaptive"), "puts Unbloat.status[:allocator]");
    assert!(stdout(&output).starts_with("jemalloc 5."), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn ruby_can_ask_for_a_trim_and_suspend_the_others() {
    let output = Home::new().ruby(
        "trim=every",
        "Thread.new { burst }.join
         Unbloat.suspend do
           abort 'not suspended' unless Unbloat.status[:suspended] == 1
           trims = Unbloat.status[:trims]
           5.times { GC.start; sleep 0.05 }
           abort 'trimmed all the same' unless Unbloat.status[:trims] == trims
         end
         abort 'still suspended' unless Unbloat.status[:suspended].zero?
         begin
           Unbloat.suspend { raise 'x' }
         rescue RuntimeError
           abort 'left suspended' unless Unbloat.status[:suspended].zero?
         end
         abort 'no Integer' unless Unbloat.trim.is_a?(Integer)
         puts Unbloat.status[:requested_trims]",
    );
    assert_eq!(stdout(&output), "1\n", "{}", stderr(&output));
}

#[test]
fn hundreds_of_forced_trims_among_busy_threads_do_no_harm() {
    let output = Home::new().ruby(
        "trim=every",
        "busy = 4.times.map do
           Thread.new { kept = []; loop { 20.times { kept << 'x' * rand(20_000) }; kept.shift(20) if kept.size > 500; sleep 0.002 } }
         end
         300.times { GC.start(full_mark: rand(5).zero?); Unbloat.trim }
         puts Unbloat.status[:requested_trims]",
    );
    assert_eq!(stdout(&output), "300\n", "{}", stderr(&output));
}

#[test]
fn the_heap_is_prepared_before_a_fork_when_asked() {
    for policy in ["compact=boot", "warmup"] {
        let output = Home::new().ruby(
            policy,
            "before = GC.count
             Process.wait(fork { exit! 0 })
             puts GC.count > before, GC.stat(:compact_count) > 0",
        );
        assert_eq!(stdout(&output), "true\ntrue\n", "{policy}: {}", stderr(&output));
    }
    let auto = Home::new().ruby("compact=auto", "puts GC.auto_compact");
    assert_eq!(stdout(&auto), "true\n", "{}", stderr(&auto));
}

#[test]
fn a_collector_that_says_nothing_is_not_waited_for() {
    // As under a collector that sends no events: nothing is observed, but requested trims work.
    let output = Home::new().ruby(
        "trim=every",
        "GC.disable
         before = Unbloat.status
         Thread.new { burst }.join
         Unbloat.trim
         after = Unbloat.status
         puts after[:gc_count] == before[:gc_count], after[:requested_trims], after[:trims] >= 1",
    );
    assert_eq!(stdout(&output), "true\n1\ntrue\n", "{}", stderr(&output));
}
