//! `unbloat top` in a real terminal: tmux.

use crate::{BINARY, script, stderr};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use unbloat_test_support::Target;

const PATIENCE: Duration = Duration::from_secs(120);

/// A tmux server of its own, with one window in which `unbloat top` runs.
struct Tmux {
    directory: tempfile::TempDir,
}

impl Tmux {
    fn start(arguments: &str) -> Self {
        let tmux = Tmux { directory: tempfile::tempdir().unwrap() };
        // The shell stays, so that what `top` leaves on the screen can be seen.
        let command = format!("NO_COLOR=1 {BINARY} top {arguments}; echo ended: $?; cat");
        let size = ["-x", "80", "-y", "24"];
        let started =
            tmux.run(&[&["-f", "/dev/null", "new-session", "-d"], &size[..], &[command.as_str()]].concat());
        assert!(started.status.success(), "{}", stderr(&started));
        tmux
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.directory.path().join("socket")).args(arguments);
        command.current_dir(self.directory.path());
        command.output().unwrap_or_else(|error| panic!("tmux: {error}. scripts/deps test"))
    }

    fn press(&self, key: &str) {
        assert!(self.run(&["send-keys", key]).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8(self.run(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits for a screen that satisfies a condition.
    fn until(&self, satisfied: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if satisfied(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "never: {screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.run(&["kill-server"]);
    }
}

fn start() -> (Target, Tmux) {
    let target = script();
    let tmux = Tmux::start(&format!("{} --budget 100% --interval 200ms --look 500ms", target.pid()));
    (target, tmux)
}

/// The line of a process, once a look has told its floor.
fn looked(screen: &str, pid: i32) -> bool {
    let line = screen.lines().find(|line| line.trim_start().starts_with(&pid.to_string()));
    line.is_some_and(|line| line.matches("iB").count() >= 3)
}

#[test]
fn a_process_is_shown_inspected_and_trimmed() {
    let (target, tmux) = start();
    let pid = target.pid();
    let screen = tmux.until(|screen| looked(screen, pid));
    assert!(screen.starts_with("1 process · PSS ") && screen.contains("UNSHARED"), "{screen}");
    assert!(screen.contains("q quit"), "{screen}");

    tmux.press("Enter");
    let screen = tmux.until(|screen| screen.starts_with(&format!("inspect {pid}")));
    assert!(screen.contains("resident") && screen.contains("floor"), "{screen}");
    tmux.press("Escape");
    tmux.until(|screen| screen.starts_with("1 process"));

    tmux.press("t");
    tmux.until(|screen| screen.contains(&format!("Trim {pid}")));
    tmux.press("y");
    tmux.until(|screen| screen.starts_with(&format!("trim {pid}")));
    tmux.press("q");
    tmux.until(|screen| screen.starts_with("1 process"));
    tmux.press("q");
    tmux.until(|screen| screen.contains("ended: 0") && !screen.contains("PSS"));
}

#[test]
fn a_resized_terminal_is_filled_again() {
    let (target, tmux) = start();
    tmux.until(|screen| looked(screen, target.pid()));
    for (width, height) in [("132", "10"), ("40", "5"), ("80", "24")] {
        assert!(tmux.run(&["resize-window", "-x", width, "-y", height]).status.success());
        let rows: usize = height.parse().unwrap();
        tmux.until(|screen| {
            let lines: Vec<&str> = screen.lines().collect();
            lines.len() == rows && lines[0].starts_with("1 process") && lines[rows - 1].contains("inspect")
        });
    }
}

#[test]
fn a_recording_is_made_of_the_selected_process() {
    let (target, tmux) = start();
    tmux.until(|screen| looked(screen, target.pid()));
    tmux.press("r");
    tmux.until(|screen| screen.contains("● ruby") && screen.contains(".unbloat"));
    let file = || {
        let entries = std::fs::read_dir(tmux.directory.path()).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "unbloat"))
    };
    let begun = Instant::now();
    while file().is_none() {
        assert!(begun.elapsed() < PATIENCE, "no file");
        std::thread::sleep(Duration::from_millis(50));
    }
    // It ends with the view, complete.
    tmux.press("q");
    tmux.until(|screen| screen.contains("ended: 0"));
    let shown = Command::new(BINARY).arg("show").arg(file().unwrap()).output().unwrap();
    assert!(shown.status.success(), "{}", stderr(&shown));
}

#[test]
fn it_ends_with_its_terminal() {
    let (target, tmux) = start();
    tmux.until(|screen| looked(screen, target.pid()));
    let shell = String::from_utf8(tmux.run(&["display-message", "-p", "#{pane_pid}"]).stdout).unwrap();
    let shell = shell.trim();
    let top = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
    let top = format!("/proc/{}/stat", top.trim());
    assert!(std::fs::exists(&top).unwrap(), "{top}");
    assert!(tmux.run(&["kill-server"]).status.success());
    let runs = || std::fs::read_to_string(&top).is_ok_and(|stat| !stat.contains(") Z"));
    let begun = Instant::now();
    while runs() {
        assert!(begun.elapsed() < PATIENCE, "it still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_a_terminal_there_is_an_alternative() {
    let output = Command::new(BINARY).arg("top").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("unbloat inspect"), "{}", stderr(&output));
}
