//! The version of a process's Ruby: `ruby_version` or the description string, read from the mapped files.
//!
//! `ruby_version` (version.c: `const char ruby_version[]`) is part of the public API
//! (include/ruby/version.h), so it is in the dynamic symbol table of libruby, and of a program with CRuby
//! linked in, stripped or not. A program that hides it still contains the line printed by `ruby -v`
//! (`ruby_description`).

use std::fmt;
use std::path::Path;
use unbloat_process::{Image, Maps, Pid, elf};

/// Size of the longest `ruby_version`, with room to spare.
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
    /// Parses the digits at the start of `text`, in the form of `ruby_version` (`3.1.2`).
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.').unwrap_or(text.len());
        let mut numbers = std::str::from_utf8(&text[..end]).ok()?.split('.').map(|n| n.parse().ok());
        let version =
            RubyVersion { major: numbers.next()??, minor: numbers.next()??, teeny: numbers.next()?? };
        (numbers.next().is_none() && (1..=9).contains(&version.major)).then_some(version)
    }
}

/// The mapped file that contains CRuby.
#[derive(Debug)]
pub struct Program {
    /// Its version.
    pub version: RubyVersion,
    /// The file.
    pub image: Image,
}

impl Program {
    /// Finds the file with the symbol `ruby_version`; `None` if no mapped file has a readable one. The files
    /// are opened through the process's own mappings and mount namespace.
    #[must_use]
    pub fn of_symbol(pid: Pid, maps: &Maps) -> Option<Self> {
        images(pid, maps).find_map(|image| {
            let address = image.symbol("ruby_version")?;
            let version = RubyVersion::parse(&image.file_bytes(address, VERSION_BYTES)?)?;
            Some(Program { version, image })
        })
    }

    /// Finds the file with the description `ruby X.Y.Z (date …` or `ruby X.Y.ZpN (date …`. It reads whole
    /// files, so it is only for a process in which a Ruby heap was found.
    #[must_use]
    pub fn of_description(pid: Pid, maps: &Maps) -> Option<Self> {
        let described = |image: &Image| {
            (b'2'..=b'9').find_map(|major| {
                let text = image.find_bytes(&[b"ruby ", &[major, b'.'][..]].concat(), VERSION_BYTES)?;
                described_version(&text)
            })
        };
        let mut images = images(pid, maps).take(MAX_DESCRIBED);
        images.find_map(|image| Some(Program { version: described(&image)?, image }))
    }
}

/// Parses the version in a text that starts with `ruby 3.1.2p20 (` or `ruby 3.3.0 (`.
fn described_version(text: &[u8]) -> Option<RubyVersion> {
    let text = text.strip_prefix(b"ruby ")?;
    let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
    let level = text[end..].strip_prefix(b"p").map(|rest| rest.trim_ascii_start());
    let rest = level.map_or(&text[end..], |level| {
        &level[level.iter().position(|b| !b.is_ascii_digit()).unwrap_or(level.len())..]
    });
    rest.starts_with(b" (").then(|| RubyVersion::parse(text))?
}

/// Maximum number of files read whole in search of the description.
const MAX_DESCRIBED: usize = 2;

/// Iterates over the mapped ELF files: first those named after Ruby, then the program itself, which is mapped
/// lowest.
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
    fn a_description_is_told_from_other_texts_about_ruby() {
        let version = |text: &[u8]| described_version(text).map(|v| v.to_string());
        assert_eq!(version(b"ruby 3.1.2p20 (2022-04-12").as_deref(), Some("3.1.2"));
        assert_eq!(version(b"ruby 4.0.1 (2026-01-13").as_deref(), Some("4.0.1"));
        assert_eq!(version(b"ruby 3.4.0 and later"), None);
        assert_eq!(version(b"ruby 3.4"), None);
    }

    #[test]
    fn versions_are_read_up_to_the_first_other_byte() {
        assert_eq!(RubyVersion::parse(b"3.1.2\0junk").unwrap().to_string(), "3.1.2");
        assert_eq!(RubyVersion::parse(b"4.0.10").unwrap().to_string(), "4.0.10");
        for wrong in [&b"3.1"[..], b"", b"3.1.2.4", b"3..2", b"300.1.1", b"x.y.z", b"0.1.2"] {
            assert_eq!(RubyVersion::parse(wrong), None, "{wrong:?}");
        }
    }
}
