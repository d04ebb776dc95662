//! The lines that put a measured variant into production.

use crate::plan::{Load, Plan};
use crate::variant::Variant;
use std::path::Path;
use unbloat_policy::deploy::{Deployment, Format, Word};

/// The most likely deployment targets.
const PLACES: [(&str, Format); 3] =
    [("Procfile", Format::Procfile), ("Dockerfile", Format::Dockerfile), ("systemd", Format::Systemd)];

/// Returns the target and the line for Procfile, Dockerfile and systemd. Empty for the bare control.
#[must_use]
pub fn deploy(variant: &Variant, plan: &Plan) -> Vec<(&'static str, String)> {
    let deployment = deployment(variant, plan);
    let is_bare = deployment.variables.is_empty()
        && deployment.wrapper.is_empty()
        && deployment.launcher.is_empty()
        && !deployment.is_new_command;
    if is_bare {
        return Vec::new();
    }
    let lines = PLACES.into_iter().map(|(place, format)| (place, deployment.lines(format)));
    lines.flat_map(|(place, lines)| lines.into_iter().map(move |line| (place, line))).collect()
}

/// Derives the deployment. A plan starts its server for a measurement, on its own port and perhaps through a
/// script; what is deployed is that kind of server.
fn deployment(variant: &Variant, plan: &Plan) -> Deployment {
    let start = variant.start.as_ref().unwrap_or(&plan.server.start);
    let runs = |program: &str| start.iter().any(|word| word.contains(program));
    let process = match plan.load {
        _ if runs("sidekiq") => "worker",
        Load::Jobs(_) | Load::Own { .. } => "worker",
        Load::Cable(_) | Load::Http(_) | Load::Command { .. } => "web",
    };
    let words = |line: &str| line.split(' ').map(Word::from).collect();
    let command = match (&variant.start, &plan.load) {
        (Some(own), _) => own.iter().map(|word| Word::with_variable(word, "{port}", "PORT")).collect(),
        (None, Load::Jobs(_)) => words("bundle exec sidekiq"),
        (None, _) if runs("sidekiq") => words("bundle exec sidekiq"),
        (None, Load::Cable(_) | Load::Http(_)) => words("bundle exec puma"),
        (None, Load::Own { .. } | Load::Command { .. }) if runs("puma") => words("bundle exec puma"),
        (None, Load::Own { .. } | Load::Command { .. }) => words("YOUR COMMAND"),
    };
    Deployment {
        process,
        packages: variant.package.iter().cloned().collect(),
        variables: variant.variables(),
        wrapper: variant.wrapper.clone(),
        launcher: launcher(variant),
        command,
        is_new_command: variant.start.is_some(),
    }
}

/// Returns `unbloat run --policy … --`; `lean` is its default.
fn launcher(variant: &Variant) -> Vec<String> {
    let bare = Variant { policy: variant.policy.clone(), ..Variant::default() };
    let words = bare.words(Path::new("unbloat"));
    match variant.policy.as_deref() {
        Some("lean") => words.into_iter().filter(|word| word != "--policy" && word != "lean").collect(),
        _ => words,
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
