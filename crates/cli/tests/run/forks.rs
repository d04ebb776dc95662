//! Processes that fork: children, daemons, servers with workers.

use crate::home::*;
use std::fs;

#[test]
fn a_forked_child_has_a_worker_and_a_page_of_its_own() {
    let output = Home::new().ruby(
        "allocator=jemalloc,trim=every",
        "GC.start; wait_until { Unbloat.status[:trims] > 0 }
         reader, writer = IO.pipe
         child = fork do
           Thread.new { burst }.join
           3.times { |n| GC.start; wait_until { Unbloat.status[:trims] > n } }
           writer.puts Unbloat.status.values_at(:fork_generation, :pid).inspect
         end
         Process.wait(child)
         abort 'the child failed' unless $?.success?
         generation, pid = eval(reader.gets)
         puts generation, pid == child, Unbloat.status[:fork_generation], Unbloat.status[:pid] == Process.pid",
    );
    assert_eq!(stdout(&output), "1\ntrue\n0\ntrue\n", "{}", stderr(&output));
}

#[test]
fn background_threads_of_jemalloc_come_back_in_a_child() {
    let home = Home::new();
    let mut command =
        home.unbloat(&["run", "--quiet", "--policy", "allocator=jemalloc,trim=adaptive", "--", "ruby", "-e"]);
    command.env("MALLOC_CONF", "background_thread:true").arg(with_helpers(
        "def threads = Dir['/proc/self/task/*/comm'].map { |file| File.read(file).chomp }
         wait_until { threads.include?('jemalloc_bg_thd') }
         back = -> { GC.start; wait_until { threads.include?('jemalloc_bg_thd') } }
         Process.wait(fork(&back))
         puts $?.success?
         # A child that forks before it has collected anything, as servers that re-fork and daemons do.
         Process.wait(fork { Process.wait(fork(&back)); exit! $?.exitstatus })
         puts $?.success?",
    ));
    let output = command.output().unwrap();
    assert_eq!(stdout(&output), "true\ntrue\n", "{}", stderr(&output));
}

#[test]
fn a_child_of_a_process_that_suspends_trimming_trims() {
    let output = Home::new().ruby(
        "trim=every",
        "GC.start; wait_until { Unbloat.status[:trims] > 0 }
         Unbloat.suspend do
           Process.wait(fork { GC.start; wait_until { Unbloat.status[:trims] > 0 } })
           puts $?.success?
           Process.wait(fork { exit! 0 })
         end",
    );
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn the_module_can_be_used_in_any_ractor() {
    let output = Home::new().ruby(
        "trim=adaptive",
        "puts Ractor.new { [Unbloat.trim.class, Unbloat.suspend { Unbloat.status[:pid] == Process.pid }] }.take.inspect",
    );
    assert_eq!(stdout(&output), "[Integer, true]\n", "{}", stderr(&output));
}

#[test]
fn a_storm_of_forks_ends() {
    for policy in ["trim=every", "lean"] {
        let output = Home::new().ruby(
            policy,
            "busy = 4.times.map do
               Thread.new { loop { 20.times { 'x' * rand(10_000) }; GC.start(full_mark: false) if rand(20).zero?; sleep 0.002 } }
             end
             100.times do |n|
               child = fork { 200.times { 'y' * rand(5_000) }; GC.start; exit! 0 }
               Process.wait(child)
               abort \"child #{n}: #{$?}\" unless $?.success?
               `true` if (n % 10).zero?
             end
             puts 'done'",
        );
        assert_eq!(stdout(&output), "done\n", "{policy}: {}", stderr(&output));
    }
}

#[test]
fn a_process_that_daemonizes_keeps_its_runtime() {
    let home = Home::new();
    let result = home.0.path().join("result");
    let output = home.ruby(
        "trim=every",
        &format!(
            "Process.daemon(true, true)
             GC.start; wait_until {{ Unbloat.status[:trims] > 0 }}
             File.write('{0}.part', Unbloat.status[:pid] == Process.pid); File.rename('{0}.part', '{0}')",
            result.display()
        ),
    );
    assert!(output.status.success(), "{}", stderr(&output));
    for _ in 0..500 {
        if result.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(fs::read_to_string(&result).unwrap(), "true");
}

#[test]
fn every_way_of_starting_a_process_works() {
    let output = Home::new().ruby(
        "lean",
        "GC.start; Unbloat.trim
         puts system('true'), `echo back`, Process.wait2(spawn('exit 3')).last.exitstatus
         puts IO.popen('-') { |child| child ? child.read : (GC.start; print 'a child') }
         puts IO.popen(['ruby', '-e', 'GC.start; print Unbloat.status[:fork_generation]'], &:read)
         puts system('no-such-command').inspect",
    );
    assert_eq!(stdout(&output), "true\nback\n3\na child\n0\nnil\n", "{}", stderr(&output));
}

/// The blocks in the caches of the parent's threads stay allocated in the child forever. So the runtime's thread has no cache, and
/// the thread that forks empties its own first.
#[test]
fn a_fork_under_lean_leaves_no_caches_behind() {
    let output = Home::new().ruby(
        "lean",
        &format!(
            "GC.start; wait_until {{ Dir['/proc/self/task/*/comm'].any? {{ |file| File.read(file) == \"unbloat\\n\" }} }}
             Array.new(2_000) {{ |i| 'x' * (i % 900) }}; GC.start
             reader, writer = IO.pipe
             child = fork {{ writer.puts 'here'; sleep }}
             reader.gets
             puts child
             system('{}', 'inspect', '--json', child.to_s)
             Process.kill(:KILL, child)",
            env!("CARGO_BIN_EXE_unbloat")
        ),
    );
    let (child, document) = stdout(&output).split_once('\n').unwrap();
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    let process = &document["processes"][0];
    assert_eq!(process["pid"].to_string(), child);
    assert!(!process["notes"].to_string().contains("caches-forgotten"), "{process}");
    let arenas = process["allocator"]["arenas"].as_array().unwrap();
    let threads = arenas.iter().flat_map(|arena| arena["threads"].as_array().unwrap());
    let cached: u64 = threads.map(|thread| thread["cached_bytes"].as_u64().unwrap()).sum();
    // 270 KB otherwise; the child has allocated a little by now.
    assert!(cached < 64 << 10, "{cached} bytes in caches: {arenas:#?}");
}
