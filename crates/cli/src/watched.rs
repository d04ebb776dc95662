//! Arguments that select the processes that a monitor watches, shared by `top` and `export`.

use regex::Regex;
use std::ffi::OsStr;
use std::path::Path;
use unbloat_record::monitor::{Candidate, Place, Selects};

/// Processes to watch: those that any option selects, and their descendants. Without options: Rubies.
#[derive(Debug, clap::Args)]
pub(crate) struct Watched {
    /// Watch processes whose command line matches. May be repeated.
    #[arg(long, value_name = "REGEX")]
    name: Vec<Regex>,
    /// Watch the processes of control groups with this path, and of those below; * stands for any part of a name. May be
    /// repeated.
    #[arg(long, value_name = "PATH", value_parser = cgroup)]
    cgroup: Vec<Pattern>,
    /// Watch the processes of systemd units with this name; * stands for any part. May be repeated.
    #[arg(long, value_name = "UNIT", value_parser = unit)]
    unit: Vec<Pattern>,
}

/// A pattern with `*`.
#[derive(Debug, Clone)]
pub(crate) struct Pattern(Regex);

/// Names of Ruby servers, for processes whose program may not be known.
const SERVERS: [&str; 8] =
    ["ruby", "puma", "sidekiq", "unicorn", "pitchfork", "solid-queue", "good_job", "resque"];

impl Watched {
    /// Returns the decision about each process. `pids` are selected in any case.
    pub(crate) fn selects(&self, pids: &[i32]) -> Selects {
        let (names, cgroups, units) = (self.name.clone(), self.cgroup.clone(), self.unit.clone());
        let pids = pids.to_vec();
        let unrestricted = names.is_empty() && cgroups.is_empty() && units.is_empty() && pids.is_empty();
        if unrestricted {
            return Box::new(is_ruby);
        }
        Box::new(move |candidate| {
            let named =
                || names.iter().any(|name| name.is_match(candidate.command) || name.is_match(candidate.name));
            let grouped = |path: &str| cgroups.iter().any(|pattern| pattern.0.is_match(path));
            let of_unit = |path: &str| {
                let unit = Place::of(path).unit;
                unit.is_some_and(|unit| units.iter().any(|pattern| pattern.0.is_match(&unit)))
            };
            pids.contains(&candidate.pid.0)
                // The shell in which `unbloat top --name puma` was typed contains puma, too.
                || !candidate.is_ancestor && named()
                || candidate.cgroup.is_some_and(|path| grouped(path) || of_unit(path))
        })
    }
}

fn is_ruby(candidate: &Candidate<'_>) -> bool {
    if let Some(program) = candidate.program {
        return program.starts_with("ruby");
    }
    let first = candidate.command.split([' ', ':']).next().unwrap_or_default();
    let file = Path::new(first).file_name().and_then(OsStr::to_str).unwrap_or_default();
    SERVERS.iter().any(|server| file.starts_with(server))
}

fn cgroup(text: &str) -> Result<Pattern, String> {
    let path = text.trim_end_matches('/');
    if !path.starts_with('/') {
        return Err(
            "a path begins with /, as in /proc/PID/cgroup. Example: /system.slice/puma.service".into()
        );
    }
    pattern(&format!("^{}(/|$)", escaped(path)))
}

fn unit(text: &str) -> Result<Pattern, String> {
    let with_kind = if text.contains('.') { text.to_owned() } else { format!("{text}.service") };
    pattern(&format!("^{}$", escaped(&with_kind)))
}

/// Escapes everything but `*`, which stays within a name.
fn escaped(text: &str) -> String {
    text.split('*').map(regex::escape).collect::<Vec<_>>().join("[^/]*")
}

fn pattern(expression: &str) -> Result<Pattern, String> {
    Regex::new(expression).map(Pattern).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_process::Pid;

    fn candidate<'a>(command: &'a str, program: Option<&'a str>, cgroup: &'a str) -> Candidate<'a> {
        let (pid, cgroup) = (Pid(7), Some(cgroup));
        Candidate { pid, name: "comm", command, program, cgroup, is_ancestor: false }
    }

    fn watched(names: &[&str], cgroups: &[&str], units: &[&str]) -> Watched {
        Watched {
            name: names.iter().map(|name| Regex::new(name).unwrap()).collect(),
            cgroup: cgroups.iter().map(|path| cgroup(path).unwrap()).collect(),
            unit: units.iter().map(|name| unit(name).unwrap()).collect(),
        }
    }

    #[test]
    fn without_options_rubies_are_watched() {
        let selects = watched(&[], &[], &[]).selects(&[]);
        assert!(selects(&candidate("anything", Some("ruby3.1"), "/")));
        assert!(!selects(&candidate("puma: it says", Some("nginx"), "/")));
        assert!(selects(&candidate("puma: cluster worker 0: 1 [x]", None, "/")));
        assert!(!selects(&candidate("vim puma.rb", None, "/")));
    }

    #[test]
    fn options_add_up() {
        let selects = watched(&["^puma"], &["/kubepods/*/podx"], &["sidekiq"]).selects(&[9]);
        assert!(selects(&candidate("puma 6", None, "/")));
        assert!(selects(&candidate("x", None, "/kubepods/burstable/podx/abc")));
        assert!(!selects(&candidate("x", None, "/kubepods/burstable/podxy/abc")));
        assert!(!selects(&candidate("x", None, "/kubepods/a/b/podx")));
        assert!(selects(&candidate("x", None, "/system.slice/sidekiq.service")));
        assert!(!selects(&candidate("x", None, "/system.slice/sidekiq-web.service")));
        assert!(selects(&Candidate { pid: Pid(9), ..candidate("x", None, "/") }));
        assert!(!selects(&Candidate { is_ancestor: true, ..candidate("puma", None, "/") }));
        assert!(cgroup("system.slice").is_err());
    }
}
