//! The policies: what a user may ask for, and how it is spelled.
//!
//! A policy is a list of parts separated by commas, each setting one thing: `arenas=1,trim=adaptive`. `lean` and `off`
//! are whole policies; parts after them change them: `lean,trim=off`.

use crate::target::Target;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use unbloat_contract::Library;

/// Which collections are followed by a trim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// `malloc_trim(0)` after each full collection.
    Major,
    /// `malloc_trim(0)` after each collection.
    Every,
    /// When there is something to gain, within a budget.
    Adaptive,
}

impl Trim {
    /// The word of `trim=`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Trim::Major => "major",
            Trim::Every => "every",
            Trim::Adaptive => "adaptive",
        }
    }
}

/// Who serves `malloc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocator {
    /// Whatever the process has anyway.
    Own,
    /// The jemalloc carried inside.
    Jemalloc,
    /// A library of the system.
    System(PathBuf),
}

/// When Ruby's heap is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compact {
    /// `GC.compact` before the server forks.
    Boot,
    /// `GC.auto_compact`.
    Auto,
}

impl Compact {
    /// The word of `compact=`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Compact::Boot => "boot",
            Compact::Auto => "auto",
        }
    }
}

/// What is wanted of a server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// At most so many arenas in glibc.
    pub arenas: Option<u16>,
    /// Which collections are followed by a trim.
    pub trim: Option<Trim>,
    /// Who serves `malloc`.
    pub allocator: Allocator,
    /// When Ruby's heap is compacted.
    pub compact: Option<Compact>,
    /// Whether `Process.warmup` is called before the server forks.
    pub warmup: bool,
}

/// Why a policy was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No part is called so.
    #[error("no policy is called '{0}'. There are: {POLICIES}")]
    Unknown(String),
    /// A part with a value that it does not take.
    #[error("the policy '{part}' needs {wanted} after the equals sign")]
    Value {
        /// The part.
        part: String,
        /// What should stand there.
        wanted: &'static str,
    },
}

/// All policies, for messages.
pub const POLICIES: &str = "lean, off, arenas=N, trim=major, trim=every, trim=adaptive, allocator=jemalloc, \
     allocator=system:PATH, compact=boot, compact=auto, warmup; several are joined by commas";

impl Policy {
    /// Nothing: the control.
    pub const OFF: Policy =
        Policy { arenas: None, trim: None, allocator: Allocator::Own, compact: None, warmup: false };

    /// The best combination by measurement (docs/method/lean.md).
    pub const LEAN: Policy =
        Policy { trim: Some(Trim::Adaptive), allocator: Allocator::Jemalloc, ..Policy::OFF };

    /// Whether the policy needs the runtime inside the process.
    #[must_use]
    pub fn needs_runtime(&self) -> bool {
        self.trim.is_some() || self.compact.is_some() || self.warmup
    }

    /// Those of our libraries that the policy loads.
    #[must_use]
    pub fn libraries(&self) -> Vec<Library> {
        let wanted = |library: &Library| match library {
            Library::Runtime => self.needs_runtime(),
            Library::Jemalloc => self.allocator == Allocator::Jemalloc,
        };
        Library::ALL.into_iter().filter(wanted).collect()
    }

    /// What of the policy can work in a program that has limits.
    #[must_use]
    pub fn within(mut self, target: &Target) -> Self {
        if !target.allows_preload() {
            self.allocator = Allocator::Own;
        }
        if !target.allows_loading() {
            self = Policy { arenas: self.arenas, ..Self::OFF };
        }
        self
    }

    /// The sentence about an `allocator=system:PATH` that is not there. A bare name is for the dynamic linker to find.
    #[must_use]
    pub fn missing_allocator(&self) -> Option<String> {
        let Allocator::System(path) = &self.allocator else { return None };
        let is_path = path.as_os_str().as_encoded_bytes().contains(&b'/');
        (is_path && !path.is_file()).then(|| {
            format!(
                "{} is not there, so the dynamic linker will preload nothing and malloc stays as it is. Check the path of \
                 allocator=system:PATH",
                path.display()
            )
        })
    }

    fn apply(&mut self, part: &str) -> Result<(), PolicyError> {
        let wrong = |wanted| PolicyError::Value { part: part.to_owned(), wanted };
        match part.split_once('=').unwrap_or((part, "")) {
            ("lean", "") => *self = Self::LEAN,
            ("off", "") => *self = Self::OFF,
            ("warmup", "") => self.warmup = true,
            ("arenas", number) => {
                let number = number.parse().ok().filter(|&number| number > 0);
                self.arenas = Some(number.ok_or_else(|| wrong("a number, 1 or more,"))?);
            }
            ("trim", "off") => self.trim = None,
            ("trim", "major") => self.trim = Some(Trim::Major),
            ("trim", "every") => self.trim = Some(Trim::Every),
            ("trim", "adaptive") => self.trim = Some(Trim::Adaptive),
            ("trim", _) => return Err(wrong("off, major, every or adaptive")),
            ("allocator", "own") => self.allocator = Allocator::Own,
            ("allocator", "jemalloc") => self.allocator = Allocator::Jemalloc,
            ("allocator", other) => match other.strip_prefix("system:") {
                Some(path) if !path.is_empty() => self.allocator = Allocator::System(PathBuf::from(path)),
                _ => return Err(wrong("jemalloc, own or system:PATH")),
            },
            ("compact", "off") => self.compact = None,
            ("compact", "boot") => self.compact = Some(Compact::Boot),
            ("compact", "auto") => self.compact = Some(Compact::Auto),
            ("compact", _) => return Err(wrong("off, boot or auto")),
            _ => return Err(PolicyError::Unknown(part.to_owned())),
        }
        Ok(())
    }
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let mut policy = Self::OFF;
        for part in text.split(',').map(str::trim) {
            policy.apply(part)?;
        }
        Ok(policy)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::OFF {
            return f.write_str("off");
        }
        let mut parts = Vec::new();
        if (Policy { compact: None, warmup: false, ..self.clone() }) == Self::LEAN {
            parts.push("lean".to_owned());
        } else {
            match &self.allocator {
                Allocator::Own => {}
                Allocator::Jemalloc => parts.push("allocator=jemalloc".to_owned()),
                Allocator::System(path) => parts.push(format!("allocator=system:{}", path.display())),
            }
            parts.extend(self.arenas.map(|number| format!("arenas={number}")));
            parts.extend(self.trim.map(|trim| format!("trim={}", trim.word())));
        }
        parts.extend(self.compact.map(|compact| format!("compact={}", compact.word())));
        parts.extend(self.warmup.then(|| "warmup".to_owned()));
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn parse(text: &str) -> Policy {
        text.parse().unwrap()
    }

    #[test]
    fn every_policy_round_trips() {
        for text in [
            "lean",
            "off",
            "arenas=2",
            "trim=major",
            "trim=every",
            "trim=adaptive",
            "allocator=jemalloc",
            "allocator=system:/usr/lib/libmimalloc.so.2",
            "compact=boot",
            "compact=auto",
            "warmup",
            "lean,compact=boot,warmup",
            "arenas=1,trim=adaptive,compact=boot,warmup",
        ] {
            assert_eq!(parse(text).to_string(), text);
        }
    }

    #[test]
    fn later_parts_change_earlier_ones() {
        assert_eq!(parse("lean,trim=off,allocator=own"), Policy::OFF);
        assert_eq!(parse("trim=major, trim=every").trim, Some(Trim::Every));
    }

    #[test]
    fn an_allocator_that_is_not_there_is_named() {
        assert!(parse("allocator=system:/no/such.so").missing_allocator().unwrap().contains("/no/such.so"));
        for fine in ["allocator=system:/proc/self/exe", "allocator=system:libmimalloc.so.2", "lean"] {
            assert_eq!(parse(fine).missing_allocator(), None, "{fine}");
        }
    }

    #[test]
    fn an_unknown_policy_names_the_known_ones() {
        let error = "leen".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("'leen'") && error.contains("trim=adaptive"), "{error}");
        for bad in ["arenas=0", "arenas=x", "trim=", "allocator=system:", "compact=now", "", "lean=1"] {
            assert!(bad.parse::<Policy>().is_err(), "{bad}");
        }
    }
}
