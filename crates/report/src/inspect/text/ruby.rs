//! The Ruby heap: its size pools, their use and contents, and the malloc memory that belongs to it.

use super::super::words;
use super::push_heading;
use crate::style::{Ink, Style, percent, thousands, wrap};
use std::cmp::Reverse;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Ownership, RubyHeap, RubyType, SizePool};

/// Number of types of objects, and of owners, that are named.
const TYPES: usize = 8;
/// Number of kinds of internal objects that are named.
const IMEMOS: usize = 5;

/// Writes the section.
pub(super) fn push(out: &mut String, ruby: &RubyHeap, ownership: Option<&Ownership>, style: &Style) {
    let rest = format!(
        "  Ruby {} · {} pages of {} · {} slots",
        ruby.version,
        thousands(ruby.pages()),
        Iec(ruby.page_bytes),
        thousands(ruby.slots())
    );
    push_heading(out, "RUBY HEAP", &rest, style);
    push_pools(out, &ruby.pools, style);
    let named = |kind: RubyType| kind.name();
    let objects = largest(&ruby.objects, TYPES, named, thousands);
    let imemos = largest(&ruby.imemos, IMEMOS, |kind| kind, thousands);
    let sentences = [
        Some(used(ruby)),
        objects.map(|objects| format!("objects: {objects}")),
        imemos.map(|imemos| format!("of Imemo (Ruby's own): {imemos}")),
        Some(owned(ruby)),
        ownership.map(words::code),
        ownership.and_then(words::strings),
    ];
    for sentence in sentences.into_iter().flatten() {
        out.push_str(&wrap(&sentence, style.width, 2));
    }
}

fn push_pools(out: &mut String, pools: &[SizePool], style: &Style) {
    let head =
        format!("  {:<8}{:>9}{:>13}{:>13}{:>13}{:>9}", "slot", "pages", "slots", "live", "free", "live");
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
    for pool in pools {
        let _ = writeln!(
            out,
            "  {:<8}{:>9}{:>13}{:>13}{:>13}{:>9}",
            Iec(pool.slot_bytes).to_string(),
            thousands(pool.pages),
            thousands(pool.slots),
            thousands(pool.live_slots),
            thousands(pool.free_slots()),
            percent(pool.live_slots, pool.slots)
        );
    }
}

/// Describes the use of slots and pages.
fn used(ruby: &RubyHeap) -> String {
    let mut facts = vec![];
    if let Some(share) = ruby.slot_use() {
        facts.push(format!("live slots / slots in eden pages: {share:.2}"));
    }
    if let Some(share) = ruby.page_use() {
        facts.push(format!("eden pages / sorted length: {share:.2}"));
    }
    facts.push(words::compactable(ruby));
    facts.join(" · ")
}

/// Describes the malloc memory held by objects.
fn owned(ruby: &RubyHeap) -> String {
    let bytes = |bytes| Iec(bytes).to_string();
    match &ruby.malloc_owned {
        Some(owners) => {
            let owners = largest(owners, TYPES, |kind| kind.name(), bytes).unwrap_or_default();
            format!("malloc memory by the type that owns it: {owners}")
        }
        None => format!(
            "malloc memory by the type that owns it: not known, the layouts of Ruby {} are not in this version",
            ruby.version
        ),
    }
}

/// Describes the largest of some kinds with their sizes: `String 1,234, Array 99`. `None` if there are none.
fn largest<K: Copy>(
    kinds: &[(K, u64)],
    most: usize,
    name: impl Fn(K) -> &'static str,
    size: impl Fn(u64) -> String,
) -> Option<String> {
    let mut kinds = kinds.to_vec();
    kinds.sort_by_key(|&(_, n)| Reverse(n));
    let named = kinds.iter().take(most).map(|&(kind, n)| format!("{}\u{a0}{}", name(kind), size(n)));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
}
