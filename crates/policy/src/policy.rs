//! The available policies and their spelling.
//!
//! A policy is a list of comma-separated parts, each with one setting: `arenas=1,trim=adaptive`. `lean` and
//! `off` are complete policies; parts after them modify them: `lean,trim=off`. Each part is a row of the
//! table at the end of this file: its spelling, the way it reaches the server, and the proof that it is live
//! in a process.

use crate::environment::{self, Draft};
use crate::program::Program;
use crate::proof::{self, Claim};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use unbloat_contract::{Compact, Library, Part, Trim, Variable};

/// The allocator that serves `malloc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocator {
    /// The process's default.
    Own,
    /// The jemalloc bundled with `unbloat`.
    Jemalloc,
    /// A library of the system.
    System(PathBuf),
}

/// A policy for a server's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The allocator that serves `malloc`.
    pub allocator: Allocator,
    /// Maximum number of arenas in glibc.
    pub arenas: Option<u16>,
    /// The collections after which to trim.
    pub trim: Trim,
    /// The moments at which Ruby's heap is compacted.
    pub compact: Compact,
    /// Calls `Process.warmup` before the server forks.
    pub warmup: bool,
}

/// The reason why a policy could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No part has this name.
    #[error("no policy is called '{0}'. There are: {known}; several are joined by commas", known = known())]
    Unknown(String),
    /// A part has an invalid value.
    #[error("the policy '{part}' needs {wanted} after the equals sign")]
    Value {
        /// The part.
        part: String,
        /// The valid values.
        wanted: &'static str,
    },
}

impl Policy {
    /// No policy: the control.
    pub const OFF: Policy = Policy {
        allocator: Allocator::Own,
        arenas: None,
        trim: Trim::Off,
        compact: Compact::Off,
        warmup: false,
    };

    /// The best combination according to measurements (docs/method/lean.md).
    pub const LEAN: Policy = Policy { trim: Trim::Adaptive, allocator: Allocator::Jemalloc, ..Policy::OFF };

    /// Returns whether the policy requires the runtime to do something in the process.
    #[must_use]
    pub fn needs_runtime(&self) -> bool {
        let by_runtime = |row: &&Row| matches!(row.carrier, Carrier::Runtime { .. });
        rows().filter(by_runtime).any(|row| (row.value)(self).is_some())
    }

    /// Returns whether the runtime is loaded: for its own work, or to keep the policy's allocator out of
    /// programs other than Ruby.
    #[must_use]
    pub fn loads_runtime(&self) -> bool {
        self.needs_runtime() || self.allocator != Allocator::Own
    }

    /// Returns the libraries that the policy loads.
    #[must_use]
    pub fn libraries(&self) -> Vec<Library> {
        let wanted = |library: &Library| match library {
            Library::Runtime => self.loads_runtime(),
            Library::Jemalloc => self.allocator == Allocator::Jemalloc,
        };
        Library::ALL.into_iter().filter(wanted).collect()
    }

    /// Returns the parts of the policy that can work in a program.
    #[must_use]
    pub fn within(mut self, program: &Program) -> Self {
        if !program.allows_preload() {
            self.allocator = Allocator::Own;
        }
        if !program.allows_loading() {
            self = Policy { arenas: self.arenas, ..Self::OFF };
        }
        self
    }

    /// Returns the path of an `allocator=system:PATH` if no such file exists. A bare name is left for the
    /// dynamic linker to find.
    #[must_use]
    pub fn missing_allocator(&self) -> Option<&PathBuf> {
        let Allocator::System(path) = &self.allocator else { return None };
        let is_path = path.as_os_str().as_encoded_bytes().contains(&b'/');
        (is_path && !path.is_file()).then_some(path)
    }

    fn apply(&mut self, text: &str) -> Result<(), PolicyError> {
        match text {
            "lean" => *self = Self::LEAN,
            "off" => *self = Self::OFF,
            _ => {
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                let unknown = || PolicyError::Unknown(text.to_owned());
                let row = Part::parse(name).map(row).ok_or_else(unknown)?;
                if row.spelled.is_empty() && text.contains('=') {
                    return Err(unknown());
                }
                (row.set)(self, value)
                    .ok_or_else(|| PolicyError::Value { part: text.to_owned(), wanted: row.wanted })?;
            }
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
        let same = |row: &Row, other: &Policy| (row.value)(self) == (row.value)(other);
        let is_lean = rows().filter(|row| !row.beside_lean).all(|row| same(row, &Self::LEAN));
        let rest = rows().filter(|row| !is_lean || row.beside_lean);
        let parts = rest.filter_map(|row| Some((row.part.word(), (row.value)(self)?)));
        let written = parts.map(|(name, value)| match &*value {
            "" => name.to_owned(),
            value => format!("{name}={value}"),
        });
        let words: Vec<String> = is_lean.then(|| "lean".to_owned()).into_iter().chain(written).collect();
        f.write_str(if words.is_empty() { "off".to_owned() } else { words.join(",") }.as_str())
    }
}

/// Lists all values of `--policy`, separated by commas.
#[must_use]
pub fn known() -> String {
    let spelled = rows().flat_map(|row| match row.spelled {
        [] => vec![row.part.word().to_owned()],
        values => values.iter().map(|value| format!("{}={value}", row.part.word())).collect(),
    });
    ["lean".to_owned(), "off".to_owned()].into_iter().chain(spelled).collect::<Vec<_>>().join(", ")
}

/// A part of a policy.
pub(crate) struct Row {
    pub(crate) part: Part,
    /// The values listed in messages; none for a part that is a bare word.
    spelled: &'static [&'static str],
    /// The values as requested by a message about a wrong one.
    wanted: &'static str,
    /// Applies a value to a policy; `None` if it is invalid.
    set: fn(&mut Policy, &str) -> Option<()>,
    /// The value in a policy; `None` if it is as in `off`, empty for a bare word.
    value: fn(&Policy) -> Option<String>,
    /// The part is written after `lean` rather than in its place.
    beside_lean: bool,
    /// The way in which it reaches the server.
    pub(crate) carrier: Carrier,
    /// The claim that holds in a process where it is live.
    pub(crate) claim: fn(&Policy) -> Option<Claim>,
}

/// The way in which a part of a policy reaches the server.
pub(crate) enum Carrier {
    /// The runtime reads a variable; `None` if its default is wanted.
    Runtime { variable: Variable, value: fn(&Policy) -> Option<&'static str> },
    /// Variables of the dynamic linker or of glibc.
    Environment(fn(&mut Draft<'_>)),
}

/// Iterates over all parts, in the order of a spelled-out policy.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    Part::ALL.iter().map(|&part| row(part))
}

fn row(part: Part) -> &'static Row {
    match part {
        Part::Allocator => &ALLOCATOR,
        Part::Arenas => &ARENAS,
        Part::Trim => &TRIM,
        Part::Compact => &COMPACT,
        Part::Warmup => &WARMUP,
    }
}

const ALLOCATOR: Row = Row {
    part: Part::Allocator,
    spelled: &["jemalloc", "system:PATH"],
    wanted: "jemalloc, own or system:PATH",
    set: |policy, value| {
        policy.allocator = match value {
            "own" => Allocator::Own,
            "jemalloc" => Allocator::Jemalloc,
            _ => Allocator::System(value.strip_prefix("system:").filter(|path| !path.is_empty())?.into()),
        };
        Some(())
    },
    value: |policy| match &policy.allocator {
        Allocator::Own => None,
        Allocator::Jemalloc => Some("jemalloc".to_owned()),
        Allocator::System(path) => Some(format!("system:{}", path.display())),
    },
    beside_lean: false,
    carrier: Carrier::Environment(environment::preload),
    claim: proof::of_allocator,
};

const ARENAS: Row = Row {
    part: Part::Arenas,
    spelled: &["N"],
    wanted: "a number, 1 or more,",
    set: |policy, value| {
        policy.arenas = Some(value.parse().ok().filter(|&number| number > 0)?);
        Some(())
    },
    value: |policy| policy.arenas.map(|number| number.to_string()),
    beside_lean: false,
    carrier: Carrier::Environment(environment::arenas),
    claim: proof::of_arenas,
};

const TRIM: Row = Row {
    part: Part::Trim,
    spelled: &["major", "every", "adaptive"],
    wanted: "off, major, every or adaptive",
    set: |policy, value| {
        policy.trim = Trim::parse(value)?;
        Some(())
    },
    value: |policy| (policy.trim != Trim::Off).then(|| policy.trim.word().to_owned()),
    beside_lean: false,
    // Always set, because the runtime trims by default.
    carrier: Carrier::Runtime { variable: Variable::Trim, value: |policy| Some(policy.trim.word()) },
    claim: proof::of_runtime,
};

const COMPACT: Row = Row {
    part: Part::Compact,
    spelled: &["boot", "auto"],
    wanted: "off, boot or auto",
    set: |policy, value| {
        policy.compact = Compact::parse(value)?;
        Some(())
    },
    value: |policy| (policy.compact != Compact::Off).then(|| policy.compact.word().to_owned()),
    beside_lean: true,
    carrier: Carrier::Runtime {
        variable: Variable::Compact,
        value: |policy| (policy.compact != Compact::Off).then(|| policy.compact.word()),
    },
    claim: proof::of_runtime,
};

const WARMUP: Row = Row {
    part: Part::Warmup,
    spelled: &[],
    wanted: "nothing",
    set: |policy, _| {
        policy.warmup = true;
        Some(())
    },
    value: |policy| policy.warmup.then(String::new),
    beside_lean: true,
    carrier: Carrier::Runtime { variable: Variable::Warmup, value: |policy| policy.warmup.then_some("1") },
    claim: proof::of_runtime,
};

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
        assert_eq!(parse("trim=major, trim=every").trim, Trim::Every);
    }

    #[test]
    fn an_allocator_that_is_not_there_is_named() {
        assert!(parse("allocator=system:/no/such.so").missing_allocator().is_some());
        for fine in ["allocator=system:/proc/self/exe", "allocator=system:libmimalloc.so.2", "lean"] {
            assert_eq!(parse(fine).missing_allocator(), None, "{fine}");
        }
    }

    #[test]
    fn an_unknown_policy_names_the_known_ones() {
        let error = "leen".parse::<Policy>().unwrap_err().to_string();
        assert!(error.contains("'leen'") && error.contains("trim=adaptive"), "{error}");
        for bad in [
            "arenas=0",
            "arenas=x",
            "trim=",
            "allocator=system:",
            "compact=now",
            "",
            "lean=1",
            "warmup=1",
            "trim",
        ] {
            assert!(bad.parse::<Policy>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_guide_has_every_part() {
        let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/run.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        for policy in known().split(", ") {
            assert!(guide.contains(&format!("| `{policy}` |")), "docs/guide/run.md has no row for {policy}");
        }
    }
}
