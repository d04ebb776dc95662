//! The command that replaces `unbloat run`: its environment and its libraries.

use crate::home::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use unbloat_test_support::assert_follows;

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
    // A file in a format unknown to the kernel is a shell script.
    fs::write(&file, "echo $1").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let script = home.unbloat(&["run", "--", file.to_str().unwrap(), "word"]).output().unwrap();
    assert_eq!(stdout(&script), "word\n");
    fs::write(&file, "#!/no/such/interpreter\n").unwrap();
    let without = home.unbloat(&["run", "--", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(without.status.code(), Some(127));
    assert!(stderr(&without).contains("interpreter is missing"), "{}", stderr(&without));
}

#[test]
fn without_a_path_commands_are_looked_for_where_the_system_has_them() {
    let home = Home::new();
    let here = home.0.path().join("true");
    fs::write(&here, "#!/bin/sh\necho not this one\n").unwrap();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = home.unbloat(&["run", "--policy", "off", "--", "true"]);
    let output = command.env_remove("PATH").current_dir(home.0.path()).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), ""), "{}", stderr(&output));
}

/// systemd starts services with SIGPIPE ignored; a shell does not.
#[test]
fn a_signal_that_was_ignored_stays_ignored_and_no_other() {
    const SIGPIPE_BIT: u64 = 1 << (13 - 1);
    let home = Home::new();
    for (before, ignored) in [("trap '' PIPE;", true), ("", false)] {
        let mut shell = Command::new("sh");
        home.isolate(&mut shell);
        let output = shell
            .args(["-c", &format!("{before} exec \"$@\""), "sh", env!("CARGO_BIN_EXE_unbloat")])
            .args(["run", "--policy", "off", "--", "grep", "SigIgn", "/proc/self/status"])
            .output()
            .unwrap();
        let mask = stdout(&output).split_whitespace().last().unwrap();
        let mask = u64::from_str_radix(mask, 16).unwrap();
        assert_eq!(mask & SIGPIPE_BIT != 0, ignored, "{}", stdout(&output));
    }
}

#[test]
fn an_option_that_is_none_is_no_command() {
    let home = Home::new();
    let mistyped = home.unbloat(&["run", "--polciy", "lean", "true"]).output().unwrap();
    assert_eq!(mistyped.status.code(), Some(2), "{mistyped:?}");
    let passed_on = home.unbloat(&["run", "echo", "-n", "--quiet"]).output().unwrap();
    assert_eq!(stdout(&passed_on), "--quiet", "what follows the command is its own");
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
    let mut from_environment = Home::new().unbloat(&["run", "--", "true"]);
    let output = from_environment.env("UNBLOAT_RUN_POLICY", "trim=adaptive,leen").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'leen'"), "{}", stderr(&output));
}

#[test]
fn a_nested_off_is_a_control() {
    let home = Home::new();
    let theirs = unbloat_test_support::system_library("libjemalloc.so.2").expect("run scripts/deps test");
    let outer = format!("allocator=system:{},arenas=2,trim=every", theirs.display());
    let unbloat = env!("CARGO_BIN_EXE_unbloat");
    let output = home
        .unbloat(&["run", "--quiet", "--policy", &outer, "--", unbloat, "run", "--policy", "off", "--"])
        .args(["ruby", "-e", "p ENV.values_at('LD_PRELOAD', 'MALLOC_ARENA_MAX', 'RUBYOPT', 'UNBLOAT_TRIM')"])
        .output()
        .unwrap();
    assert_eq!((stdout(&output), stderr(&output)), ("[nil, nil, nil, nil]\n", ""));
}

#[test]
fn what_is_written_into_a_file_holds_the_policy_and_nothing_of_ours() {
    let home = Home::new();
    let unbloat = env!("CARGO_BIN_EXE_unbloat");
    for (format, line) in [
        ("dockerfile", "ENV RUBYOPT=-r/opt/u/libunbloat.so\n"),
        ("systemd", "Environment=RUBYOPT=-r/opt/u/libunbloat.so\n"),
        ("procfile", " RUBYOPT=-r/opt/u/libunbloat.so "),
        ("heroku", " RUBYOPT=-r/opt/u/libunbloat.so "),
        ("kubernetes", "  - name: RUBYOPT\n    value: \"-r/opt/u/libunbloat.so\"\n"),
    ] {
        let output = home
            .unbloat(&["run", "--quiet", "--", unbloat, "env", "--format", format, "--libraries", "/opt/u"])
            .env("RUBYOPT", "-rbundler/setup")
            .output()
            .unwrap();
        let printed = stdout(&output);
        assert!(printed.contains(line) && !printed.contains("bundler"), "{printed}");
        assert!(printed.contains("/opt/u/libunbloat-jemalloc.so"), "{printed}");
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
        stdout(&dockerfile).contains("ENV RUBYOPT=-r/opt/unbloat/libunbloat.so\n"),
        "{}",
        stdout(&dockerfile)
    );
}

#[test]
fn the_changes_to_an_environment_are_a_document() {
    let home = Home::new();
    let mut command =
        home.unbloat(&["env", "--json", "--policy", "arenas=1,trim=major", "--libraries", "/opt/u"]);
    let output = command.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=4").output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_follows(&document, "env.schema.json");
    assert_eq!(document["set"]["RUBYOPT"], "-r/opt/u/libunbloat.so");
    assert_eq!(document["policy"], "arenas=1,trim=major");
    assert!(document["notes"][0].as_str().unwrap().contains("arena_max"), "{document:#}");
    let unknown = home.unbloat(&["env", "--json", "--policy", "thin"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", stderr(&unknown));
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
    fs::remove_file(directory.join("libunbloat.so")).unwrap();
    let lacking = run(Some(&directory));
    assert_eq!((lacking.status.code(), stdout(&lacking)), (Some(1), ""));
    assert!(stderr(&lacking).contains("has no libunbloat.so"), "{}", stderr(&lacking));
}

#[test]
fn what_is_installed_can_be_read_by_the_servers_user_whatever_the_umask() {
    let home = Home::new();
    let directory = home.0.path().join("opt/unbloat");
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_unbloat"), "install"]);
    assert!(shell.arg(&directory).output().unwrap().status.success());
    for path in [&directory, directory.parent().unwrap(), &directory.join("libunbloat.so")] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o755, "{}", path.display());
    }
}

#[test]
fn an_allocator_that_is_not_there_is_named() {
    let output =
        Home::new().unbloat(&["run", "--policy", "allocator=system:/no/such.so", "--", "true"]).output();
    let output = output.unwrap();
    assert!(
        output.status.success() && stderr(&output).contains("unbloat: /no/such.so does not exist"),
        "{output:?}"
    );
}

#[test]
fn what_the_user_preloads_stays_and_conflicts_are_named() {
    let home = Home::new();
    let output = home
        .unbloat(&[
            "run",
            "--",
            "ruby",
            "-e",
            "puts File.read('/proc/self/environ').split(\"\\0\").grep(/^(LD_PRELOAD|RUBYOPT)=/)",
        ])
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
    assert_eq!(
        stdout(&off),
        "0\nswitched off by UNBLOAT=0; unset it and restart the server\n",
        "{}",
        stderr(&off)
    );
}
