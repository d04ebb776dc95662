//! What to put where, so that what runs in production is the variant that was measured.

use crate::plan::{Load, Plan};
use crate::variant::Variant;
use std::path::Path;

/// The place and the line, for Procfile, Dockerfile and systemd. Empty for the bare control.
#[must_use]
pub fn deploy(variant: &Variant, plan: &Plan) -> Vec<(&'static str, String)> {
    let variables = variant.variables();
    let front = [variant.wrapper.clone(), policy(variant)].concat();
    if variables.is_empty() && front.is_empty() && variant.start.is_none() {
        return Vec::new();
    }
    let service = Service::of(variant, plan);
    let mut lines = vec![("Procfile", procfile(variant, &service))];
    let mut dockerfile = |line: String| lines.push(("Dockerfile", line));
    if let Some(package) = &variant.package {
        dockerfile(format!("RUN apt-get update && apt-get install -y {package}"));
    }
    for (key, value) in &variables {
        dockerfile(format!("ENV {key}={}", in_quotes(value)));
    }
    if !front.is_empty() {
        dockerfile(format!("ENTRYPOINT {}", serde_json::json!(front)));
    }
    if variant.start.is_some() {
        dockerfile(format!("CMD {}", serde_json::json!(service.command)));
    }
    for (key, value) in &variables {
        lines.push(("systemd", format!("Environment={}", in_quotes(&format!("{key}={value}")))));
    }
    if !front.is_empty() || variant.start.is_some() {
        let words = [front, service.command].concat();
        // systemd wants the path of the program.
        let words = match words.split_first() {
            Some((first, rest)) if first == "unbloat" => {
                [&["/usr/local/bin/unbloat".to_owned()][..], rest].concat()
            }
            Some((first, _)) if !first.starts_with('/') => {
                [&["/usr/bin/env".to_owned()][..], &words].concat()
            }
            _ => words,
        };
        lines.push(("systemd", format!("ExecStart={}", line_of(&words))));
    }
    lines
}

/// One line has everything: several would exclude each other.
fn procfile(variant: &Variant, service: &Service) -> String {
    let variables: Vec<String> =
        variant.variables().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let env = if variables.is_empty() { Vec::new() } else { [vec!["env".to_owned()], variables].concat() };
    let words = [variant.wrapper.clone(), env, policy(variant), service.command.clone()].concat();
    format!("{}: {}", service.process, line_of(&words))
}

/// `unbloat run --policy … --`; `lean` is what it does without being told.
fn policy(variant: &Variant) -> Vec<String> {
    let bare = Variant { policy: variant.policy.clone(), ..Variant::default() };
    let words = bare.words(Path::new("unbloat"));
    match variant.policy.as_deref() {
        Some("lean") => words.into_iter().filter(|word| word != "--policy" && word != "lean").collect(),
        _ => words,
    }
}

/// A process of a Procfile.
struct Service {
    process: &'static str,
    command: Vec<String>,
}

impl Service {
    /// A plan starts its server for a measurement, with a port of its own and perhaps through a script; what is deployed is the
    /// kind of server that it is.
    fn of(variant: &Variant, plan: &Plan) -> Self {
        let start = variant.start.as_ref().unwrap_or(&plan.server.start);
        let runs = |program: &str| start.iter().any(|word| word.contains(program));
        let process = match plan.load {
            _ if runs("sidekiq") => "worker",
            Load::Jobs(_) | Load::Own { .. } => "worker",
            _ => "web",
        };
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        let command = match (&variant.start, &plan.load) {
            (Some(own), _) => own.iter().map(|word| word.replace("{port}", "$PORT")).collect(),
            (None, Load::Jobs(_)) => words("bundle exec sidekiq"),
            (None, _) if runs("sidekiq") => words("bundle exec sidekiq"),
            (None, Load::Cable(_) | Load::Http(_)) => words("bundle exec puma"),
            (None, _) if runs("puma") => words("bundle exec puma"),
            (None, _) => words("YOUR COMMAND"),
        };
        Service { process, command }
    }
}

/// Words as a shell reads them, in quotation marks where they need them.
fn line_of(words: &[String]) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=+,.:/@%$~".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A value of a Dockerfile or a unit, in quotation marks if it needs them.
fn in_quotes(value: &str) -> String {
    match value.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
        true => format!("\"{}\"", value.replace('\\', r"\\").replace('"', "\\\"")),
        false => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::variant::built_in;

    fn plan(load: &str) -> Plan {
        Plan::parse(&format!(
            "title = \"x\"\ncompare = [\"glibc\", \"lean\"]\n[server]\nstart = [\"apps/start\"]\nready = {{ line = \"r\" }}\n[load]\n{load}\n"
        ))
        .unwrap()
    }

    fn lines(variant: &Variant, load: &str, place: &str) -> Vec<String> {
        let all = deploy(variant, &plan(load)).into_iter();
        all.filter(|(where_to, _)| *where_to == place).map(|(_, line)| line).collect()
    }

    const CABLE: &str = "driver = \"cable\"";
    const JOBS: &str = "driver = \"jobs\"";

    #[test]
    fn one_line_of_a_procfile_has_everything() {
        let tuned = built_in("jemalloc-tuned").unwrap();
        let conf = "MALLOC_CONF=dirty_decay_ms:1000,narenas:2,background_thread:true";
        let line = |command: &str| [command.replace("…", &format!("env {conf} LD_PRELOAD=libjemalloc.so.2"))];
        assert_eq!(lines(&tuned, CABLE, "Procfile"), line("web: … bundle exec puma"));
        assert_eq!(lines(&tuned, JOBS, "Procfile"), line("worker: … bundle exec sidekiq"));
        let dockerfile = lines(&tuned, CABLE, "Dockerfile");
        assert!(dockerfile[0].ends_with("apt-get install -y libjemalloc2"), "{dockerfile:?}");
        assert!(dockerfile.contains(&"ENV LD_PRELOAD=libjemalloc.so.2".to_owned()), "{dockerfile:?}");
    }

    #[test]
    fn a_policy_stands_before_the_server() {
        let lean = built_in("lean").unwrap();
        assert_eq!(lines(&lean, JOBS, "Procfile"), ["worker: unbloat run -- bundle exec sidekiq"]);
        assert_eq!(lines(&lean, CABLE, "Dockerfile"), [r#"ENTRYPOINT ["unbloat","run","--"]"#]);
        assert_eq!(
            lines(&lean, CABLE, "systemd"),
            ["ExecStart=/usr/local/bin/unbloat run -- bundle exec puma"]
        );
        let trim = built_in("trim=major").unwrap();
        assert_eq!(
            lines(&trim, CABLE, "Procfile"),
            ["web: unbloat run --policy trim=major -- bundle exec puma"]
        );
    }

    #[test]
    fn another_ruby_or_another_command_is_a_line_too() {
        let ruby = Variant { wrapper: vec!["/opt/ruby/bin/ruby".into()], ..Variant::default() };
        assert_eq!(lines(&ruby, CABLE, "Procfile"), ["web: /opt/ruby/bin/ruby bundle exec puma"]);
        let start = ["bundle", "exec", "falcon", "-p", "{port}", "-n", "two words"];
        let falcon = Variant { start: Some(start.map(str::to_owned).to_vec()), ..Variant::default() };
        assert_eq!(lines(&falcon, CABLE, "Procfile"), ["web: bundle exec falcon -p $PORT -n 'two words'"]);
        assert_eq!(lines(&falcon, CABLE, "systemd").len(), 1);
        assert_eq!(deploy(&built_in("glibc").unwrap(), &plan(CABLE)), []);
    }
}
