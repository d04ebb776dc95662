//! `unbloat env`: prints what `unbloat run` would set, for a shell, a Dockerfile, a unit, a Procfile or Heroku.

use super::policy::{self, PolicyOption, variable};
use crate::exit::Exit;
use std::io::{self, Write as _};
use std::path::PathBuf;
use unbloat_policy::Plan;

/// Options of `unbloat env`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    policy: PolicyOption,
    /// How to print it.
    #[arg(long, value_enum, default_value_t = Format::Shell)]
    format: Format,
    /// Where the libraries will lie (see `unbloat install`), if not in the cache of this user.
    #[arg(long, value_name = "DIR")]
    libraries: Option<PathBuf>,
    /// Say nothing about conflicts with what is set already.
    #[arg(long, short)]
    quiet: bool,
}

/// The forms in which an environment can be printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// `export` lines, for `eval "$(unbloat env)"`.
    Shell,
    /// `ENV` lines of a Dockerfile.
    Dockerfile,
    /// `Environment=` lines of a systemd unit.
    Systemd,
    /// The words to put in front of a Procfile's command.
    Procfile,
    /// A `heroku config:set` command.
    Heroku,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let policy = match args.policy.policy() {
        Ok(policy) => policy,
        Err(error) => {
            writeln!(io::stderr(), "unbloat: {error}").ok();
            return Ok(Exit::Usage);
        }
    };
    let libraries = match &args.libraries {
        Some(directory) => directory.clone(),
        None => policy::libraries(&policy)?,
    };
    // A shell has our environment. What is written into a file goes to a server whose environment nobody knows here:
    // nothing of ours belongs into it, and nothing may be left out because it happens to be set here.
    let here = |name: &str| variable(name).filter(|_| args.format == Format::Shell);
    let plan = unbloat_policy::plan(&policy, &libraries, here);
    if !args.quiet {
        for note in &plan.notes {
            writeln!(io::stderr(), "unbloat: {note}").ok();
        }
    }
    write!(io::stdout(), "{}", render(&plan, args.format))?;
    Ok(Exit::Done)
}

fn render(plan: &Plan, format: Format) -> String {
    let lines = |line: &dyn Fn(&str, &str) -> String| -> String {
        plan.set.iter().map(|(name, value)| line(name, value) + "\n").collect()
    };
    let words = || {
        let words: Vec<String> =
            plan.set.iter().map(|(name, value)| format!("{name}={}", shell_quoted(value))).collect();
        words.join(" ")
    };
    match format {
        Format::Shell => {
            let unset: String = plan.unset.iter().map(|name| format!("unset {name}\n")).collect();
            unset + &lines(&|name, value| format!("export {name}={}", shell_quoted(value)))
        }
        Format::Dockerfile => lines(&|name, value| format!("ENV {name}={}", double_quoted(value))),
        // systemd.exec(5): the whole assignment is quoted, and % is a specifier.
        Format::Systemd => lines(&|name, value| {
            format!("Environment={}", double_quoted(&format!("{name}={value}")).replace('%', "%%"))
        }),
        Format::Procfile if plan.set.is_empty() => String::new(),
        Format::Procfile => format!("env {}\n", words()),
        Format::Heroku if plan.set.is_empty() => String::new(),
        Format::Heroku => format!("heroku config:set {}\n", words()),
    }
}

/// A word that a POSIX shell takes literally.
fn shell_quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,+@".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A word in double quotes, as Dockerfiles and systemd units take it.
fn double_quoted(word: &str) -> String {
    let escaped = word.replace('\\', r"\\").replace('"', "\\\"").replace('$', r"\$");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            set: vec![
                ("LD_PRELOAD", "/u/libunbloat-jemalloc.so:/a b.so".to_owned()),
                ("UNBLOAT_TRIM", "adaptive".to_owned()),
            ],
            unset: vec!["UNBLOAT_WARMUP"],
            notes: Vec::new(),
        }
    }

    #[test]
    fn every_format_quotes_in_its_own_way() {
        assert_eq!(
            render(&plan(), Format::Shell),
            "unset UNBLOAT_WARMUP\nexport LD_PRELOAD='/u/libunbloat-jemalloc.so:/a b.so'\nexport UNBLOAT_TRIM=adaptive\n"
        );
        assert_eq!(
            render(&plan(), Format::Dockerfile),
            "ENV LD_PRELOAD=\"/u/libunbloat-jemalloc.so:/a b.so\"\nENV UNBLOAT_TRIM=\"adaptive\"\n"
        );
        assert_eq!(
            render(&plan(), Format::Systemd),
            "Environment=\"LD_PRELOAD=/u/libunbloat-jemalloc.so:/a b.so\"\nEnvironment=\"UNBLOAT_TRIM=adaptive\"\n"
        );
        assert_eq!(
            render(&plan(), Format::Procfile),
            "env LD_PRELOAD='/u/libunbloat-jemalloc.so:/a b.so' UNBLOAT_TRIM=adaptive\n"
        );
        assert!(render(&plan(), Format::Heroku).starts_with("heroku config:set LD_PRELOAD="));
    }

    #[test]
    fn nothing_to_set_is_nothing_to_print() {
        for format in [Format::Shell, Format::Dockerfile, Format::Systemd, Format::Procfile, Format::Heroku] {
            assert_eq!(render(&Plan::default(), format), "");
        }
    }
}
