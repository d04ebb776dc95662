//! Findings about live memory: the largest owners, and garbage that waits for a collection.

use super::{WORTH_BYTES, finding, percent, worth};
use crate::iec::Iec;
use crate::model::{Action, Finding, FindingCode, Origin, Ownership, ProcessReport, RubyHeap};

/// Number of origins of code that are named.
const ORIGINS: usize = 2;

/// Describes what is live.
pub(super) fn live(report: &ProcessReport) -> Option<Finding> {
    let live = report.census.live();
    let ruby = report.ruby.as_ref()?;
    worth(report, live).then(|| {
        let owners = match &report.ownership {
            Some(ownership) => parts(ownership),
            None => largest_owners(ruby),
        };
        let text = format!(
            "The {} that are live are the application's own{owners}. One inspection cannot tell whether they \
            grow; two can.",
            Iec(live),
        );
        finding(FindingCode::Live, text, vec![Action::Watch(report.pid)], None)
    })
}

/// Describes code and strings: `: 47.0 MiB are code, of which rails-i18n 7.0.6 has 9.10 MiB; 15.0 MiB are strings, of which
/// Template @source holds 4.10 MiB`.
fn parts(ownership: &Ownership) -> String {
    let mut parts = Vec::new();
    if ownership.code_bytes >= WORTH_BYTES {
        let named = ownership.code.iter().filter(|(origin, bytes)| *origin != Origin::Unknown && *bytes > 0);
        let named: Vec<String> = named
            .take(ORIGINS)
            .map(|(origin, bytes)| format!("{} has {}", origin.label(), Iec(*bytes)))
            .collect();
        let of_which =
            if named.is_empty() { String::new() } else { format!(", of which {}", named.join(" and ")) };
        parts.push(format!("{} are code{of_which}", Iec(ownership.code_bytes)));
    }
    if ownership.strings.bytes() >= WORTH_BYTES {
        let holder = ownership.string_holders.first();
        let holder =
            holder.map(|holder| format!(", of which {} holds {}", holder.what, Iec(holder.held.bytes())));
        parts.push(format!("{} are strings{}", Iec(ownership.strings.bytes()), holder.unwrap_or_default()));
    }
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) }
}

/// Lists the types that own most malloc memory: `: Strings own 98.0 MiB of malloc memory, Arrays 4.1 MiB`.
fn largest_owners(ruby: &RubyHeap) -> String {
    let mut owners = ruby.malloc_owned.clone().unwrap_or_default();
    owners.retain(|&(_, bytes)| bytes >= WORTH_BYTES);
    owners.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let names: Vec<_> =
        owners.iter().take(3).map(|(owner, bytes)| format!("{} {}", owner.name(), Iec(*bytes))).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; most malloc memory belongs to {}", names.join(", "))
}

/// Describes garbage that waits for a collection.
pub(super) fn waiting(report: &ProcessReport) -> Option<Finding> {
    let waiting = report.ownership.as_ref()?.waiting?;
    let bytes = waiting.bytes();
    worth(report, bytes).then(|| {
        let floor = report.floor_bytes().zip(report.floor_without_waiting_bytes());
        let floor = floor.map(|(with, without)| {
            format!(" With it the floor is {}, without it {}.", Iec(with), Iec(without))
        });
        let text = format!(
            "{} of it ({}) is held by nothing: {} objects that wait for a collection.{}",
            Iec(bytes),
            percent(bytes, report.census.live()),
            waiting.objects,
            floor.unwrap_or_default()
        );
        finding(FindingCode::Waiting, text, vec![], None)
    })
}
