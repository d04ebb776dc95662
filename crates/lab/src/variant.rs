//! One configuration under comparison: additions to the server's command, and the claims that must then hold
//! for its processes.

use crate::library;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use unbloat_policy::{Claim, Policy, PolicyError};

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Variant {
    /// Its name in tables and charts.
    pub name: String,
    /// Environment variables for the server's command.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// A library to preload, by file name; it is searched for like the dynamic linker does, also with a
    /// version suffix.
    #[serde(default)]
    pub preload: Option<String>,
    /// A policy of `unbloat run`.
    #[serde(default)]
    pub policy: Option<String>,
    /// Words to put before the server's own command, for example another Ruby.
    #[serde(default)]
    pub wrapper: Vec<String>,
    /// A start command that replaces the plan's.
    #[serde(default)]
    pub start: Option<Vec<String>>,
    /// The allocator that must be live: `glibc`, `jemalloc`, `mimalloc` or `tcmalloc`.
    #[serde(default)]
    pub allocator: Option<String>,
    /// A file that must be mapped into the server's processes, for example another libruby.
    #[serde(default)]
    pub mapped: Option<String>,
    /// Debian package of the library, for the deployment line.
    #[serde(default)]
    pub package: Option<String>,
}

impl Variant {
    /// Resolves the variant on this machine: `{directory}` becomes the plan's directory, the library gets its
    /// local name and package. Anything not installed stays as it is, and the run will report it.
    #[must_use]
    pub fn here(self, directory: &Path) -> Variant {
        let fill = |word: String| word.replace("{directory}", &directory.display().to_string());
        let fill_all = |words: Vec<String>| words.into_iter().map(fill).collect::<Vec<_>>();
        let installed = self.preload.as_deref().and_then(library::find);
        let (file, package) = installed.map_or((None, None), |found| (Some(found.file), found.package));
        Variant {
            environment: self.environment.into_iter().map(|(key, value)| (key, fill(value))).collect(),
            preload: file.or(self.preload).map(fill),
            package: package.or(self.package),
            wrapper: fill_all(self.wrapper),
            start: self.start.map(fill_all),
            mapped: self.mapped.map(fill),
            ..self
        }
    }

    /// Returns the variant with its policy spelled as the runtime shows it, which proves the variant.
    ///
    /// # Errors
    /// `unbloat run` does not know the policy.
    pub fn spelled(self) -> Result<Variant, PolicyError> {
        let spelled = |text: &String| text.parse::<Policy>().map(|policy| policy.to_string());
        let policy = self.policy.as_ref().map(spelled).transpose()?;
        Ok(Variant { policy, ..self })
    }

    /// Returns the words to put before the server's own command. `unbloat` is the path of this program.
    #[must_use]
    pub fn words(&self, unbloat: &Path) -> Vec<String> {
        let mut words = self.wrapper.clone();
        let variables = self.variables();
        if !variables.is_empty() {
            words.push("env".to_owned());
            words.extend(variables.into_iter().map(|(key, value)| format!("{key}={value}")));
        }
        if let Some(policy) = &self.policy {
            words.push(unbloat.display().to_string());
            words.extend(["run", "--policy", policy, "--"].map(str::to_owned));
        }
        words
    }

    /// Returns the variables for the server's command, including the one for the preloaded library.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let preload = self.preload.iter().map(|library| ("LD_PRELOAD".to_owned(), library.clone()));
        self.environment.clone().into_iter().chain(preload).collect()
    }

    /// Returns the claims that must hold for every process of the server.
    #[must_use]
    pub fn claims(&self) -> Vec<Claim> {
        let arenas = self.environment.get("MALLOC_ARENA_MAX").and_then(|n| n.parse().ok());
        let environment = self
            .environment
            .iter()
            .map(|(name, value)| Claim::Environment { name: name.clone(), value: value.clone() });
        let mapped = |file: &String, package| Claim::Mapped { file: file.clone(), package };
        environment
            .chain(self.preload.iter().map(|file| mapped(file, self.package.clone())))
            .chain(self.mapped.iter().map(|file| mapped(file, None)))
            .chain(self.allocator.iter().map(|name| Claim::Allocator(name.clone())))
            .chain(arenas.map(Claim::ArenaMax))
            .chain(self.policy.iter().flat_map(|policy| policy_claims(policy)))
            .collect()
    }
}

/// Returns the claims of a policy. A policy unknown to `unbloat run` is left for it to refuse.
fn policy_claims(text: &str) -> Vec<Claim> {
    let Ok(policy) = text.parse::<Policy>() else { return Vec::new() };
    let named = policy.needs_runtime().then(|| Claim::RuntimePolicy(text.to_owned()));
    policy.claims().into_iter().chain(named).collect()
}

/// The most frequently recommended tuning of jemalloc for Ruby (the Rails and Fly templates, Ubicloud).
const JEMALLOC_TUNED: &str = "dirty_decay_ms:1000,narenas:2,background_thread:true";

/// Names of the built-in variants, in order of relevance.
#[must_use]
pub fn built_in_names() -> Vec<&'static str> {
    BUILT_IN.to_vec()
}

const BUILT_IN: &[&str] = &[
    "glibc",
    "arenas=1",
    "arenas=2",
    "arenas=4",
    "trim=every",
    "trim=major",
    "trim=adaptive",
    "jemalloc",
    "jemalloc-tuned",
    "jemalloc-bundled",
    "mimalloc",
    "tcmalloc",
    "compact",
    "lean",
];

/// Returns the built-in variant with that name.
#[must_use]
pub fn built_in(name: &str) -> Option<Variant> {
    let name = *BUILT_IN.iter().find(|known| **known == name)?;
    let plain = Variant { name: name.to_owned(), allocator: Some("glibc".to_owned()), ..Variant::default() };
    let preloaded = |allocator: &str, library: &str, package: &str| Variant {
        allocator: Some(allocator.to_owned()),
        preload: Some(library.to_owned()),
        package: Some(package.to_owned()),
        ..plain.clone()
    };
    let policy = |policy: &str, allocator: Option<&str>| Variant {
        policy: Some(policy.to_owned()),
        allocator: allocator.map(str::to_owned),
        ..plain.clone()
    };
    let environment = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    Some(match name {
        "glibc" => plain,
        "jemalloc" => preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2"),
        "jemalloc-tuned" => Variant {
            environment: environment("MALLOC_CONF", JEMALLOC_TUNED),
            ..preloaded("jemalloc", "libjemalloc.so.2", "libjemalloc2")
        },
        "jemalloc-bundled" => policy("allocator=jemalloc", Some("jemalloc")),
        "mimalloc" => preloaded("mimalloc", "libmimalloc.so", "libmimalloc2.0"),
        "tcmalloc" => preloaded("tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"),
        "compact" => policy("compact=boot", Some("glibc")),
        // Its parts are up to `unbloat run`.
        "lean" => policy("lean", None),
        _ => match name.strip_prefix("arenas=") {
            Some(arenas) => Variant { environment: environment("MALLOC_ARENA_MAX", arenas), ..plain },
            None => policy(name, Some("glibc")),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_name_is_known_and_its_own() {
        for name in built_in_names() {
            assert_eq!(built_in(name).map(|v| v.name).as_deref(), Some(name));
        }
        assert_eq!(built_in("nonesuch"), None);
    }

    #[test]
    fn the_control_is_bare() {
        let control = built_in("glibc").unwrap_or_default();
        assert!(control.environment.is_empty() && control.policy.is_none() && control.preload.is_none());
    }

    #[test]
    fn words_stand_in_the_order_in_which_they_take_effect() {
        let words =
            |name: &str| built_in(name).unwrap_or_default().words(Path::new("/usr/bin/unbloat")).join(" ");
        assert_eq!(words("glibc"), "");
        assert_eq!(words("arenas=2"), "env MALLOC_ARENA_MAX=2");
        assert_eq!(words("jemalloc"), "env LD_PRELOAD=libjemalloc.so.2");
        assert_eq!(words("trim=major"), "/usr/bin/unbloat run --policy trim=major --");
    }

    #[test]
    fn the_plan_s_directory_is_filled_in() {
        let patched = Variant {
            environment: BTreeMap::from([("LD_LIBRARY_PATH".into(), "{directory}/lib".into())]),
            mapped: Some("{directory}/lib/libruby-3.1.so.3.1".into()),
            ..Variant::default()
        };
        let here = patched.here(Path::new("/app"));
        assert_eq!(here.words(Path::new("u")), ["env", "LD_LIBRARY_PATH=/app/lib"]);
        assert!(
            here.claims()
                .contains(&Claim::Mapped { file: "/app/lib/libruby-3.1.so.3.1".into(), package: None })
        );
    }

    #[test]
    fn an_allocator_is_claimed() {
        let tuned = built_in("jemalloc-tuned").unwrap_or_default();
        assert!(tuned.claims().contains(&Claim::Allocator("jemalloc".into())));
    }
}
