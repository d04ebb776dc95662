//! The command that generates the load. It runs in a separate process, so that its CPU time and its end are
//! separate from the harness's.

use super::pace::Pace;
use crate::plan::{BenchCommand, BenchDriver, Load};
use std::path::Path;

/// Returns the words of the command, with `{url}` and the like still in them; `None` if the server generates
/// its own work.
#[must_use]
pub fn command_line(load: &Load, unbloat: &Path, pace: Pace) -> Option<Vec<String>> {
    match load {
        Load::Own { .. } => None,
        Load::Command { command } => Some(command.clone()),
        Load::Cable(command) => Some(bench(unbloat, BenchDriver::Cable, command, pace)),
        Load::Http(command) => Some(bench(unbloat, BenchDriver::Http, command, pace)),
        Load::Jobs(command) => Some(bench(unbloat, BenchDriver::Jobs, command, pace)),
    }
}

fn bench(unbloat: &Path, driver: BenchDriver, command: &BenchCommand, pace: Pace) -> Vec<String> {
    let mut words = vec![unbloat.display().to_string(), "bench".into(), driver.name().into()];
    // A route file contains paths; the URL is their base, unless the plan names another.
    let has = |name: &str| command.options.iter().any(|option| option.split('=').next() == Some(name));
    if !has("--base") {
        words.extend(has("--routes").then(|| "--base".into()));
        words.push(command.url.clone());
    }
    words.extend(command.options.iter().cloned());
    words.extend(driver.options(pace));
    words.extend(["--json", "--quiet"].map(str::to_owned));
    words
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;

    fn words(options: &[&str], pace: Pace) -> String {
        let options = options.iter().map(ToString::to_string).collect();
        let command =
            BenchCommand { url: "{url}".into(), options, rate: None, utilization: 0.5, run_length: None };
        command_line(&Load::Http(command), Path::new("unbloat"), pace).unwrap().join(" ")
    }

    #[test]
    fn the_url_is_asked_for_or_is_the_base_of_a_file_of_routes() {
        assert_eq!(words(&[], Pace::AsWritten), "unbloat bench http {url} --json --quiet");
        let routes = words(&["--routes=r.toml"], Pace::AsWritten);
        assert_eq!(routes, "unbloat bench http --base {url} --routes=r.toml --json --quiet");
        let own = words(&["--routes=r.toml", "--base=http://x"], Pace::AsWritten);
        assert_eq!(own, "unbloat bench http --routes=r.toml --base=http://x --json --quiet");
    }

    #[test]
    fn a_pace_follows_the_options() {
        let pace = Pace::Open { per_second: 8.0, time: Duration::from_secs(25) };
        let expected = "unbloat bench http {url} --users=10 --rate=8 --time=25s --warm-up=0 --json --quiet";
        assert_eq!(words(&["--users=10"], pace), expected);
    }
}
