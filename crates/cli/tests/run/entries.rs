//! The ways in which a Ruby server is really started and restarted: it is lean at the end of each.

use crate::home::{Guard, Home, stderr, stdout};
use crate::servers::ask;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Answer of each application: its process, the number of its start, and who serves malloc there.
const ANSWER: &str = "lambda { |_env| [200, { 'Content-Type' => 'text/plain' }, \
    [[Process.pid, START, Unbloat.status[:allocator]].join(' ')]] }";
const START: &str = "START = File.read('start')";

fn write(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The smallest Rails application.
fn rails(directory: &Path) {
    write(
        directory,
        "bin/rails",
        "#!/usr/bin/env ruby\nAPP_PATH = File.expand_path('../config/application', __dir__)\nrequire 'rails/commands'\n",
    );
    write(directory, "config/boot.rb", "");
    write(
        directory,
        "config/application.rb",
        &format!(
            "require 'rails'\nrequire 'action_controller/railtie'\n{START}\n\
             class Application < Rails::Application\n\
               config.root = File.expand_path('..', __dir__)\n\
               config.eager_load = false\n\
               config.cache_classes = false\n\
               config.secret_key_base = 'x'\n\
               config.hosts.clear\n\
               routes.append {{ root to: {ANSWER} }}\n\
             end\n"
        ),
    );
    write(
        directory,
        "config/environment.rb",
        "require_relative 'application'\nRails.application.initialize!\n",
    );
    write(directory, "config.ru", "require_relative 'config/environment'\nrun Rails.application\n");
    write(directory, "log/development.log", "");
    write(directory, "Gemfile", "gem 'puma'\ngem 'rails'\ngem 'spring'\n");
    write(directory, "start", "0");
}

/// A server and what it has started; all of it ends with the test.
struct Server(Guard);

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing is left of it if the test has ended it.
        let mut kill = Command::new("kill");
        let _ = kill.args(["-KILL", "--", &format!("-{}", self.0.0.id())]).stderr(Stdio::null()).status();
    }
}

impl Server {
    /// Starts a command in the home's directory, with its output in `log.txt`.
    fn start(home: &Home, words: &[&str]) -> Self {
        let directory = home.0.path();
        let log = fs::File::create(directory.join("log.txt")).unwrap();
        let mut command = home.unbloat(&["run", "--quiet", "--"]);
        command.args(words).current_dir(directory).env("BUNDLE_GEMFILE", directory.join("Gemfile"));
        command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0);
        Server(Guard(command.spawn().unwrap()))
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.0.id().to_string()]).status().unwrap().success());
    }

    /// Ends it as its operator would, and waits for it.
    fn finish(mut self) {
        self.signal("-TERM");
        self.0.0.wait().unwrap();
    }
}

/// `unbloat status` finds nothing amiss in a process.
fn assert_live(home: &Home, pid: &str) {
    let output = home.unbloat(&["status", "--json", pid]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["processes"][0]["problems"], serde_json::json!([]), "{document}");
}

#[test]
fn a_rails_server_behind_every_usual_entry_is_lean() {
    let entries: [&[&str]; 4] = [
        &["bin/rails", "server", "-u", "puma", "-b", "SOCKET"],
        &["sh", "-c", "exec bundle exec bin/rails server -u puma -b SOCKET"],
        &["ruby", "-e", "exec './entry'"],
        &["foreman", "start"],
    ];
    for words in entries {
        let home = Home::new();
        let directory = home.0.path();
        let socket = directory.join("socket");
        let place = |text: &str| text.replace("SOCKET", &socket.display().to_string());
        rails(directory);
        let server = place("bin/rails server -u puma -b SOCKET");
        write(directory, "entry", &format!("#!/bin/sh\nset -e\nexec bundle exec {server}\n"));
        write(directory, "Procfile", &format!("web: {server}\n"));
        let words: Vec<String> = words.iter().map(|word| place(word)).collect();
        let server = Server::start(&home, &words.iter().map(String::as_str).collect::<Vec<_>>());
        let answer = ask(&socket);
        assert_eq!(answer[2], "jemalloc", "{words:?}: {answer:?}");
        assert_live(&home, &answer[0]);
        server.finish();
    }
}

fn puma(home: &Home, options: &[&str]) -> Server {
    write(home.0.path(), "config.ru", &format!("{START}\nrun {ANSWER}\n"));
    write(home.0.path(), "Gemfile", "");
    let socket = format!("unix://{}", home.0.path().join("socket").display());
    Server::start(home, &[&["puma", "-b", &socket][..], options].concat())
}

/// Asks until every process of the server answers with this start, each of them lean.
fn ask_all(socket: &Path, start: &str) {
    let mut in_a_row = 0;
    for _ in 0..600 {
        let answer = ask(socket);
        assert_eq!(answer[2], "jemalloc", "{answer:?}");
        in_a_row = if answer[1] == start { in_a_row + 1 } else { 0 };
        if in_a_row == 20 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("not restarted");
}

/// A hot restart (SIGUSR2) executes Puma again, a phased one (SIGUSR1) forks new workers one by one.
#[test]
fn a_puma_stays_lean_through_its_restarts() {
    for (options, restart) in [(&[][..], "-USR2"), (&["-w", "2"][..], "-USR2"), (&["-w", "2"][..], "-USR1")] {
        let home = Home::new();
        write(home.0.path(), "start", "0");
        let server = puma(&home, options);
        let socket = home.0.path().join("socket");
        ask_all(&socket, "0");
        for start in ["1", "2"] {
            write(home.0.path(), "start", start);
            server.signal(restart);
            ask_all(&socket, start);
        }
        assert_live(&home, &ask(&socket)[0]);
        server.finish();
    }
}

#[test]
fn a_command_that_spring_preloads_is_lean() {
    let home = Home::new();
    let directory = home.0.path();
    rails(directory);
    write(directory, "who.rb", "puts Unbloat.status[:allocator][/\\w+/]");
    let spring = |words: &[&str]| {
        let mut command = home.unbloat(&["run", "--quiet", "--", "spring"]);
        command.args(words).current_dir(directory).env("PWD", directory).env("SPRING_TMP_PATH", directory);
        command.output().unwrap()
    };
    let outputs = [0, 1].map(|_| spring(&["rails", "runner", "who.rb"]));
    let stopped = spring(&["stop"]);
    for output in &outputs {
        assert_eq!(stdout(output).lines().last(), Some("jemalloc"), "{output:?}");
    }
    assert!(stderr(&outputs[1]).contains("Spring preloader"), "{outputs:?}");
    assert_eq!(stdout(&stopped), "Spring stopped.\n", "{stopped:?}");
}
