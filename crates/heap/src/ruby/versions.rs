//! The Ruby versions whose structures are known, a row each.
//!
//! A new version is a row here, and what has changed in it: a shape in [`super::layout`], rules in `owner_rules`.

use super::RubyVersion;
use super::imemo::{self, Kinds};
use super::layout::{self, ObjspaceLayout, PageLayout};
use super::owner_rules::{self, Rule};

/// What is known of a minor version. Structures do not change between its patch releases.
#[derive(Debug)]
pub struct VersionFacts {
    /// 3 in 3.1.
    pub major: u8,
    /// 1 in 3.1.
    pub minor: u8,
    /// The shape of heap pages.
    pub pages: PageLayout,
    /// The collector's counters.
    pub objspace: ObjspaceLayout,
    /// The kinds of internal objects.
    pub(super) imemos: &'static Kinds,
    /// Rules for the malloc memory that objects own.
    pub(super) owner_rules: fn() -> Vec<Rule>,
}

#[rustfmt::skip] // a row a version
/// The versions that are known, the oldest first.
pub const VERSIONS: [VersionFacts; 7] = [
    row(2, 7, layout::PAGE_2_7, layout::OBJSPACE_2_7, &imemo::UP_TO_3_4, owner_rules::of_2_7),
    row(3, 0, layout::PAGE_3_0, layout::OBJSPACE_3_0, &imemo::UP_TO_3_4, owner_rules::of_3_0),
    row(3, 1, layout::PAGE_3_1, layout::OBJSPACE_3_1, &imemo::UP_TO_3_4, owner_rules::of_3_1),
    row(3, 2, layout::PAGE_3_2, layout::OBJSPACE_3_2, &imemo::UP_TO_3_4, owner_rules::of_3_2),
    row(3, 3, layout::PAGE_3_3, layout::OBJSPACE_3_3, &imemo::UP_TO_3_4, owner_rules::of_3_3),
    row(3, 4, layout::PAGE_3_4, layout::OBJSPACE_3_4, &imemo::UP_TO_3_4, owner_rules::of_3_4),
    row(4, 0, layout::PAGE_3_4, layout::OBJSPACE_4_0, &imemo::FROM_4_0, owner_rules::of_4_0),
];

const fn row(
    major: u8,
    minor: u8,
    pages: PageLayout,
    objspace: ObjspaceLayout,
    imemos: &'static Kinds,
    owner_rules: fn() -> Vec<Rule>,
) -> VersionFacts {
    VersionFacts { major, minor, pages, objspace, imemos, owner_rules }
}

impl RubyVersion {
    /// What is known of it; `None` for a version that this build does not know.
    #[must_use]
    pub fn facts(self) -> Option<&'static VersionFacts> {
        static KNOWN: [VersionFacts; VERSIONS.len()] = VERSIONS;
        KNOWN.iter().find(|facts| (facts.major, facts.minor) == (self.major, self.minor))
    }
}

/// The versions that are known, for people: `2.7, 3.0, … and 4.0`.
#[must_use]
pub fn known() -> String {
    let names: Vec<String> =
        VERSIONS.iter().map(|facts| format!("{}.{}", facts.major, facts.minor)).collect();
    match names.split_last() {
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
