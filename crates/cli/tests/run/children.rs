//! The programs that a server starts: they run as without Unbloat, and Rubies among them stay lean.

use crate::home::*;
use std::fs;
use std::process::Command;

/// A piece of Ruby that prints the allocator behind malloc, and its arguments.
const WHO: &str = "puts [Unbloat.status[:allocator][/\\w+/], *ARGV].join(' ')";

/// Runs a piece of Ruby under `lean`, in a home in which `who.rb` is [`WHO`].
fn lean(code: &str) -> String {
    let home = Home::new();
    fs::write(home.0.path().join("who.rb"), WHO).unwrap();
    let mut command = home.unbloat(&["run", "--", "ruby", "-e", &with_helpers(code)]);
    let output = command.current_dir(home.0.path()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output).to_owned()
}

#[test]
fn a_program_that_is_no_ruby_has_nothing_of_ours() {
    let output = lean(
        "puts Unbloat.status[:allocator][/\\w+/]
         puts `cat /proc/self/maps`.include?('libunbloat')
         puts `sh -c 'cat /proc/self/maps'`.include?('libunbloat')
         puts `env`.lines.grep(/^(LD_PRELOAD|MALLOC_)/).size
         IO.popen('cat /proc/self/maps') { |pipe| puts pipe.read.include?('libunbloat') }",
    );
    assert_eq!(output, "jemalloc\nfalse\nfalse\n0\nfalse\n");
}

#[test]
fn a_program_with_little_address_space_starts_as_without_us() {
    let limited = |bytes: u64| format!("prlimit --as={bytes} git --version");
    let starts = |bytes: &u64| {
        let output = Command::new("sh").args(["-c", &limited(*bytes)]).output().unwrap();
        output.status.success()
    };
    let enough = 64_000_000;
    assert!(starts(&enough), "git does not start in 64 MB");
    let steps = (1..250).map(|step| enough - step * 250_000);
    let least = steps.take_while(starts).last().unwrap_or(enough);
    assert_eq!(lean(&format!("puts system('{}')", limited(least))).lines().last(), Some("true"), "{least}");
}

#[test]
fn what_the_user_preloads_reaches_the_children() {
    let home = Home::new();
    let theirs =
        unbloat_test_support::system_library("libtcmalloc_minimal.so.4").expect("run scripts/deps test");
    let output = home
        .unbloat(&["run", "--quiet", "--", "ruby", "-e", "puts `env`.lines.grep(/^LD_PRELOAD/)"])
        .env("LD_PRELOAD", &theirs)
        .output()
        .unwrap();
    assert_eq!(stdout(&output), format!("LD_PRELOAD={}\n", theirs.display()), "{}", stderr(&output));
}

#[test]
fn a_ruby_stays_lean_through_every_exec_on_the_way() {
    let ways = [
        "ruby who.rb",
        "sh -c \"exec ruby who.rb\"",
        "sh -c \"ruby who.rb; true\"",
        "env ruby who.rb",
        "sh -c \"sh -c \\\"ruby -W0 who.rb\\\"\"",
        "ruby -e \"exec %q(ruby), %q(who.rb)\"",
        "ruby -e \"system %q(ruby who.rb)\"",
        "ruby -rjson -Ilib -e \"load %q(who.rb)\"",
    ];
    for way in ways {
        assert_eq!(lean(&format!("system({way:?})")), "jemalloc\n", "{way}");
    }
    // The start of a script on standard input is read before anything can be done, so it runs with the
    // system's allocator.
    assert_eq!(lean("system('ruby < who.rb'); system('cat who.rb | ruby - word')"), "glibc\nglibc word\n");
    assert_eq!(lean("exec 'ruby', 'who.rb', '', \"two\\nlines\", '-C'"), "jemalloc  two\nlines -C\n");
}

#[test]
fn a_gem_s_command_under_bundler_stays_lean() {
    let output = lean(
        "File.write('Gemfile', '')
         File.write('entry', \"#!/bin/sh\\nexec bundle exec ruby who.rb\\n\"); File.chmod(0755, 'entry')
         system({ 'BUNDLE_GEMFILE' => File.expand_path('Gemfile') }, 'bundle exec ruby who.rb')
         system({ 'BUNDLE_GEMFILE' => File.expand_path('Gemfile') }, './entry')",
    );
    assert_eq!(output, "jemalloc\njemalloc\n");
}

/// In Ruby 3.3 and later Bundler wraps `require` (bundled_gems.rb, `replace_require`).
#[test]
fn a_wrapper_around_require_does_not_hide_that_the_program_has_not_begun() {
    let output = lean(
        "File.write('wrapper.rb', \"module Kernel; alias plain_require require; def require(name) = wrapped(name); \" \\
           \"def wrapped(name) = plain_require(name); end\")
         system({ 'RUBYOPT' => \"-r./wrapper.rb #{ENV['RUBYOPT']}\" }, 'ruby', 'who.rb')",
    );
    assert_eq!(output, "jemalloc\n");
}

/// A Ruby that is executed by a Ruby is recognized and starts once; behind a shell it starts itself again.
#[test]
fn a_ruby_that_a_ruby_starts_is_started_once() {
    let once = ["'ruby', 'who.rb'", "RbConfig.ruby, 'who.rb'", "'ruby who.rb'", "'./direct'", "'./by_env'"];
    let twice = ["'ruby who.rb; true'", "'sh -c \"exec ruby who.rb\"'", "'./other_name who.rb'"];
    for (ways, starts) in [(&once[..], "x"), (&twice[..], "xx")] {
        for way in ways {
            let output = lean(&format!(
                "File.write('count.rb', %q(File.write('starts', 'x', mode: 'a')))
                 File.write('direct', \"#!#{{RbConfig.ruby}} -w\\n\" + File.read('who.rb')); File.chmod(0755, 'direct')
                 File.write('by_env', \"#! /usr/bin/env  -S ruby -w\\n\" + File.read('who.rb')); File.chmod(0755, 'by_env')
                 File.symlink(RbConfig.ruby, 'other_name')
                 system({{ 'RUBYOPT' => \"-r./count.rb #{{ENV['RUBYOPT']}}\" }}, {way})
                 puts File.read('starts')"
            ));
            assert_eq!(output, format!("jemalloc\n{starts}\n"), "{way}");
        }
    }
}

/// Executes `ruby`, with so many variables and an LD_PRELOAD of so many bytes, on a stack of 16 KiB.
const SMALL_STACK: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char preload[65536] = "LD_PRELOAD=/nonexistent/", *variables[8192], *ruby[] = { 0, 0 };
static void *start(void *unused) { execve(ruby[0], ruby, variables); return unused; }
int main(int argc, char **argv) {
    static char entry[4096];
    int count = 0, more = atoi(argv[3]);
    snprintf(entry, sizeof entry, "UNBLOAT_PRELOAD=%s", argv[2]);
    memset(preload + strlen(preload), 'x', atoi(argv[4]));
    variables[count++] = preload;
    variables[count++] = entry;
    variables[count++] = "RUBYOPT=-r/somewhere/libunbloat.so";
    while (count < more) variables[count++] = "ANOTHER=variable";
    ruby[0] = argv[1];
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384)) return 3;
    if (pthread_create(&thread, &attributes, start, 0)) return 4;
    pthread_join(thread, 0);
    return 5;
}
"#;

/// The smallest thread may execute a Ruby, whatever environment it hands on. (Here `ruby` is env(1), which prints what it gets.)
#[test]
fn an_execution_fits_into_the_smallest_stack() {
    let home = Home::new();
    let directory = home.0.path();
    let [installed, source, program, ruby] =
        ["installed", "small.c", "small", "ruby"].map(|name| directory.join(name));
    assert!(home.unbloat(&["install", installed.to_str().unwrap()]).output().unwrap().status.success());
    fs::write(&source, SMALL_STACK).unwrap();
    std::os::unix::fs::symlink("/usr/bin/env", &ruby).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-pthread", "-Wl,-z,now", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success(), "run scripts/deps test");
    let library = installed.join("libunbloat-jemalloc.so");
    let preload = |variables: usize, bytes: usize| {
        let mut command = Command::new(&program);
        command.arg(&ruby).arg(&library).args([variables.to_string(), bytes.to_string()]);
        let output = command.env("LD_PRELOAD", &library).output().unwrap();
        assert!(output.status.success(), "{variables} variables, {bytes} bytes: {output:?}");
        stdout(&output).lines().find(|line| line.starts_with("LD_PRELOAD=")).unwrap().to_owned()
    };
    let ours = format!("LD_PRELOAD={}:/nonexistent/x", library.display());
    assert!(preload(400, 900).starts_with(&ours));
    for (variables, bytes) in [(2000, 900), (400, 4000), (2000, 4000), (8000, 60_000)] {
        assert!(preload(variables, bytes).starts_with("LD_PRELOAD=/nonexistent/x"), "{variables} {bytes}");
    }
}

/// Another interposer of execve is called as before, and every error is the kernel's.
#[test]
fn another_library_that_watches_executions_sees_them_all() {
    let home = Home::new();
    let library = home.0.path().join("libwatch.so");
    let source = library.with_extension("c");
    let text = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <fcntl.h>\n#include <unistd.h>\n\
                int execve(const char *p, char *const a[], char *const e[]) {\n\
                  int f = open(\"watched\", O_WRONLY | O_CREAT | O_APPEND, 0600); write(f, \"x\", 1); close(f);\n\
                  return ((int (*)(const char *, char *const *, char *const *))dlsym(RTLD_NEXT, \"execve\"))(p, a, e); }\n";
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success(), "run scripts/deps test");
    let code = "Dir.mkdir('directory'); File.mkfifo('fifo', 0777); File.write('plain', '')
                errors = ['/nonexistent', './directory', './fifo', './plain'].map { |path|
                  begin; spawn([path, path]); rescue SystemCallError => error; error.class; end }
                before = File.size('watched')
                system('true'); system('ruby', '-e', '0')
                puts errors.inspect, File.size('watched') - before";
    let mut command = home.unbloat(&["run", "--quiet", "--", "ruby", "-e", code]);
    let output = command.current_dir(home.0.path()).env("LD_PRELOAD", &library).output().unwrap();
    let expected = "[Errno::ENOENT, Errno::EACCES, Errno::EACCES, Errno::EACCES]\n2\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

/// A Ruby that re-executes itself is the same process with the same name, and nothing of its program has run
/// before.
#[test]
fn a_second_start_does_not_show() {
    let output = lean(
        "File.write('once', \"#!#{RbConfig.ruby}\\nFile.write('runs', 'x', mode: 'a')\\n\" \\
           'puts File.read(\"/proc/self/comm\"), $0, Process.pid, ENV.keys.grep(/RESTARTED|LD_PRELOAD/).inspect')
         File.chmod(0755, 'once')
         pid = spawn('sh', '-c', 'exec ./once'); Process.wait(pid)
         puts pid, File.read('runs')",
    );
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], ["once", "./once"], "{output}");
    assert_eq!((lines[2], lines[3], lines[5]), (lines[4], "[]", "x"), "{output}");
}

#[test]
fn a_program_that_requires_the_library_late_is_not_started_again() {
    let output = lean(
        "library = File.foreach('/proc/self/maps').grep(/libunbloat[.]so/).first.split.last
         code = \"puts 'once'; require '#{library}'; \" + File.read('who.rb')
         system({ 'RUBYOPT' => nil }, 'ruby', '-e', code)",
    );
    assert_eq!(output, "once\nglibc\n");
}

#[test]
fn a_limit_of_arenas_reaches_rubies_only() {
    let home = Home::new();
    let child = "$stdout.sync = true; puts Process.pid; sleep";
    let code = format!("puts `env`[/^MALLOC_ARENA_MAX.*/].inspect; exec 'ruby', '-e', {child:?}");
    let mut command = home.unbloat(&["run", "--policy", "arenas=2,trim=every", "--", "ruby", "-e"]);
    let (guard, mut out) = Guard::spawn(command.arg(format!("$stdout.sync = true; {code}")));
    assert_eq!(line(&mut out), "nil");
    assert_eq!(line(&mut out), guard.0.id().to_string());
    let status = home.unbloat(&["status", "--json", &guard.0.id().to_string()]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(document["processes"][0]["problems"], serde_json::json!([]), "{document}");
}

#[test]
fn an_allocator_without_a_runtime_is_kept_from_the_children_as_well() {
    let home = Home::new();
    let code = "puts `env`[/^LD_PRELOAD.*/].inspect, defined?(Unbloat).inspect, \
                `ruby -e 'puts File.read(%q(/proc/self/maps)).include?(%q(libunbloat-jemalloc))'`";
    let output =
        home.unbloat(&["run", "--policy", "allocator=jemalloc", "--", "ruby", "-e", code]).output().unwrap();
    assert_eq!(stdout(&output), "nil\nnil\ntrue\n", "{}", stderr(&output));
}
