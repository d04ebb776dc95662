//! A first plan for an application directory: filled in from the files found there, with an explanation on
//! every line.

use std::fmt::Write as _;
use std::path::Path;

/// The kind of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplicationKind {
    /// A Rails application with Action Cable channels, or AnyCable in front of one.
    Cable,
    /// A Rails or Rack application.
    Web,
    /// Sidekiq workers.
    Sidekiq,
    /// Not recognized.
    Nothing,
}

impl ApplicationKind {
    /// Recognizes the application in a directory.
    #[must_use]
    pub fn look(directory: &Path) -> ApplicationKind {
        let has = |name: &str| directory.join(name).exists();
        let gems = gems(directory);
        let web = has("config.ru") || gems.contains("puma") || gems.contains("rails");
        let cable = has("config/cable.yml") && channel(directory).is_some();
        let anycable = gems.contains("anycable") || has("config/anycable.yml") || has("lib/anycable_rpc.rb");
        if cable || (web && anycable) {
            ApplicationKind::Cable
        } else if web {
            ApplicationKind::Web
        } else if has_sidekiq(directory) {
            ApplicationKind::Sidekiq
        } else {
            ApplicationKind::Nothing
        }
    }

    /// Describes it in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            ApplicationKind::Cable => {
                "an Action Cable application (app/channels and config/cable.yml, or AnyCable)"
            }
            ApplicationKind::Web => {
                "a Rails or Rack application (config.ru, or puma or rails in the Gemfile)"
            }
            ApplicationKind::Sidekiq => {
                "Sidekiq workers (config/sidekiq.yml, or sidekiq in the Gemfile or required)"
            }
            ApplicationKind::Nothing => "no Puma, Sidekiq or Rails",
        }
    }
}

/// Returns the class of the first channel. Every Rails application has `app/channels/application_cable`; only
/// those that use Action Cable have more.
fn channel(directory: &Path) -> Option<String> {
    let entries = std::fs::read_dir(directory.join("app/channels")).ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut channels: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".rb")?.to_owned())).collect();
    channels.sort();
    channels.first().map(|name| camel(name))
}

/// Converts `chat_channel` to Ruby's class name `ChatChannel`.
fn camel(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    };
    name.split('_').map(word).collect()
}

/// Returns the application's dependencies according to Bundler.
fn gems(directory: &Path) -> String {
    let files = ["Gemfile.lock", "Gemfile"].map(|name| std::fs::read_to_string(directory.join(name)));
    files.into_iter().flatten().collect()
}

fn has_sidekiq(directory: &Path) -> bool {
    directory.join("config/sidekiq.yml").exists()
        || gems(directory).contains("sidekiq")
        || requiring_sidekiq(directory).is_some()
}

/// Returns the first Ruby file in the directory that requires Sidekiq: workers without Rails.
fn requiring_sidekiq(directory: &Path) -> Option<String> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names.into_iter().filter(|name| name.ends_with(".rb")).find(|name| {
        let text = std::fs::read_to_string(directory.join(name)).unwrap_or_default();
        text.lines()
            .map(str::trim_start)
            .any(|line| line.starts_with("require \"sidekiq") || line.starts_with("require 'sidekiq"))
    })
}

/// Returns whether the application has its own `start` program.
fn brings_start(directory: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let start = std::fs::metadata(directory.join("start"));
    start.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Returns a commented plan for the application in `directory`, which is `from_here` relative to the plan's
/// file.
#[must_use]
pub fn plan(directory: &Path, from_here: &Path) -> String {
    let kind = ApplicationKind::look(directory);
    let name =
        directory.file_name().map_or("my application".into(), |name| name.to_string_lossy().into_owned());
    let mut text = String::new();
    let _ = write!(
        text,
        r#"# The plan of `unbloat compare` for this application ({kind}).
# Edit the lines marked with "<-", check with `unbloat compare unbloat.toml --dry-run`, then run without --dry-run.
title = {name:?}

# The first is the control and runs twice in every block. Others: arenas=1, arenas=4, trim=every, trim=major,
# trim=adaptive, jemalloc-tuned, jemalloc-bundled, mimalloc, tcmalloc, compact.
compare = ["glibc", "arenas=2", "jemalloc", "lean"]

# A custom variant:
# [[variant]]
# name = "two threads"
# environment = {{ RAILS_MAX_THREADS = "2" }}

[server]
directory = {directory:?}
"#,
        kind = kind.describe(),
        directory = from_here.display().to_string(),
    );
    match brings_start(directory) {
        true => text.push_str(OWN_START),
        false => text.push_str(&server(kind, directory)),
    }
    text.push_str("ready-within = \"60s\"\nstop-within = \"20s\"\n# environment = { RAILS_ENV = \"production\" }\n\n[load]\n");
    let channel = channel(directory).unwrap_or_else(|| "BenchmarkChannel".to_owned());
    text.push_str(&load(kind).replace("{channel}", &channel));
    if matches!(kind, ApplicationKind::Cable | ApplicationKind::Web) && has_sidekiq(directory) {
        text.push_str(SIDEKIQ_TOO);
    }
    text.push_str(
        r#"
[design]
within = "30m"        # it goes on until the rule has an answer, or for so long; --within says otherwise
max-blocks = 20       # every variant once a block, the control twice; the first answer may come after six
idle-tail = "10s"     # what is still there after the load?
seed = 1
# warm-up = "10s"         # unmeasured load before the measured one
max-other-cpu = 0.05  # a run in which other programs used more of the machine is repeated

[rule]
minimize = "pss_end"                 # or pss_idle, pss_peak
"#,
    );
    text.push_str(costs(kind));
    text
}

/// Returns the required costs. Action Cable's p95 jumps depending on whether a full collection falls among
/// the slowest twentieth of the broadcasts; the mean of the slowest tenth does not (docs/method/compare.md).
fn costs(kind: ApplicationKind) -> &'static str {
    match kind {
        ApplicationKind::Cable => {
            r#"not-worse = ["tail_mean", "cpu_per_unit"]  # the mean of the slowest tenth and CPU must be shown not to be worse …
margin = { tail_mean = 0.10, cpu_per_unit = 0.05 }    # … than the control's by more than this
"#
        }
        ApplicationKind::Web | ApplicationKind::Sidekiq | ApplicationKind::Nothing => {
            r#"not-worse = ["p95", "cpu_per_unit"]  # must be shown not to be worse than the control …
margin = { p95 = 0.10, cpu_per_unit = 0.05 }    # … by more than this
"#
        }
    }
}

/// For an application with its own way to start.
const OWN_START: &str = r#"start = ["./start", "--port", "{port}"]    # <- its options
ready = { line = "ready" }    # <- a part of the line that it prints when ready; pid=… and url=… in it are used
wrapper-variable = "UNBLOAT_WRAP"    # <- the variable with words to put in front of the server, or leave this line out
"#;

/// For an application with more than one server.
const SIDEKIQ_TOO: &str = r#"
# This application has Sidekiq workers, too. They are a separate server and need a separate plan, with
#   start = ["bundle", "exec", "sidekiq", "-e", "production"]
#   ready = { line = "Running in" }
# in [server], and in [load]
#   driver = "jobs"
#   url = "redis://127.0.0.1:6379/0"
#   options = ["--class=HardJob"]
"#;

fn server(kind: ApplicationKind, directory: &Path) -> String {
    let has = |name: &str| directory.join(name).exists();
    let bundled = ["Gemfile", "Gemfile.lock"].iter().any(|name| has(name));
    let bundle: &[&str] = if bundled { &["bundle", "exec"] } else { &[] };
    match kind {
        ApplicationKind::Cable | ApplicationKind::Web => {
            // Options on the command line would override the application's own configuration.
            let workers: &[&str] = if has("config/puma.rb") { &[] } else { &["-w", "2"] };
            let puma = [bundle, &["puma", "-e", "production"], workers, &["-b", "tcp://127.0.0.1:{port}"]];
            format!("start = {}\nready = {{ http = \"http://127.0.0.1:{{port}}/\" }}\n", words(&puma.concat()))
        }
        ApplicationKind::Sidekiq => {
            // Without Rails it has to be told which file to load.
            let file = requiring_sidekiq(directory).filter(|_| !has("config/application.rb"));
            let file = file.map(|name| format!("./{name}"));
            let require: Vec<&str> = file.iter().flat_map(|name| ["-r", name.as_str()]).collect();
            let sidekiq = [bundle, &["sidekiq", "-e", "production"], require.as_slice()].concat();
            // All versions from 4 to 8 log "Running in ruby …" when the application is loaded (sidekiq/cli.rb).
            format!("start = {}\nready = {{ line = \"Running in\" }}\n", words(&sidekiq))
        }
        ApplicationKind::Nothing => {
            r#"start = ["./server", "--port", "{port}"]    # <- the command that starts your server in the foreground
ready = { port = "{port}" }
"#
            .to_owned()
        }
    }
}

/// Formats words as a TOML list.
fn words(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    format!("[{}]", quoted.join(", "))
}

fn load(kind: ApplicationKind) -> &'static str {
    match kind {
        ApplicationKind::Cable => {
            r#"driver = "cable"
url = "ws://127.0.0.1:{port}/cable"
rate = "auto"                                        # half of what the control sustains; "closed": as fast as it can go
options = ["--clients=1000", "--channel={channel}"]    # <- your channel
"#
        }
        ApplicationKind::Web => {
            r#"driver = "http"
url = "http://127.0.0.1:{port}/"    # <- the page to request; `options = ["--routes=FILE"]` takes a weighted list
rate = "auto"                      # half of what the control sustains; "closed": as fast as it can go
options = ["--per-connection=1"]
"#
        }
        ApplicationKind::Sidekiq => {
            r#"driver = "jobs"
url = "redis://127.0.0.1:6379/0"    # <- the Redis that the workers listen to
rate = "auto"                       # half of what the control sustains; "closed": all at once
options = ["--class=HardJob"]       # <- the job to push
"#
        }
        ApplicationKind::Nothing => {
            r#"driver = "command"
command = ["./load", "{url}"]    # <- anything, for example ["k6", "run", "script.js"]
"#
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::Plan;

    fn application(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, contents).unwrap();
        }
        directory
    }

    #[test]
    fn applications_are_told_apart_and_their_plans_parse() {
        let rails: &[(&str, &str)] = &[
            ("Gemfile.lock", "    puma (6.4)\n    rails (7.1)\n    sidekiq (7.2)\n"),
            ("config.ru", ""),
            ("config/cable.yml", ""),
            ("app/channels/application_cable/channel.rb", ""),
        ];
        let cable = [rails, &[("app/channels/chat_channel.rb", "")]].concat();
        let cases: [(&[(&str, &str)], ApplicationKind); 6] = [
            (rails, ApplicationKind::Web),
            (&cable, ApplicationKind::Cable),
            (&[("Gemfile", "gem 'sidekiq'")], ApplicationKind::Sidekiq),
            (&[("worker.rb", "require \"sidekiq\"\n")], ApplicationKind::Sidekiq),
            (&[("worker.rb", "# like sidekiq\n")], ApplicationKind::Nothing),
            (&[], ApplicationKind::Nothing),
        ];
        for (files, expected) in cases {
            let directory = application(files);
            assert_eq!(ApplicationKind::look(directory.path()), expected);
            assert!(
                expected != ApplicationKind::Cable
                    || plan(directory.path(), Path::new(".")).contains("--channel=ChatChannel")
            );
            let text = plan(directory.path(), Path::new("."));
            Plan::parse(&text).unwrap_or_else(|e| panic!("{expected:?}: {e}\n{text}"));
        }
    }

    fn plan_of(files: &[(&str, &str)]) -> String {
        plan(application(files).path(), Path::new("."))
    }

    #[test]
    fn what_an_application_says_of_itself_stands() {
        let bare = plan_of(&[("config.ru", "")]);
        assert!(bare.contains(r#"start = ["puma", "-e", "production", "-w", "2", "-b""#), "{bare}");
        let rails = plan_of(&[("Gemfile", "gem 'rails'\ngem 'sidekiq'"), ("config/puma.rb", "workers 4")]);
        assert!(rails.contains(r#"start = ["bundle", "exec", "puma", "-e", "production", "-b""#), "{rails}");
        assert!(rails.contains("has Sidekiq workers, too"), "{rails}");
        let workers = plan_of(&[("worker.rb", "require 'sidekiq'")]);
        assert!(
            workers.contains(r#"start = ["sidekiq", "-e", "production", "-r", "./worker.rb"]"#),
            "{workers}"
        );
        assert!(workers.contains(r#"line = "Running in""#), "{workers}");
    }
}
