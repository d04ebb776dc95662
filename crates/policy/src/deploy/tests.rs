//! Lines read back by their real consumers: sh, systemd, a YAML parser.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// Generates words that have broken quoting before, and anything else that a consumer can express.
fn nasty() -> impl Strategy<Value = String> {
    let known = [
        "",
        " ",
        "a b",
        "'",
        "\"",
        "\\",
        "\\\\",
        "a\\",
        "$",
        "$$",
        "$HOME",
        "${HOME}",
        "$(id)",
        "`id`",
        "%",
        "%n",
        "%%",
        "#",
        "a#b",
        ";",
        "&",
        "|",
        "*",
        "?",
        "~",
        "!",
        "!!",
        "^",
        "{a,b}",
        "[a]",
        "=",
        "=a",
        "a=b",
        "-n",
        "@",
        ":",
        "é",
        "日本",
        "\u{1f600}",
        "a'b\"c$d%e\\f",
        "\t",
        "<",
        ">",
        "(",
        ")",
        "yes",
        "null",
        "1e3",
        "- a",
        "a: b",
        "\u{a0}",
        "\u{7f}",
    ];
    prop_oneof![
        prop::sample::select(known.map(str::to_owned).to_vec()),
        "[ -~]{0,12}",
        "[$%'\"\\\\ a]{0,12}",
        "\\PC{0,8}",
    ]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(nasty(), 1..12)
}

fn printed(line: &str) -> Vec<String> {
    let output = Command::new("sh").args(["-c", line]).env("HOME", "/h").output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

fn numbered(values: &[String]) -> Vec<(String, String)> {
    values.iter().enumerate().map(|(index, value)| (format!("U{index}"), value.clone())).collect()
}

fn written(lines: Vec<Quoted>) -> Vec<String> {
    lines.into_iter().map(Result::unwrap).collect()
}

fn deployment(command: Vec<Word>) -> Deployment {
    Deployment { process: "web", command, is_new_command: true, ..Deployment::default() }
}

fn literals(words: &[String]) -> Vec<Word> {
    words.iter().cloned().map(Word::from).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_shell_reads_back_what_was_meant(words in words()) {
        let command = [vec![Word::from("printf"), Word::from("%s\\0")], literals(&words)].concat();
        let deployment = deployment(command);
        for format in [Format::Shell, Format::Procfile] {
            let line = deployment.lines(format).remove(0);
            prop_assert_eq!(&printed(line.strip_prefix("web: ").unwrap_or(&line)), &words, "{}", line);
        }
        let set = numbered(&words);
        let exports = written(variables(Format::Shell, &set)).join("\n");
        let shown: Vec<String> = set.iter().map(|(name, _)| format!("printf '%s\\0' \"${name}\"")).collect();
        prop_assert_eq!(&printed(&format!("{exports}\n{}", shown.join("\n"))), &words);
        let heroku = written(variables(Format::Heroku, &set)).join("\n");
        let arguments = printed(&heroku.replacen("heroku config:set", "printf '%s\\0'", 1));
        let expected: Vec<String> = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        prop_assert_eq!(arguments, expected);
    }

    #[test]
    fn foreman_finds_nothing_to_replace(word in nasty()) {
        let line = deployment(vec![Word::from("true"), Word::from(word)]).lines(Format::Procfile).remove(0);
        prop_assert!(!line.contains("$HOME") && !line.contains("${HOME"), "{}", line);
    }

    #[test]
    fn a_dockerfile_is_read_back_by_its_rules(words in words()) {
        for (name, value) in numbered(&words) {
            let line = written(variables(Format::Dockerfile, &[(name.clone(), value.clone())])).remove(0);
            let read = docker_value(line.strip_prefix(&format!("ENV {name}=")).unwrap());
            prop_assert_eq!(read, value, "{}", line);
        }
        let line = deployment(literals(&words)).lines(Format::Dockerfile).remove(0);
        let array: Vec<String> = serde_json::from_str(line.strip_prefix("CMD ").unwrap()).unwrap();
        prop_assert_eq!(array, words);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_yaml_parser_reads_back_what_was_meant(words in words()) {
        let container = Deployment {
            variables: numbered(&words),
            launcher: words.clone(),
            ..deployment(literals(&words))
        };
        let read = yaml(&container.lines(Format::Kubernetes).join("\n"));
        let texts = |value: &serde_json::Value, key: Option<&str>| -> Vec<String> {
            let items = value.as_array().unwrap().iter();
            items.map(|item| kubernetes_expanded(key.map_or(item, |key| &item[key]).as_str().unwrap())).collect()
        };
        prop_assert_eq!(texts(&read["env"], Some("value")), words.clone());
        prop_assert_eq!(texts(&read["command"], None), words.clone());
        prop_assert_eq!(texts(&read["args"], None), words);
    }

    #[test]
    fn systemd_reads_back_what_was_meant(words in words()) {
        // The dump has its own escapes for control characters.
        let words: Vec<String> = words.iter().map(|word| word.replace(char::is_control, "")).collect();
        let mut unit = deployment([vec![Word::from("/usr/bin/true")], literals(&words)].concat());
        unit.variables = numbered(&words);
        let Some(dump) = systemd_dump(&unit.lines(Format::Systemd)) else { return Ok(()) };
        for (name, value) in &unit.variables {
            prop_assert!(dump.contains(&format!("Environment: {name}={value}\n")), "{name}={value:?} in {dump}");
        }
        let shown = dump.split_once("Command Line: ").unwrap().1.lines().next().unwrap();
        // The dump does not escape `#`, which would start a comment in a shell.
        let read = shlex::split(&shown.replace('#', "\u{1}")).unwrap().into_iter().skip(1);
        let read = read.map(|word| word.replace('\u{1}', "#").replace("$$", "$"));
        let read: Vec<String> = read.map(|word| comparable(&word)).collect();
        let expected: Vec<String> = words.iter().map(|word| comparable(word)).collect();
        prop_assert_eq!(read, expected, "{}", shown);
    }
}

/// Returns a word without the characters for which systemd's dump may have its own escapes.
fn comparable(word: &str) -> String {
    word.chars().filter(char::is_ascii).collect()
}

/// Parses a value of `ENV` like Docker does (its `shell/lex.go`): `\` escapes `"`, `$` and `\` in double
/// quotes.
fn docker_value(written: &str) -> String {
    let Some(inner) = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        assert!(!written.contains(['"', '\\', '$', ' ', '\'', '#']), "{written}");
        return written.to_owned();
    };
    let mut value = String::new();
    let mut characters = inner.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                let escaped = characters.next().unwrap();
                assert!("\"$\\".contains(escaped), "{written}");
                value.push(escaped);
            }
            '"' | '$' => panic!("bare {c} in {written}"),
            c => value.push(c),
        }
    }
    value
}

/// Applies Kubernetes' expansion to a value without references (`expand.go`): `$$` is `$`.
fn kubernetes_expanded(value: &str) -> String {
    assert!(!value.replace("$$", "").contains('$'), "{value}");
    value.replace("$$", "$")
}

/// Reads a text with Ruby's YAML parser (libyaml), as JSON.
fn yaml(text: &str) -> serde_json::Value {
    let script = "require 'yaml'; require 'json'; print JSON.generate(YAML.safe_load(ARGV[0]))";
    let mut ruby = Command::new("ruby");
    let output = ruby.args(["-Eutf-8", "-e", script, text]).env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the state of a unit as parsed by systemd (`systemd --test`); `None` if systemd is not installed.
fn systemd_dump(service: &[String]) -> Option<String> {
    const SYSTEMD: &str = "/lib/systemd/systemd";
    if !Path::new(SYSTEMD).exists() {
        eprintln!("left out: {SYSTEMD} is not installed");
        return None;
    }
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    for name in ["units", "run"] {
        fs::create_dir(path(name)).unwrap();
    }
    let unit = path("units/u.service");
    fs::write(&unit, format!("[Unit]\nDefaultDependencies=no\n[Service]\n{}\n", service.join("\n"))).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    assert!(verified.stderr.is_empty(), "{service:?}: {}", String::from_utf8_lossy(&verified.stderr));
    let mut command = Command::new(SYSTEMD);
    // It refuses to test as root.
    if nix::unistd::getuid().is_root() {
        const NOBODY: u32 = 65_534;
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(path("run"), Some(NOBODY), Some(NOBODY)).unwrap();
        command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", SYSTEMD]);
    }
    fs::set_permissions(path("run"), fs::Permissions::from_mode(0o700)).unwrap();
    command.args(["--user", "--test", "--unit=u.service"]).env("HOME", home.path());
    command.env("XDG_RUNTIME_DIR", path("run")).env("SYSTEMD_UNIT_PATH", path("units"));
    let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
    let dump = String::from_utf8_lossy(&output.stdout).into_owned();
    let start = dump.find("-> Unit u.service:").unwrap_or_else(|| panic!("{output:?}"));
    Some(dump[start..].to_owned())
}

#[test]
fn each_place_has_its_own_syntax() {
    let set = [
        ("LD_PRELOAD".to_owned(), "/u/libunbloat-jemalloc.so:/a b.so".to_owned()),
        ("UNBLOAT_TRIM".to_owned(), "adaptive".to_owned()),
        ("COST".to_owned(), "5%$".to_owned()),
    ];
    let lines = |format| written(variables(format, &set)).join("\n");
    assert_eq!(
        lines(Format::Shell),
        "export LD_PRELOAD='/u/libunbloat-jemalloc.so:/a b.so'\nexport UNBLOAT_TRIM=adaptive\nexport COST='5%$'"
    );
    assert_eq!(
        lines(Format::Dockerfile),
        "ENV LD_PRELOAD=\"/u/libunbloat-jemalloc.so:/a b.so\"\nENV UNBLOAT_TRIM=adaptive\nENV COST=\"5%\\$\""
    );
    assert_eq!(
        lines(Format::Systemd),
        "Environment=\"LD_PRELOAD=/u/libunbloat-jemalloc.so:/a b.so\"\nEnvironment=UNBLOAT_TRIM=adaptive\n\
         Environment=\"COST=5%%$\""
    );
    assert_eq!(
        lines(Format::Procfile),
        "env LD_PRELOAD='/u/libunbloat-jemalloc.so:/a b.so' UNBLOAT_TRIM=adaptive COST='5%$'''"
    );
    assert!(lines(Format::Heroku).starts_with("heroku config:set LD_PRELOAD='"));
    assert_eq!(
        lines(Format::Kubernetes),
        "env:\n  - name: LD_PRELOAD\n    value: \"/u/libunbloat-jemalloc.so:/a b.so\"\n  - name: UNBLOAT_TRIM\n    value: \
         \"adaptive\"\n  - name: COST\n    value: \"5%$$\""
    );
    assert_eq!(removals(Format::Shell, &["A", "B"]), ["unset A", "unset B"]);
}

#[test]
fn nothing_to_set_is_nothing_to_print() {
    for format in Format::ALL {
        assert_eq!(variables(format, &[]), []);
    }
}

#[test]
fn a_variable_of_the_place_stays_one() {
    let word = |text: &str| Word::with_variable(text, "{port}", "PORT");
    let deployment = deployment(["falcon", "-p", "{port}", "tcp://[::]:{port}/a b"].map(word).to_vec());
    let line = "falcon -p $PORT 'tcp://[::]:'${PORT}'/a b'";
    assert_eq!(deployment.lines(Format::Procfile), [format!("web: {line}")]);
    assert_eq!(deployment.lines(Format::Dockerfile), [format!("CMD exec {line}")]);
    assert_eq!(
        deployment.lines(Format::Systemd),
        ["ExecStart=/usr/bin/env falcon -p ${PORT} \"tcp://[::]:${PORT}/a b\""]
    );
    let args = deployment.lines(Format::Kubernetes).remove(0);
    assert_eq!(args, "args: [\"falcon\", \"-p\", \"$(PORT)\", \"tcp://[::]:$(PORT)/a b\"]");
}

#[test]
fn what_a_place_cannot_express_is_said() {
    let set = [("KEY".to_owned(), "one\ntwo".to_owned())];
    let error = variables(Format::Dockerfile, &set).remove(0).unwrap_err().to_string();
    assert!(error.contains("a line break") && error.contains("a Dockerfile"), "{error}");
    let lines = deployment(vec![Word::from("one\ntwo")]).lines(Format::Procfile);
    assert!(lines.len() == 1 && lines[0].starts_with("# ") && !lines[0].contains('\n'), "{lines:?}");
}
