//! The Ruby versions whose structures are known, one row each.
//!
//! A new version is a row here plus its changes: a shape in [`super::layout`], rules in `owner_rules`.

use super::RubyVersion;
use super::code::facts::{self as code, CodeFacts};
use super::graph::facts::{self as graph, GraphFacts};
use super::imemo::{self, Kinds};
use super::layout::{self, ObjspaceLayout, PageLayout};
use super::names::facts::{self as names, NameFacts};
use super::owner_rules::{self, Rule};

/// The facts about a minor version. Structures do not change between its patch releases.
#[derive(Debug)]
pub struct VersionFacts {
    /// 3 in 3.1.
    pub major: u8,
    /// 1 in 3.1.
    pub minor: u8,
    /// The shape of heap pages.
    pub pages: PageLayout,
    /// The layout of the collector's counters.
    pub objspace: ObjspaceLayout,
    /// The kinds of internal objects.
    pub(crate) imemos: &'static Kinds,
    /// Rules for the malloc memory that objects own.
    pub(super) owner_rules: fn() -> Vec<Rule>,
    /// The places of names.
    pub(crate) names: NameFacts,
    /// The parts of instruction sequences and classes.
    pub(crate) code: CodeFacts,
    /// The places of references in objects; `None` where that has not been tried.
    pub(crate) graph: Option<GraphFacts>,
}

#[rustfmt::skip] // one row per version
/// The known versions, oldest first.
pub const VERSIONS: [VersionFacts; 7] = [
    row(2, 7, layout::PAGE_2_7, layout::OBJSPACE_2_7, &imemo::UP_TO_3_4, owner_rules::of_2_7, names::FACTS_2_7, code::FACTS_2_7, None),
    row(3, 0, layout::PAGE_3_0, layout::OBJSPACE_3_0, &imemo::UP_TO_3_4, owner_rules::of_3_0, names::FACTS_2_7, code::FACTS_2_7, None),
    row(3, 1, layout::PAGE_3_1, layout::OBJSPACE_3_1, &imemo::UP_TO_3_4, owner_rules::of_3_1, names::FACTS_2_7, code::FACTS_2_7, Some(graph::GRAPH_3_1)),
    row(3, 2, layout::PAGE_3_2, layout::OBJSPACE_3_2, &imemo::UP_TO_3_4, owner_rules::of_3_2, names::FACTS_3_2, code::FACTS_3_2, None),
    row(3, 3, layout::PAGE_3_3, layout::OBJSPACE_3_3, &imemo::UP_TO_3_4, owner_rules::of_3_3, names::FACTS_3_3, code::FACTS_3_2, Some(graph::GRAPH_3_3)),
    row(3, 4, layout::PAGE_3_4, layout::OBJSPACE_3_4, &imemo::UP_TO_3_4, owner_rules::of_3_4, names::FACTS_3_4, code::FACTS_3_4, None),
    row(4, 0, layout::PAGE_3_4, layout::OBJSPACE_4_0, &imemo::FROM_4_0, owner_rules::of_4_0, names::FACTS_4_0, code::FACTS_4_0, None),
];

#[allow(clippy::too_many_arguments)] // the columns of the table
const fn row(
    major: u8,
    minor: u8,
    pages: PageLayout,
    objspace: ObjspaceLayout,
    imemos: &'static Kinds,
    owner_rules: fn() -> Vec<Rule>,
    names: NameFacts,
    code: CodeFacts,
    graph: Option<GraphFacts>,
) -> VersionFacts {
    VersionFacts { major, minor, pages, objspace, imemos, owner_rules, names, code, graph }
}

impl VersionFacts {
    /// Returns whether the references of this version's objects are known.
    #[must_use]
    pub fn has_references(&self) -> bool {
        self.graph.is_some()
    }
}

impl RubyVersion {
    /// Returns the version's facts; `None` for a version unknown to this build.
    #[must_use]
    pub fn facts(self) -> Option<&'static VersionFacts> {
        static KNOWN: [VersionFacts; VERSIONS.len()] = VERSIONS;
        KNOWN.iter().find(|facts| (facts.major, facts.minor) == (self.major, self.minor))
    }
}

/// The known versions as text: `2.7, 3.0, … and 4.0`.
#[must_use]
pub fn known() -> String {
    listed(VERSIONS.iter())
}

/// The versions whose references are known, as text.
pub(crate) fn with_references() -> String {
    listed(VERSIONS.iter().filter(|facts| facts.graph.is_some()))
}

fn listed<'a>(versions: impl Iterator<Item = &'a VersionFacts>) -> String {
    let names: Vec<String> = versions.map(|facts| format!("{}.{}", facts.major, facts.minor)).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}
