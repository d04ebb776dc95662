//! Checks the conventions of the workspace, and that ARCHITECTURE.md is true.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// One crate of the workspace: its sources, and its manifest.
struct Crate {
    name: String,
    directory: PathBuf,
    manifest: toml::Table,
}

impl Crate {
    fn at(directory: PathBuf) -> Crate {
        let manifest: toml::Table =
            std::fs::read_to_string(directory.join("Cargo.toml")).unwrap().parse().unwrap();
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        Crate { name, directory, manifest }
    }

    fn dependencies(&self, table: &str) -> BTreeSet<String> {
        let table = self.manifest.get(table).and_then(toml::Value::as_table);
        table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
    }

    /// Returns the names of the workspace's crates that this one is built with, excluding tests.
    fn edges(&self) -> BTreeSet<String> {
        let own = |name: String| name.strip_prefix("unbloat-").map(str::to_owned);
        let all = ["dependencies", "build-dependencies"].map(|table| self.dependencies(table));
        all.into_iter().flatten().filter_map(own).collect()
    }

    /// Returns the Rust files below the given folders, with their text.
    fn sources(&self, folders: &[&str]) -> Vec<(PathBuf, String)> {
        let mut files = Vec::new();
        for folder in folders {
            rust_files(&self.directory.join(folder), &mut files);
        }
        if folders.contains(&"src") {
            files.extend(Some(self.directory.join("build.rs")).filter(|file| file.exists()));
        }
        files.into_iter().map(|file| (file.clone(), std::fs::read_to_string(file).unwrap())).collect()
    }
}

/// Returns whether a row of a module table names a module, also as a link with its kind (``mod@file``).
fn names(row: &str, module: &str) -> bool {
    [format!("`{module}`"), format!("`mod@{module}`")].iter().any(|name| row.contains(name))
}

fn rust_files(directory: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
}

fn crates() -> Vec<Crate> {
    let directories = std::fs::read_dir(root().join("crates")).unwrap();
    let mut crates: Vec<Crate> = directories.map(|entry| Crate::at(entry.unwrap().path())).collect();
    crates.sort_by(|a, b| a.name.cmp(&b.name));
    crates
}

/// Returns a file's code without comments, up to its first test module.
fn code(text: &str) -> String {
    let program = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = program.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns code files outside the given crates that contain one of the pieces.
fn elsewhere(home: &[&str], pieces: &[&str]) -> Vec<String> {
    let strangers = crates().into_iter().filter(|member| !home.contains(&member.name.as_str()));
    let files = strangers.flat_map(|member| member.sources(&["src"]));
    let guilty = files.filter(|(path, text)| {
        let test = path.iter().any(|part| part == "tests") || path.ends_with("tests.rs");
        !test && pieces.iter().any(|piece| code(text).contains(piece))
    });
    guilty.map(|(path, _)| path.strip_prefix(root()).unwrap().display().to_string()).collect()
}

/// Returns the rows of ARCHITECTURE.md's table of crates: the name, and the crates on which it builds.
fn described() -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| -> BTreeSet<String> {
            cell.split(',')
                .map(|name| name.trim().trim_matches('`').to_owned())
                .filter(|n| !n.is_empty() && n != "–")
                .collect()
        };
        (cells[1].trim_matches('`').to_owned(), names(cells[3]))
    })
    .collect()
}

#[test]
fn architecture_names_every_crate_and_what_it_builds_on() {
    let actual: BTreeMap<_, _> =
        crates().iter().map(|member| (member.name.clone(), member.edges())).collect();
    assert_eq!(described(), actual);
}

#[test]
fn each_library_has_a_table_of_its_modules() {
    let mut missing = Vec::new();
    for member in crates() {
        let library = member.directory.join("src/lib.rs");
        let Ok(text) = std::fs::read_to_string(library) else { continue };
        let modules = text.lines().filter_map(|line| {
            let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            line.strip_prefix("mod ")?.strip_suffix(';').filter(|name| *name != "tests")
        });
        let modules: Vec<&str> = modules.collect();
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("//! |")).collect();
        let untold = modules.iter().filter(|name| !table.iter().any(|row| names(row, name)));
        missing.extend(untold.filter(|_| modules.len() > 1).map(|name| format!("{}: {name}", member.name)));
    }
    assert!(missing.is_empty(), "not in the table of their lib.rs: {missing:#?}");
}

#[test]
fn what_a_manifest_names_is_used() {
    let mut unused = Vec::new();
    for member in crates() {
        for (table, folders) in [
            ("dependencies", &["src"][..]),
            ("build-dependencies", &["src"]),
            ("dev-dependencies", &["src", "tests", "examples"]),
        ] {
            let texts = member.sources(folders);
            let used = |name: &str| {
                let name = name.replace('-', "_");
                let word = regex::Regex::new(&format!(r"\b{name}\b")).unwrap();
                texts.iter().any(|(_, text)| word.is_match(text))
            };
            let names = member.dependencies(table).into_iter().filter(|name| !used(name));
            unused.extend(names.map(|name| format!("{}: {name} in [{table}]", member.name)));
        }
    }
    assert!(unused.is_empty(), "remove them: {unused:#?}");
}

#[test]
fn only_the_store_knows_sql() {
    let found = elsewhere(&["store"], &["rusqlite", "SELECT ", "INSERT INTO"]);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn only_process_reads_other_processes() {
    let found = elsewhere(&["process", "test-support"], &["\"/proc/{", "process_vm_readv", "ptrace::"]);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn only_report_knows_markup() {
    let found = elsewhere(&["report", "load-servers"], &["<html", "<svg", "<div", "<table"]);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn unsafe_code_lives_in_two_crates() {
    let found = elsewhere(&["process", "runtime", "bundle"], &["allow(unsafe_code"]);
    assert!(found.is_empty(), "{found:#?}");
}

/// Doc comments, of modules and of items, whose first line opens with one of these words.
fn riddles(text: &str) -> impl Iterator<Item = &str> {
    const RIDDLE: &str = r"^//[/!] (What|Where|Whether|That|How|Which|When|Who|If|Why)\b";
    let riddle = regex::Regex::new(RIDDLE).unwrap();
    let mut before = "";
    text.lines().map(str::trim_start).filter(move |line| {
        let continues = ["///", "//!"].iter().any(|mark| line.starts_with(mark) && before.starts_with(mark));
        before = line;
        !continues && riddle.is_match(line)
    })
}

#[test]
fn doc_comments_open_with_a_noun_phrase_or_a_verb() {
    assert_eq!(riddles("/// That it\n/// is.\nfn a()\n    /// Its\n    /// Where.\n").count(), 1);
    let files = crates().into_iter().flat_map(|member| member.sources(&["src", "tests", "examples"]));
    let riddles: Vec<String> = files
        .flat_map(|(path, text)| {
            let told = |line: &str| format!("{}: {line}", path.strip_prefix(root()).unwrap().display());
            riddles(&text).map(told).collect::<Vec<_>>()
        })
        .collect();
    assert!(riddles.is_empty(), "{riddles:#?}");
}

#[test]
fn release_builds_check_overflow() {
    let manifest: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    assert_eq!(manifest["profile"]["release"]["overflow-checks"], toml::Value::Boolean(true));
}

/// Everything in backquotes in the last column of the tables of docs/method/trust.md that could be a test's name.
#[test]
fn every_test_that_trust_names_exists() {
    let text = std::fs::read_to_string(root().join("docs/method/trust.md")).unwrap();
    let name = regex::Regex::new(r"`([a-z0-9]+(?:_[a-z0-9]+){2,})`").unwrap();
    let cells = text.lines().filter(|line| line.starts_with('|')).filter_map(|row| row.rsplit('|').nth(1));
    let named: BTreeSet<&str> =
        cells.flat_map(|cell| name.captures_iter(cell).map(|found| found.get(1).unwrap().as_str())).collect();
    assert!(named.len() > 20, "{named:?}");
    let files = crates().into_iter().flat_map(|member| member.sources(&["src", "tests"]));
    let all: String = files.map(|(_, text)| text).collect();
    let missing: Vec<_> = named.into_iter().filter(|name| !all.contains(&format!("fn {name}()"))).collect();
    assert!(missing.is_empty(), "tests that trust.md names and nobody has: {missing:#?}");
}

#[test]
fn files_stay_short() {
    let files = crates().into_iter().flat_map(|member| member.sources(&["src"]));
    let long: Vec<String> = files
        .filter(|(path, _)| !path.iter().any(|part| part == "tests"))
        .map(|(path, text)| (path, text.split("#[cfg(test)]").next().unwrap_or_default().lines().count()))
        .filter(|(_, lines)| *lines > 400)
        .map(|(path, lines)| format!("{} ({lines})", path.display()))
        .collect();
    assert!(long.is_empty(), "more than 400 lines before their tests: split them by concept: {long:#?}");
}
