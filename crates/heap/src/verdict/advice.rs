//! Advice for each finding.

use crate::model::{Action, Compaction, RubyHeap, Server};

/// Compacts the Ruby heap, with `Process.warmup` from Ruby 3.3 on and with `GC.compact` from 2.7 on.
pub(super) fn compact(ruby: &RubyHeap, title: &str) -> Vec<Action> {
    let has_warmup = version_at_least(&ruby.version, (3, 3));
    let call = if has_warmup { Compaction::Warmup } else { Compaction::Compact };
    vec![Action::Compact { call, server: Server::of_title(title) }]
}

fn version_at_least(version: &str, wanted: (u32, u32)) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (parts.next(), parts.next()) else { return false };
    (major, minor) >= wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(version_at_least("3.10.1", (3, 3)));
        assert!(version_at_least("4.0.0", (3, 3)));
        assert!(!version_at_least("3.2.9", (3, 3)));
        assert!(!version_at_least("unknown", (3, 3)));
    }
}
