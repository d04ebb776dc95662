//! Which Ruby a process runs: `ruby_version` or the description string, read from the mapped files.
//!
//! `ruby_version` (version.c: `const char ruby_version[]`) is part of the public API (include/ruby/version.h), so it is
//! in the dynamic symbol table of libruby and of a program that has CRuby linked in, stripped or not. A program that
//! hides it still contains the line that `ruby -v` prints (`ruby_description`).

use std::fmt;
use std::path::Path;
use unbloat_process::{Image, Maps, Pid, elf};

/// Bytes that the longest `ruby_version` has, with room to spare.
const VERSION_BYTES: usize = 16;

/// A CRuby version. Patch levels do not matter: structures change with minor versions only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RubyVersion {
    /// 3 in 3.1.2.
    pub major: u8,
    /// 1 in 3.1.2.
    pub minor: u8,
    /// 2 in 3.1.2.
    pub teeny: u8,
}

impl fmt::Display for RubyVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.teeny)
    }
}

impl RubyVersion {
    /// Parses the digits at the start of `text`, as `ruby_version` (`3.1.2`) has them.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(text.len());
        let mut numbers = std::str::from_utf8(&text[..end]).ok()?.split('.').map(|n| n.parse().ok());
        let version =
            RubyVersion { major: numbers.next()??, minor: numbers.next()??, teeny: numbers.next()?? };
        (numbers.next().is_none() && (1..=9).contains(&version.major)).then_some(version)
    }

    /// The version of the CRuby that a process has mapped, by the symbol `ruby_version`: `None` when no mapped file has
    /// one that can be read. The file is found through the process's own mappings and mount namespace.
    #[must_use]
    pub fn of_symbol(pid: Pid, maps: &Maps) -> Option<Self> {
        images(pid, maps).find_map(|image| {
            let address = image.symbol("ruby_version")?;
            Self::parse(&image.file_bytes(address, VERSION_BYTES)?)
        })
    }

    /// The version by the description `ruby X.Y.Z (date …` or `ruby X.Y.ZpN (date …` in a mapped file: reads the files
    /// whole, so only for a process in which a Ruby heap was found.
    #[must_use]
    pub fn of_description(pid: Pid, maps: &Maps) -> Option<Self> {
        let described = |image: &Image| {
            (b'1'..=b'9').find_map(|major| {
                let text = image.find_bytes(&[b"ruby ", &[major, b'.'][..]].concat(), VERSION_BYTES)?;
                Self::parse(&text[b"ruby ".len()..])
            })
        };
        images(pid, maps).take(MAX_DESCRIBED).find_map(|image| described(&image))
    }
}

/// Files that are read whole in search of the description.
const MAX_DESCRIBED: usize = 2;

/// The mapped ELF files, those first that are called after Ruby, then the program itself, which lies lowest.
fn images(pid: Pid, maps: &Maps) -> impl Iterator<Item = Image> {
    let rank = |path: Option<&Path>| {
        let name =
            path.and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        [name.starts_with("libruby"), name.starts_with("ruby"), true].iter().position(|&is| is)
    };
    let mut mappings: Vec<_> = elf::first_mappings(maps).collect();
    mappings.sort_by_key(|mapping| rank(mapping.file()));
    mappings.into_iter().filter_map(move |mapping| Image::of_mapping(pid, mapping).ok())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn versions_are_read_up_to_the_first_other_byte() {
        assert_eq!(RubyVersion::parse(b"3.1.2\0junk").unwrap().to_string(), "3.1.2");
        assert_eq!(RubyVersion::parse(b"4.0.10").unwrap().to_string(), "4.0.10");
        for wrong in [&b"3.1"[..], b"", b"3.1.2.4", b"3..2", b"300.1.1", b"x.y.z", b"0.1.2"] {
            assert_eq!(RubyVersion::parse(wrong), None, "{wrong:?}");
        }
    }
}
