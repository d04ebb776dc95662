//! The origin of a path: a gem with its version, the standard library, the application.

use crate::model::Origin;
use std::path::{Path, PathBuf};
use unbloat_untrusted::Untrusted;

/// Finds the origins of the paths of one process.
pub(crate) struct Origins {
    directory: Option<PathBuf>,
}

impl Origins {
    /// Sets the application's directory, unless it is the root.
    pub(crate) fn new(directory: Option<&Path>) -> Self {
        let directory = directory.filter(|directory| directory.components().count() > 1);
        Origins { directory: directory.map(Path::to_path_buf) }
    }

    /// Returns the origin of a path.
    pub(crate) fn of(&self, path: &Untrusted) -> Origin {
        let text = path.raw();
        if text.starts_with("<internal:") {
            return Origin::Ruby;
        }
        if !text.starts_with('/') {
            return Origin::Evaluated;
        }
        gem(text).or_else(|| git_gem(text)).or_else(|| system_gem(text)).unwrap_or_else(|| self.other(text))
    }

    fn other(&self, text: &str) -> Origin {
        let path = Path::new(text);
        if self.directory.as_deref().is_some_and(|directory| path.starts_with(directory)) {
            return Origin::Application;
        }
        if is_standard_library(path) {
            return Origin::StandardLibrary;
        }
        let directory = path.parent().unwrap_or(path);
        Origin::Directory(Untrusted::from(directory))
    }
}

/// Returns the component after the last `/gems/` of a path, where RubyGems installs: `NAME-VERSION`, possibly
/// followed by a platform.
fn gem(path: &str) -> Option<Origin> {
    let (before, after) = path.rsplit_once("/gems/")?;
    if before.ends_with("/bundler") {
        return None;
    }
    let (folder, _) = after.split_once('/')?;
    let at = folder
        .match_indices('-')
        .find(|(at, _)| folder[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?;
    let (name, version) = (&folder[..at.0], &folder[at.0 + 1..]);
    Some(Origin::Gem { name: name.into(), version: Some(version.into()) })
}

/// Gems from Git, as Bundler lays them out: `/bundler/gems/NAME-REVISION/`.
fn git_gem(path: &str) -> Option<Origin> {
    let (_, after) = path.rsplit_once("/bundler/gems/")?;
    let (folder, _) = after.split_once('/')?;
    let (name, revision) = folder.rsplit_once('-').unwrap_or((folder, ""));
    let version = (!revision.is_empty()).then(|| Untrusted::from(revision));
    Some(Origin::Gem { name: name.into(), version })
}

/// Gems as Debian packages them: `/vendor_ruby/NAME/…` or `/vendor_ruby/NAME.rb`, without a version.
fn system_gem(path: &str) -> Option<Origin> {
    let (_, after) = path.rsplit_once("/vendor_ruby/")?;
    let name = after.split('/').next().unwrap_or(after);
    let name = name.strip_suffix(".rb").unwrap_or(name);
    Some(Origin::Gem { name: name.into(), version: None })
}

/// `…/lib/ruby/3.1.0/…`, `…/lib/x86_64-linux-gnu/ruby/3.1.0/…`.
fn is_standard_library(path: &Path) -> bool {
    let parts: Vec<&str> = path.components().filter_map(|part| part.as_os_str().to_str()).collect();
    parts.windows(2).any(|two| two[0] == "ruby" && two[1].starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(path: &str) -> Origin {
        Origins::new(Some(Path::new("/srv/shop"))).of(&Untrusted::from(path))
    }

    fn gem_of(name: &str, version: Option<&str>) -> Origin {
        Origin::Gem { name: name.into(), version: version.map(Untrusted::from) }
    }

    #[test]
    fn gems_have_a_name_and_a_version() {
        let root = "/var/lib/gems/3.1.0/gems";
        assert_eq!(origin(&format!("{root}/rails-i18n-7.0.3/lib/x.rb")), gem_of("rails-i18n", Some("7.0.3")));
        assert_eq!(
            origin(&format!("{root}/nokogiri-1.16.2-x86_64-linux/lib/nokogiri.rb")),
            gem_of("nokogiri", Some("1.16.2-x86_64-linux"))
        );
        // A copy inside the application is still a gem.
        assert_eq!(
            origin("/srv/shop/vendor/bundle/ruby/3.1.0/gems/rack-2.2.4/lib/rack.rb"),
            gem_of("rack", Some("2.2.4"))
        );
        assert_eq!(origin("/usr/lib/ruby/vendor_ruby/rack/utils.rb"), gem_of("rack", None));
        assert_eq!(origin("/usr/lib/ruby/vendor_ruby/rack.rb"), gem_of("rack", None));
        assert_eq!(
            origin("/x/bundler/gems/widgets-0a1b2c3d4e5f/lib/w.rb"),
            gem_of("widgets", Some("0a1b2c3d4e5f"))
        );
    }

    #[test]
    fn the_rest_is_ruby_the_standard_library_the_application_or_a_directory() {
        assert_eq!(origin("<internal:kernel>"), Origin::Ruby);
        assert_eq!(origin("(eval)"), Origin::Evaluated);
        assert_eq!(origin("/usr/lib/ruby/3.1.0/set.rb"), Origin::StandardLibrary);
        assert_eq!(origin("/srv/shop/app/models/user.rb"), Origin::Application);
        assert_eq!(origin("/srv/shopping/a.rb"), Origin::Directory("/srv/shopping".into()));
        assert_eq!(Origins::new(Some(Path::new("/"))).of(&"/a.rb".into()), Origin::Directory("/".into()));
        assert_eq!(origin("/gems/"), Origin::Directory("/".into()));
        assert_eq!(origin("/gems/-1/x"), Origin::Gem { name: "".into(), version: Some("1".into()) });
    }
}
