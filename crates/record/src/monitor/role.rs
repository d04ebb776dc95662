//! The role of a process among those of its server, from the title that the server gives it.
//!
//! | server | titles |
//! |---|---|
//! | Puma | `puma 6.4.2 (tcp://…) [shop]`, `puma: cluster worker 0: 4711 [shop]` |
//! | Unicorn, Pitchfork | `unicorn master -c …`, `unicorn worker[0] -c …`, `pitchfork (gen:0) worker[0] - …`, `… mold …`, `… monitor …` |
//! | Sidekiq | `sidekiq 7.2.0 shop [0 of 5 busy]`; Enterprise: `sidekiqswarm, managing …` |
//! | Solid Queue | `solid-queue-supervisor(1.0): …`, `solid-queue-worker(1.0): …` |

/// The role of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role {
    /// The program, by its own name: `puma`, `sidekiq`, `ruby`.
    pub name: String,
    /// `master`, `worker`, `mold`, …; absent where a title tells none.
    pub role: Option<&'static str>,
    /// The number that the server gave it.
    pub index: Option<u32>,
}

/// Most characters of a name that are kept: names are few, and a title that is no name should not become one.
const NAME: usize = 32;

/// The roles by the words that follow a server's name, in order of precedence.
const ROLES: [(&str, &str); 9] = [
    ("worker", "worker"),
    ("mold", "mold"),
    ("monitor", "master"),
    ("master", "master"),
    ("supervisor", "master"),
    ("managing", "master"),
    ("dispatcher", "dispatcher"),
    ("scheduler", "scheduler"),
    ("service", "service"),
];

impl Role {
    /// Reads a command line or title; `program` is the name where the title has none.
    #[must_use]
    pub fn of(title: &str, program: &str) -> Self {
        let first = title.split_whitespace().next().unwrap_or_default();
        let name = first.rsplit('/').next().unwrap_or_default();
        let name = name.split([':', '(', ',']).next().unwrap_or_default();
        if let Some(part) = name.strip_prefix("solid-queue-").or(name.strip_prefix("solid-queue-fork-")) {
            let role = ROLES.iter().find(|(word, _)| *word == part).map(|&(_, role)| role);
            return Role { name: "solid-queue".into(), role, index: None };
        }
        let kept = if name.is_empty() { program } else { name };
        let name: String = kept.chars().filter(|c| !c.is_control()).take(NAME).collect();
        let (role, index) = match name.as_str() {
            "puma" if title.starts_with("puma ") => (Some("master"), None),
            "puma" | "unicorn" | "pitchfork" | "sidekiqswarm" | "unicorn_rails" => {
                role_in(title.get(first.len()..).unwrap_or_default())
            }
            _ => (None, None),
        };
        Role { name, role, index }
    }
}

/// Finds the word of a role, and the number behind it.
fn role_in(rest: &str) -> (Option<&'static str>, Option<u32>) {
    let found = ROLES.iter().find_map(|&(word, role)| {
        let (_, after) = rest.split_once(word)?;
        let after = after.trim_start_matches([' ', '[']);
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let number = after.get(..digits).filter(|_| role == "worker");
        Some((role, number.and_then(|number| number.parse().ok())))
    });
    found.map_or((None, None), |(role, index)| (Some(role), index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_servers_are_read() {
        let cases: [(&str, &str, Option<&str>, Option<u32>); 12] = [
            ("puma 6.4.2 (tcp://0.0.0.0:9292) [shop]", "puma", Some("master"), None),
            ("puma: cluster worker 0: 4711 [shop]", "puma", Some("worker"), Some(0)),
            ("puma: cluster worker 12: 4711 [worker 7]", "puma", Some("worker"), Some(12)),
            ("unicorn master -c config/unicorn.rb", "unicorn", Some("master"), None),
            ("unicorn worker[3] -c config/unicorn.rb", "unicorn", Some("worker"), Some(3)),
            ("pitchfork (gen:1) worker[2] - requests: 7, waiting", "pitchfork", Some("worker"), Some(2)),
            ("pitchfork (gen:1) mold - ready", "pitchfork", Some("mold"), None),
            ("sidekiq 7.2.0 shop [0 of 5 busy]", "sidekiq", None, None),
            ("sidekiqswarm, managing 4 processes", "sidekiqswarm", Some("master"), None),
            ("solid-queue-worker(1.0.0): waiting for jobs", "solid-queue", Some("worker"), None),
            ("/usr/bin/ruby3.1 worker.rb", "ruby3.1", None, None),
            ("", "comm", None, None),
        ];
        for (title, name, role, index) in cases {
            assert_eq!(Role::of(title, "comm"), Role { name: name.into(), role, index }, "{title}");
        }
    }

    #[test]
    fn a_title_that_is_no_name_is_cut() {
        assert_eq!(Role::of(&"x".repeat(500), "").name.len(), NAME);
        assert_eq!(Role::of("a\u{1b}b c", "").name, "ab");
    }
}
