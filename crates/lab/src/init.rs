//! A first plan for an application directory: what is found there decides what is filled in, and every line says what
//! it is for.

use std::fmt::Write as _;
use std::path::Path;

/// What an application is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A Rails application with Action Cable channels.
    Cable,
    /// A Rails or Rack application.
    Web,
    /// Sidekiq workers.
    Sidekiq,
    /// Nothing known.
    Nothing,
}

impl Found {
    /// Looks at a directory.
    #[must_use]
    pub fn look(directory: &Path) -> Found {
        let has = |name: &str| directory.join(name).exists();
        let gems = ["Gemfile.lock", "Gemfile"].map(|name| std::fs::read_to_string(directory.join(name)));
        let gems: String = gems.into_iter().flatten().collect();
        let web = has("config.ru") || gems.contains("puma") || gems.contains("rails");
        if has("app/channels") && has("config/cable.yml") && own_channels(directory) {
            Found::Cable
        } else if web {
            Found::Web
        } else if has("config/sidekiq.yml") || gems.contains("sidekiq") {
            Found::Sidekiq
        } else {
            Found::Nothing
        }
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Found::Cable => "an Action Cable application (app/channels, config/cable.yml)",
            Found::Web => "a Rails or Rack application (config.ru, or puma or rails in the Gemfile)",
            Found::Sidekiq => "Sidekiq workers (config/sidekiq.yml, or sidekiq in the Gemfile)",
            Found::Nothing => "no Puma, Sidekiq or Rails",
        }
    }
}

/// Every Rails application has `app/channels/application_cable`; only those that use Action Cable have more.
fn own_channels(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory.join("app/channels"));
    entries.is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() != "application_cable"))
}

/// A commented plan for the application in `directory`.
#[must_use]
pub fn plan(directory: &Path) -> String {
    let found = Found::look(directory);
    let name =
        directory.file_name().map_or("my application".into(), |name| name.to_string_lossy().into_owned());
    let mut text = String::new();
    let _ = write!(
        text,
        r#"# What `unbloat compare` does with this application ({found}).
# Edit what is marked with "<-", look at `unbloat compare unbloat.toml --dry-run`, then run it without --dry-run.
title = {name:?}

# The first is the control and runs twice in every block. Others: arenas=1, arenas=4, trim=every, trim=major,
# trim=adaptive, jemalloc-tuned, jemalloc-bundled, mimalloc, tcmalloc, compact.
compare = ["glibc", "arenas=2", "jemalloc", "lean"]

# A variant of your own:
# [[variant]]
# name = "two threads"
# environment = {{ RAILS_MAX_THREADS = "2" }}

[server]
"#,
        found = found.describe(),
    );
    text.push_str(server(found));
    text.push_str("ready-within = \"60s\"\nstop-within = \"20s\"\n# environment = { RAILS_ENV = \"production\" }\n\n[load]\n");
    text.push_str(load(found));
    text.push_str(
        r#"
[design]
blocks = 6            # every variant once a block; fewer than 6 rarely show anything
max-blocks = 20       # --until-decided stops here
idle-tail = "10s"     # what is still there after the load?
seed = 1

[rule]
minimize = "pss_end"                 # or pss_idle, pss_peak
not-worse = ["p95", "throughput"]    # must be shown not to be worse than the control …
margin = 0.03                        # … by more than 3 %
"#,
    );
    text
}

fn server(found: Found) -> &'static str {
    match found {
        Found::Cable | Found::Web => {
            r#"start = ["bundle", "exec", "puma", "-e", "production", "-w", "2", "-b", "tcp://127.0.0.1:{port}"]
ready = { http = "http://127.0.0.1:{port}/" }
"#
        }
        Found::Sidekiq => {
            r#"start = ["bundle", "exec", "sidekiq", "-e", "production"]
ready = { line = "Booted" }    # <- a piece of a line that the workers print when they have started
"#
        }
        Found::Nothing => {
            r#"start = ["./server", "--port", "{port}"]    # <- the command that starts your server in the foreground
ready = { port = "{port}" }
"#
        }
    }
}

fn load(found: Found) -> &'static str {
    match found {
        Found::Cable => {
            r#"driver = "cable"
url = "ws://127.0.0.1:{port}/cable"
options = ["--clients=1000", "--step=500", "--channel=BenchmarkChannel"]    # <- your channel
"#
        }
        Found::Web => {
            r#"driver = "http"
url = "http://127.0.0.1:{port}/"    # <- the page to ask for; `options = ["--routes=FILE"]` takes a weighted list
options = []
"#
        }
        Found::Sidekiq => {
            r#"driver = "jobs"
url = "redis://127.0.0.1:6379/0"    # <- the Redis that the workers listen to
options = ["--class=HardJob"]       # <- the job to push
"#
        }
        Found::Nothing => {
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
        let cases: [(&[(&str, &str)], Found); 4] = [
            (rails, Found::Web),
            (&cable, Found::Cable),
            (&[("Gemfile", "gem 'sidekiq'")], Found::Sidekiq),
            (&[], Found::Nothing),
        ];
        for (files, expected) in cases {
            let directory = application(files);
            assert_eq!(Found::look(directory.path()), expected);
            let text = plan(directory.path());
            Plan::parse(&text).unwrap_or_else(|e| panic!("{expected:?}: {e}\n{text}"));
        }
    }
}
