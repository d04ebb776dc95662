//! `unbloat run`, `env`, `install` and `status` on real processes.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::BufReader;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// A home of its own for a test: cache and status pages lie in it and go with it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        fs::create_dir(home.runtime_directory()).unwrap();
        fs::set_permissions(home.runtime_directory(), fs::Permissions::from_mode(0o700)).unwrap();
        home
    }

    fn runtime_directory(&self) -> PathBuf {
        self.0.path().join("run")
    }

    fn pages(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.runtime_directory().join("unbloat")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The unbloat binary in this home, with none of the tester's own settings.
    fn unbloat(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unbloat"));
        command.args(arguments);
        self.isolate(&mut command);
        command
    }

    fn isolate(&self, command: &mut Command) {
        for name in
            ["LD_PRELOAD", "RUBYOPT", "MALLOC_CONF", "MALLOC_ARENA_MAX", "UNBLOAT", "UNBLOAT_LIBRARY_DIR"]
        {
            command.env_remove(name);
        }
        command
            .env("XDG_CACHE_HOME", self.0.path().join("cache"))
            .env("XDG_RUNTIME_DIR", self.runtime_directory());
    }

    /// Runs a piece of Ruby under a policy to its end.
    fn ruby(&self, policy: &str, code: &str) -> Output {
        self.unbloat(&["run", "--policy", policy, "--", "ruby", "-e", &with_helpers(code)]).output().unwrap()
    }
}

/// Ruby that the scripts share: waiting for something, and resident bytes.
fn with_helpers(code: &str) -> String {
    let helpers = "
        $stdout.sync = true
        def resident = File.read('/proc/self/statm').split[1].to_i * 4096
        def wait_until(seconds = 20)
          (seconds * 50).to_i.times { (found = yield) ? (return found) : sleep(0.02) }
          abort \"waited in vain: #{Unbloat.status}\"
        end
        def burst
          strings = Array.new(100_000) { |i| 'x' * (24 + i % 1500) }
          $kept = strings.each_slice(30).map(&:first)
          nil
        end
    ";
    format!("{helpers}\n{code}")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A process that ends with the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guard {
    fn spawn(command: &mut Command) -> (Self, BufReader<std::process::ChildStdout>) {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        (Self(child), out)
    }
}

fn line(out: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn the_command_takes_our_place() {
    let home = Home::new();
    let mut command = home.unbloat(&["run", "--", "sh", "-c", "echo $$; exit 7"]);
    let (mut guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), guard.0.id().to_string());
    assert_eq!(guard.0.wait().unwrap().code(), Some(7));
    let killed = home.unbloat(&["run", "--", "sh", "-c", "kill -TERM $$"]).status().unwrap();
    assert_eq!(killed.signal(), Some(15));
}

#[test]
fn what_cannot_be_run_is_said_as_a_shell_says_it() {
    let home = Home::new();
    let missing = home.unbloat(&["run", "--", "no-such-command"]).output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
    assert!(stderr(&missing).contains("no-such-command: command not found"), "{}", stderr(&missing));
    let file = home.0.path().join("plain");
    fs::write(&file, "text").unwrap();
    let plain = home.unbloat(&["run", "--", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(plain.status.code(), Some(126));
    assert!(stderr(&plain).contains("Permission denied"), "{}", stderr(&plain));
    // Without a format that the kernel knows, it is a shell script.
    fs::write(&file, "echo $1").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let script = home.unbloat(&["run", "--", file.to_str().unwrap(), "word"]).output().unwrap();
    assert_eq!(stdout(&script), "word\n");
}

#[test]
fn an_unknown_policy_is_answered_with_the_list() {
    let output = Home::new().ruby("leen", "");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("'leen'") && stderr(&output).contains("trim=adaptive"),
        "{}",
        stderr(&output)
    );
}

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
    assert_eq!(stdout(&output), "the collection was not a full one\n", "{}", stderr(&output));
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
fn a_preloaded_jemalloc_serves_and_answers_malloc_trim() {
    let output = Home::new().ruby(
        "allocator=jemalloc,trim=adaptive",
        "require 'fiddle'
         trim = Fiddle::Function.new(Fiddle.dlopen(nil)['malloc_trim'], [Fiddle::TYPE_SIZE_T], Fiddle::TYPE_INT)
         puts Unbloat.status[:allocator], trim.call(0)",
    );
    assert_eq!(stdout(&output), "jemalloc 5.3.1\n1\n", "{}", stderr(&output));
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
fn it_is_silent_unless_asked_and_can_be_switched_off() {
    let home = Home::new();
    let quiet = home.ruby("lean", "puts 'hello'");
    assert_eq!((stdout(&quiet), stderr(&quiet)), ("hello\n", ""));
    let log = home.unbloat(&["run", "--", "ruby", "-e", "puts 1"]).env("UNBLOAT_LOG", "1").output().unwrap();
    assert_eq!(stdout(&log), "1\n");
    assert_eq!(stderr(&log).lines().count(), 1, "{}", stderr(&log));
    assert!(stderr(&log).starts_with("unbloat ") && stderr(&log).contains("lean"), "{}", stderr(&log));
    let off = home
        .unbloat(&["run", "--quiet", "--policy", "trim=every", "--", "ruby", "-e"])
        .arg("5.times { GC.start; sleep 0.02 }; puts Unbloat.status[:trims], Unbloat.status[:last_reason]")
        .env("UNBLOAT", "0")
        .output()
        .unwrap();
    assert_eq!(stdout(&off), "0\nswitched off by UNBLOAT=0\n", "{}", stderr(&off));
}

#[test]
fn the_library_is_harmless_in_a_process_that_is_no_ruby() {
    let home = Home::new();
    let directory = home.0.path().join("lib");
    assert!(home.unbloat(&["install", directory.to_str().unwrap()]).status().unwrap().success());
    for library in ["libunbloat.so", "libunbloat-jemalloc.so"] {
        let mut shell = Command::new("sh");
        home.isolate(&mut shell);
        let output = shell
            .args(["-c", "echo fine | cat"])
            .env("LD_PRELOAD", directory.join(library))
            .output()
            .unwrap();
        assert_eq!((stdout(&output), stderr(&output)), ("fine\n", ""), "{library}");
    }
}

#[test]
fn the_environment_can_be_printed_and_does_the_same() {
    let home = Home::new();
    let mut shell = Command::new("sh");
    home.isolate(&mut shell);
    let script = format!(
        "eval \"$({} env --policy allocator=jemalloc,trim=major)\" && ruby -e 'puts Unbloat.status[:policy], Unbloat.status[:allocator]'",
        env!("CARGO_BIN_EXE_unbloat")
    );
    let output = shell.args(["-c", &script]).output().unwrap();
    assert_eq!(stdout(&output), "allocator=jemalloc,trim=major\njemalloc 5.3.1\n", "{}", stderr(&output));
    let dockerfile =
        home.unbloat(&["env", "--format", "dockerfile", "--libraries", "/opt/unbloat"]).output().unwrap();
    assert!(
        stdout(&dockerfile).contains("ENV RUBYOPT=\"-r/opt/unbloat/libunbloat.so\"\n"),
        "{}",
        stdout(&dockerfile)
    );
}

#[test]
fn installed_libraries_are_used_without_a_cache() {
    let home = Home::new();
    let directory = home.0.path().join("lib");
    let installed = home.unbloat(&["install", directory.to_str().unwrap()]).output().unwrap();
    assert_eq!(stdout(&installed).lines().count(), 2);
    let unusable = home.0.path().join("file");
    fs::write(&unusable, "").unwrap();
    let run = |library_directory: Option<&Path>| {
        let mut command = home.unbloat(&["run", "--", "ruby", "-e", "puts Unbloat.status[:policy]"]);
        command.env("XDG_CACHE_HOME", &unusable);
        command.envs(library_directory.map(|path| ("UNBLOAT_LIBRARY_DIR", path)));
        command.output().unwrap()
    };
    let refused = run(None);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("unbloat install DIR"), "{}", stderr(&refused));
    assert_eq!(stdout(&run(Some(&directory))), "lean\n");
}

#[test]
fn what_the_user_preloads_stays_and_conflicts_are_named() {
    let home = Home::new();
    let output = home
        .unbloat(&["run", "--", "ruby", "-e", "puts ENV.values_at('LD_PRELOAD', 'RUBYOPT')"])
        .env("LD_PRELOAD", "libjemalloc.so.2")
        .env("RUBYOPT", "-W0")
        .env("MALLOC_CONF", "narenas:2")
        .output()
        .unwrap();
    assert!(stdout(&output).contains("libunbloat-jemalloc.so:libjemalloc.so.2"), "{}", stdout(&output));
    assert!(stdout(&output).contains("libunbloat.so -W0"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("libjemalloc.so.2") && stderr(&output).contains("narenas:2"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn programs_that_cannot_be_preloaded_into_are_named_and_started() {
    let home = Home::new();
    let source = home.0.path().join("hello.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n").unwrap();
    for (compiler, flag, word) in [("gcc", "-static", "statically linked"), ("musl-gcc", "-O1", "musl")] {
        let program = home.0.path().join(compiler);
        let built = Command::new(compiler).args([flag, "-o"]).arg(&program).arg(&source).status().unwrap();
        assert!(built.success(), "{compiler} is missing: run scripts/deps test");
        let output = home.unbloat(&["run", "--", program.to_str().unwrap()]).output().unwrap();
        // musl's own linker may not be installed where the program looks for it; then the kernel says so.
        if compiler == "gcc" {
            assert_eq!(stdout(&output), "hello\n");
        }
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
    }
}

const WAITING: &str = "GC.start; wait_until { Unbloat.status[:trims] > 0 }; puts 'ready'; sleep";

/// The JSON of `unbloat status` for a process, valid by its schema.
fn status_of(home: &Home, pid: u32) -> serde_json::Value {
    let output = home.unbloat(&["status", "--json", &pid.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let schema =
        fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/status.schema.json")).unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    let errors: Vec<String> = jsonschema::validator_for(&schema)
        .unwrap()
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    document["processes"][0].clone()
}

#[test]
fn status_shows_a_running_process_and_proves_it_by_its_mappings() {
    let home = Home::new();
    let code = with_helpers(WAITING);
    let mut command =
        home.unbloat(&["run", "--policy", "allocator=jemalloc,trim=every", "--", "ruby", "-e", &code]);
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let status = status_of(&home, guard.0.id());
    assert_eq!(status["policy"], "allocator=jemalloc,trim=every");
    assert_eq!(status["allocator"], "jemalloc 5.3.1");
    assert_eq!(status["problems"], serde_json::json!([]));
    assert!(status["trims"].as_u64().unwrap() >= 1 && status["gc_count"].as_u64().unwrap() >= 1);
    let text = home.unbloat(&["status"]).output().unwrap();
    assert!(stdout(&text).contains(&guard.0.id().to_string()), "{}", stdout(&text));
}

#[test]
fn a_claim_that_the_mappings_do_not_bear_out_is_a_problem() {
    let home = Home::new();
    let directory = home.0.path().join("lib");
    assert!(home.unbloat(&["install", directory.to_str().unwrap()]).status().unwrap().success());
    let mut command = Command::new("ruby");
    home.isolate(&mut command);
    command.args(["-e", &with_helpers(WAITING)]).env("UNBLOAT_POLICY", "lean").env("UNBLOAT_TRIM", "every");
    command.env("RUBYOPT", format!("-r{}", directory.join("libunbloat.so").display()));
    let (guard, mut out) = Guard::spawn(&mut command);
    assert_eq!(line(&mut out), "ready");
    let status = status_of(&home, guard.0.id());
    assert!(
        status["problems"][0].as_str().unwrap().contains("libunbloat-jemalloc.so is not mapped"),
        "{status}"
    );
}

#[test]
fn status_says_why_a_process_has_no_page() {
    let home = Home::new();
    let (guard, _out) = Guard::spawn(Command::new("sleep").arg("60"));
    let output = home.unbloat(&["status", &guard.0.id().to_string()]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("unbloat run"), "{}", stderr(&output));
}

#[test]
fn pages_go_with_their_process_and_stale_ones_with_the_next() {
    let home = Home::new();
    assert!(home.ruby("lean", "").status.success());
    assert!(home.pages().is_empty(), "{:?}", home.pages());
    let code = with_helpers("puts 'ready'; sleep");
    let (guard, mut out) = Guard::spawn(&mut home.unbloat(&["run", "--", "ruby", "-e", &code]));
    assert_eq!(line(&mut out), "ready");
    assert_eq!(home.pages().len(), 1);
    assert_eq!(fs::metadata(&home.pages()[0]).unwrap().permissions().mode() & 0o777, 0o600);
    drop(guard); // SIGKILL
    assert_eq!(home.pages().len(), 1, "nobody could remove it");
    assert!(home.ruby("lean", "").status.success());
    assert!(home.pages().is_empty(), "{:?}", home.pages());
}

#[test]
fn without_a_directory_for_the_page_everything_else_works() {
    let home = Home::new();
    let mut command = home.unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e"]);
    command.arg(with_helpers(
        "GC.start; wait_until { Unbloat.status[:trims] > 0 }; puts Unbloat.status[:gc_count] > 0",
    ));
    // A path too long to be used, and no other way to keep it from /dev/shm than to be nobody there: what counts is
    // that the long path is passed over without harm.
    let output = command.env("XDG_RUNTIME_DIR", format!("/{}", "x".repeat(400))).output().unwrap();
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
}

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
         Process.wait(fork { GC.start; wait_until { threads.include?('jemalloc_bg_thd') } })
         puts $?.success?",
    ));
    let output = command.output().unwrap();
    assert_eq!(stdout(&output), "true\n", "{}", stderr(&output));
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
