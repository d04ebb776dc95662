//! The memory of loaded code, by file and by origin of the file.

use super::Held;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use unbloat_untrusted::Untrusted;

/// A part of the memory of loaded code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CodePart {
    /// Instruction sequences: instructions, positions, tables of local variables and of exceptions.
    Sequences,
    /// Inline caches: of calls, constants and instance variables.
    InlineCaches,
    /// Methods and their definitions.
    Methods,
    /// Classes and modules with their tables of methods, constants and caches.
    Tables,
}

impl CodePart {
    /// All parts.
    pub const ALL: [CodePart; 4] =
        [CodePart::Sequences, CodePart::InlineCaches, CodePart::Methods, CodePart::Tables];

    /// The name in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CodePart::Sequences => "sequences",
            CodePart::InlineCaches => "inline_caches",
            CodePart::Methods => "methods",
            CodePart::Tables => "tables",
        }
    }
}

/// The memory of some loaded code, by part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeParts(BTreeMap<CodePart, Held>);

impl CodeParts {
    /// Returns the memory of one part.
    #[must_use]
    pub fn get(&self, part: CodePart) -> Option<Held> {
        self.0.get(&part).copied()
    }

    /// Iterates over the parts that are present, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (CodePart, Held)> + '_ {
        self.0.iter().map(|(&part, &held)| (part, held))
    }

    /// Adds memory to one part.
    pub fn add(&mut self, part: CodePart, held: Held) {
        *self.0.entry(part).or_default() += held;
    }

    /// Adds the memory of other code.
    pub fn add_all(&mut self, other: &CodeParts) {
        other.iter().for_each(|(part, held)| self.add(part, held));
    }

    /// Returns the bytes of all parts.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.values().map(Held::bytes).sum()
    }

    /// Returns the number of instruction sequences.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        self.get(CodePart::Sequences).map_or(0, |held| held.objects)
    }
}

impl FromIterator<(CodePart, Held)> for CodeParts {
    fn from_iter<T: IntoIterator<Item = (CodePart, Held)>>(parts: T) -> Self {
        let mut all = CodeParts::default();
        parts.into_iter().for_each(|(part, held)| all.add(part, held));
        all
    }
}

/// The origin of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// A gem; without a version if the path does not contain it.
    Gem {
        /// Its name.
        name: Untrusted,
        /// Its version or revision.
        version: Option<Untrusted>,
    },
    /// Files below the working directory of the process.
    Application,
    /// Ruby's standard library.
    StandardLibrary,
    /// Ruby itself (`<internal:kernel>`).
    Ruby,
    /// Code without its own file (`eval`).
    Evaluated,
    /// Another directory.
    Directory(Untrusted),
    /// No file is known.
    #[default]
    Unknown,
}

impl Origin {
    /// The kind's name in JSON.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Origin::Gem { .. } => "gem",
            Origin::Application => "application",
            Origin::StandardLibrary => "standard_library",
            Origin::Ruby => "ruby",
            Origin::Evaluated => "evaluated",
            Origin::Directory(_) => "directory",
            Origin::Unknown => "unknown",
        }
    }

    /// The name and the version of a gem, or the path of a directory.
    #[must_use]
    pub fn name(&self) -> (Option<&Untrusted>, Option<&Untrusted>) {
        match self {
            Origin::Gem { name, version } => (Some(name), version.as_ref()),
            Origin::Directory(name) => (Some(name), None),
            _ => (None, None),
        }
    }

    /// The readable name, with everything from the target escaped.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Origin::Gem { name, version: Some(version) } => format!("{name} {version}"),
            Origin::Gem { name, version: None } => name.shown(),
            Origin::Application => "the application".to_owned(),
            Origin::StandardLibrary => "the standard library".to_owned(),
            Origin::Ruby => "Ruby itself".to_owned(),
            Origin::Evaluated => "evaluated code".to_owned(),
            Origin::Directory(directory) => directory.shown(),
            Origin::Unknown => "no file (classes and methods in C, shared caches)".to_owned(),
        }
    }
}

/// The code of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeFile {
    /// Its path; `None` if no file is known.
    pub path: Option<Untrusted>,
    /// Its origin.
    pub origin: Origin,
    /// Its memory.
    pub parts: CodeParts,
    /// Bytes of it on pages that the process still shares with its parent; `None` if these were not compared.
    pub shared_bytes: Option<u64>,
}

/// All code of one origin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CodeOfOrigin {
    /// Files.
    pub files: u64,
    /// Its memory.
    pub parts: CodeParts,
    /// As [`CodeFile::shared_bytes`].
    pub shared_bytes: Option<u64>,
}

impl CodeOfOrigin {
    fn add(&mut self, file: &CodeFile) {
        self.files += u64::from(file.path.is_some());
        self.parts.add_all(&file.parts);
        self.shared_bytes = match (self.shared_bytes, file.shared_bytes) {
            (None, bytes) | (bytes, None) => bytes,
            (Some(a), Some(b)) => Some(a + b),
        };
    }
}

/// The loaded code of one Ruby.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code {
    /// The files, largest first.
    pub files: Vec<CodeFile>,
    /// Number of instruction sequences whose path could not be read; they are not counted.
    pub sequences_without_path: u64,
}

impl Code {
    /// The sum of everything.
    #[must_use]
    pub fn total(&self) -> CodeOfOrigin {
        let mut total = CodeOfOrigin::default();
        self.files.iter().for_each(|file| total.add(file));
        total
    }

    /// The sums by origin, largest first.
    #[must_use]
    pub fn origins(&self) -> Vec<(&Origin, CodeOfOrigin)> {
        let mut origins: BTreeMap<&Origin, CodeOfOrigin> = BTreeMap::new();
        for file in &self.files {
            origins.entry(&file.origin).or_default().add(file);
        }
        let mut origins: Vec<_> = origins.into_iter().collect();
        origins.sort_by_key(|(_, code)| std::cmp::Reverse(code.parts.bytes()));
        origins
    }
}
