//! The runtime as a guest: it never causes a server to end.

use crate::home::*;
use std::fs;
use std::process::Command;

/// The path of the status page, in Ruby.
const PAGE: &str = "page = -> { File.foreach('/proc/self/maps').grep(/[.]status$/).first&.split&.last }";

#[test]
fn a_status_page_that_is_truncated_or_removed_harms_nobody() {
    let output = Home::new().ruby(
        "trim=every",
        &format!(
            "{PAGE}
             trimmed = -> {{ before = Unbloat.status[:trims]; GC.start; wait_until {{ Unbloat.status[:trims] > before }} }}
             trimmed.call
             File.truncate(page.call, 0)
             5.times {{ trimmed.call }}
             wait_until {{ File.size(page.call) == 4096 }}
             puts 'whole again'
             File.unlink(page.call)
             5.times {{ trimmed.call }}
             wait_until {{ page.call && File.exist?(page.call) }}
             puts 'there again'
             directory = File.dirname(page.call)
             Dir.children(directory).each {{ |name| File.unlink(File.join(directory, name)) }}
             Dir.rmdir(directory)
             trimmed.call
             wait_until {{ page.call && File.exist?(page.call) }}
             puts 'there again with its directory'"
        ),
    );
    let expected = "whole again\nthere again\nthere again with its directory\n";
    assert_eq!((stdout(&output), output.status.success()), (expected, true), "{}", stderr(&output));
}

/// Another file with the page's name is not written to.
#[test]
fn a_file_in_the_place_of_the_page_is_left_alone() {
    let output = Home::new().ruby(
        "trim=every",
        &format!(
            "{PAGE}
             GC.start; wait_until {{ Unbloat.status[:trims] > 0 }}
             victim = File.join(ENV['XDG_RUNTIME_DIR'], 'victim')
             File.write(victim, 'precious')
             path = page.call
             File.unlink(path); File.symlink(victim, path)
             3.times {{ |n| before = Unbloat.status[:trims]; GC.start; wait_until {{ Unbloat.status[:trims] > before }} }}
             puts File.read(victim)"
        ),
    );
    assert_eq!(stdout(&output), "precious\n", "{}", stderr(&output));
}

#[test]
fn a_process_that_may_write_no_files_is_not_killed_for_its_page() {
    let home = Home::new();
    assert!(home.ruby("trim=every", "").status.success(), "the cache is filled");
    let mut shell = Command::new("sh");
    home.isolate(&mut shell);
    let code = with_helpers("GC.start; wait_until { Unbloat.status[:trims] > 0 }; $stdout.write('alive')");
    let output = shell
        .args(["-c", "ulimit -f 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_unbloat"), "run"])
        .args(["--policy", "trim=every", "--", "ruby", "-e", &code])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "alive", "{output:?}");
}

/// Thread-local variables of preloaded libraries lie on the stack of each thread.
#[test]
fn the_worker_has_room_for_the_thread_local_variables_of_the_process() {
    for bytes in [100_000, 122_000, 126_000, 600_000] {
        let home = Home::new();
        let library = home.0.path().join("libtls.so");
        let source = library.with_extension("c");
        let text = "__attribute__((tls_model(\"initial-exec\"))) static __thread volatile char storage[SIZE];\n\
                    __attribute__((constructor)) static void touch(void) { storage[0] = 1; }\n";
        fs::write(&source, text).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(["-shared", "-fPIC", "-O1", &format!("-DSIZE={bytes}"), "-o"]);
        assert!(compiler.arg(&library).arg(&source).status().unwrap().success(), "run scripts/deps test");
        let output = home
            .unbloat(&["run", "--policy", "trim=every", "--", "ruby", "-e"])
            .arg(with_helpers(
                "3.times { |n| GC.start; wait_until { Unbloat.status[:trims] > n } }; puts 'trims'",
            ))
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        assert_eq!(stdout(&output), "trims\n", "{bytes}: {output:?}");
    }
}
