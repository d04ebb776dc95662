//! Servers that fork like those in the field: Unicorn, workers that are replaced, workers that become parents
//! of others.

use crate::home::{Guard, Home, stderr, stdout};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Queries a server on a Unix socket until it answers, and returns the words of the body.
pub(crate) fn ask(socket: &Path) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let mut answer = String::new();
        let asked = UnixStream::connect(socket).and_then(|mut stream| {
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(&mut answer)
        });
        if asked.is_ok() && answer.contains(" 200 ") {
            let body = answer.rsplit("\r\n").next().unwrap();
            return body.split_whitespace().map(str::to_owned).collect();
        }
        assert!(Instant::now() < deadline, "no answer within a minute: {asked:?} {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_workers_of_unicorn_have_a_runtime_and_so_have_those_that_replace_them() {
    let home = Home::new();
    let directory = home.0.path();
    let socket = directory.join("socket");
    fs::write(
        directory.join("config.ru"),
        "run lambda { |_env|
           GC.start
           Unbloat.trim
           status = Unbloat.status
           body = [Process.pid, status[:pid], status[:fork_generation], status[:requested_trims] > 0].join(' ')
           [200, { 'Content-Type' => 'text/plain' }, [body]]
         }",
    )
    .unwrap();
    fs::write(
        directory.join("unicorn.rb"),
        format!(
            "worker_processes 2\npreload_app true\nlisten '{}'\nworking_directory '{}'\n",
            socket.display(),
            directory.display()
        ),
    )
    .unwrap();
    let mut command = home.unbloat(&["run", "--quiet", "--", "unicorn", "-c"]);
    command.arg(directory.join("unicorn.rb")).arg(directory.join("config.ru"));
    command.stderr(fs::File::create(directory.join("log")).unwrap());
    let (mut unicorn, _out) = Guard::spawn(&mut command);
    let first = ask(&socket);
    assert_eq!(first[0], first[1], "a worker has the page of another process");
    assert_eq!((first[2].as_str(), first[3].as_str()), ("1", "true"));
    assert!(Command::new("kill").args(["-KILL", &first[0]]).status().unwrap().success());
    // The other worker answers as well; the killed one never again.
    for _ in 0..20 {
        let next = ask(&socket);
        assert_ne!(next[0], first[0]);
        assert_eq!(next[0], next[1]);
    }
    let master = unicorn.0.id().to_string();
    assert!(Command::new("kill").args(["-QUIT", &master]).status().unwrap().success());
    assert!(unicorn.0.wait().unwrap().success(), "{}", fs::read_to_string(directory.join("log")).unwrap());
}

#[test]
fn a_swarm_of_workers_with_threads_is_kept_up() {
    let output = Home::new().ruby(
        "allocator=jemalloc,trim=every",
        "reader, writer = IO.pipe
         busy = Thread.new { loop { 'x' * rand(9_000); sleep 0.002 } }
         start = lambda do
           fork do
             trap('TERM') { exit! 0 }
             3.times { Thread.new { loop { 'y' * rand(9_000); sleep 0.002 } } }
             GC.start; wait_until { Unbloat.status[:trims] > 0 }
             writer.puts [Process.pid, *Unbloat.status.values_at(:pid, :fork_generation)].join(' ')
             sleep
           end
         end
         workers = Array.new(3) { start.call }
         Process.kill('KILL', workers.first); Process.wait(workers.shift)
         workers << start.call
         told = {}
         until (workers - told.keys).empty?
           pid, page, generation = reader.gets.split.map(&:to_i)
           abort 'the page of another process' unless pid == page && generation == 1
           told[pid] = true
         end
         workers.each { |pid| Process.kill('TERM', pid) }
         puts workers.map { |pid| Process.wait2(pid).last.success? }.uniq",
    );
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

#[test]
fn a_worker_becomes_the_parent_of_the_next_generation() {
    // Like Pitchfork: a warm worker forks an intermediate process, which forks the new worker and ends.
    let output = Home::new().ruby(
        "trim=every",
        "reader, writer = IO.pipe
         live = lambda do |generation|
           thread = Thread.new { loop { 'x' * rand(9_000); sleep 0.002 } }
           GC.start; wait_until { Unbloat.status[:trims] > 0 }
           writer.puts [generation, Unbloat.status[:fork_generation], Unbloat.status[:pid] == Process.pid].join(' ')
           Process.wait(fork { fork { live.call(generation + 2) }; exit! 0 }) if generation < 6
         end
         Process.wait(fork { live.call(1) })
         writer.close
         puts reader.read",
    );
    assert_eq!(stdout(&output), "1 1 true\n3 3 true\n5 5 true\n7 7 true\n", "{}", stderr(&output));
}
