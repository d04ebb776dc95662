//! The lines to copy for the advice of a verdict, written by `unbloat_policy::deploy`.

use unbloat_heap::model::{Action, Compaction, Server};
use unbloat_policy::deploy::{Deployment, Format, Word, variables};

/// A line and its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// `shell`, `Dockerfile`, `config/puma.rb`, …
    pub(crate) place: &'static str,
    /// The line, to be copied unchanged.
    pub(crate) line: String,
}

/// Returns the lines for some actions, the first one to be tried first.
pub(crate) fn lines(actions: &[Action]) -> Vec<Line> {
    actions.iter().flat_map(of).collect()
}

fn of(action: &Action) -> Vec<Line> {
    let shell = |line: String| vec![Line { place: "shell", line }];
    match action {
        Action::Trim(pid) => shell(format!("unbloat trim {pid}")),
        Action::InspectAsRoot(pid) => shell(format!("sudo unbloat inspect {pid}")),
        Action::Watch(pid) => shell(format!("unbloat inspect --watch 60 {pid}")),
        Action::Stop(pid) => shell(format!("unbloat inspect --stop {pid}")),
        Action::Status(pid) => shell(format!("unbloat status {pid}")),
        Action::Run { server, name_policy } => {
            placed("Procfile, CMD or ExecStart", lean(*server, *name_policy).lines(Format::Shell))
        }
        Action::LimitArenas { arenas, server } => limit_arenas(*arenas, *server),
        Action::PreloadJemalloc => preload_jemalloc(),
        Action::Compact { call, server } => compact(*call, *server),
        Action::PreloadApp => placed("config/puma.rb", vec!["preload_app!".to_owned()]),
    }
}

fn placed(place: &'static str, lines: Vec<String>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { place, line }).collect()
}

fn started(server: Server) -> Deployment {
    let command = server.start().iter().map(|&word| Word::from(word)).collect();
    Deployment { command, ..Deployment::default() }
}

/// Returns `unbloat run`, naming its default policy if another is in force.
fn lean(server: Server, name_policy: bool) -> Deployment {
    let policy: &[&str] = if name_policy { &["--policy", "lean"] } else { &[] };
    let words = [&["unbloat", "run"][..], policy, &["--"]].concat();
    Deployment { launcher: words.into_iter().map(str::to_owned).collect(), ..started(server) }
}

/// Returns the lines that set variables; ours need no quotes that a target might not support.
fn set(place: &'static str, format: Format, variable: &(String, String)) -> Vec<Line> {
    placed(place, variables(format, std::slice::from_ref(variable)).into_iter().flatten().collect())
}

fn limit_arenas(arenas: u16, server: Server) -> Vec<Line> {
    let limit = ("MALLOC_ARENA_MAX".to_owned(), arenas.to_string());
    let mut lines = set("or a Dockerfile", Format::Dockerfile, &limit);
    lines.extend(set("or a systemd unit", Format::Systemd, &limit));
    let by_hand = Deployment { variables: vec![limit], ..started(server) };
    lines.extend(placed("or a shell", by_hand.lines(Format::Shell)));
    lines
}

fn preload_jemalloc() -> Vec<Line> {
    let preload = ("LD_PRELOAD".to_owned(), "libjemalloc.so.2".to_owned());
    let mut lines = placed("or a Dockerfile", vec!["RUN apt-get install -y libjemalloc2".to_owned()]);
    lines.extend(set("and", Format::Dockerfile, &preload));
    lines.extend(set("or a systemd unit", Format::Systemd, &preload));
    lines
}

fn compact(call: Compaction, server: Server) -> Vec<Line> {
    let call = match call {
        Compaction::Warmup => "Process.warmup",
        Compaction::Compact => "GC.compact",
    };
    match server {
        Server::Puma => placed("config/puma.rb", vec![format!("before_fork {{ {call} }}")]),
        Server::Sidekiq | Server::Unicorn | Server::Falcon | Server::GoodJob | Server::Other => {
            placed("Ruby, after the application has loaded", vec![call.to_owned()])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(actions: &[Action]) -> Vec<String> {
        lines(actions).into_iter().map(|line| format!("{}: {}", line.place, line.line)).collect()
    }

    #[test]
    fn few_arenas_are_cured_by_unbloat_first() {
        let run = Action::Run { server: Server::Puma, name_policy: false };
        assert_eq!(
            texts(&[run, Action::PreloadJemalloc]),
            [
                "Procfile, CMD or ExecStart: unbloat run -- bundle exec puma",
                "or a Dockerfile: RUN apt-get install -y libjemalloc2",
                "and: ENV LD_PRELOAD=libjemalloc.so.2",
                "or a systemd unit: Environment=LD_PRELOAD=libjemalloc.so.2",
            ]
        );
    }

    #[test]
    fn many_arenas_have_a_line_for_each_place() {
        let server = Server::Other;
        let run = Action::Run { server, name_policy: true };
        assert_eq!(
            texts(&[run, Action::LimitArenas { arenas: 2, server }]),
            [
                "Procfile, CMD or ExecStart: unbloat run --policy lean -- YOUR COMMAND",
                "or a Dockerfile: ENV MALLOC_ARENA_MAX=2",
                "or a systemd unit: Environment=MALLOC_ARENA_MAX=2",
                "or a shell: MALLOC_ARENA_MAX=2 YOUR COMMAND",
            ]
        );
    }

    #[test]
    fn the_call_that_packs_the_heap_goes_where_the_server_has_a_hook() {
        let compact = |call, server| texts(&[Action::Compact { call, server }]);
        assert_eq!(
            compact(Compaction::Warmup, Server::Puma),
            ["config/puma.rb: before_fork { Process.warmup }"]
        );
        assert_eq!(
            compact(Compaction::Compact, Server::Sidekiq),
            ["Ruby, after the application has loaded: GC.compact"]
        );
    }
}
