//! The live allocator: its settings, and one row per arena.

use super::super::words;
use super::push_heading;
use crate::style::{Ink, Style, percent, thousands, wrap};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Allocator, Arena};

/// Maximum number of rows in the arenas table; the rest is summed up.
const ARENA_ROWS: usize = 12;

/// Writes the section; `threads` are those of the process.
pub(super) fn push(out: &mut String, allocator: &Allocator, threads: u64, style: &Style) {
    let version = allocator.version.as_deref().map_or(String::new(), |version| format!(" {version}"));
    push_heading(out, "ALLOCATOR", &format!("  {}{version}", allocator.kind.name()), style);
    out.push_str(&wrap(&allocator.evidence, style.width, 2));
    if let Some(settings) = allocator.settings.as_ref().and_then(words::settings) {
        out.push_str(&wrap(&settings, style.width, 2));
    }
    if allocator.arenas.is_empty() {
        return;
    }
    let head = format!(
        "  {:<14}{:>5}{:>10}{:>10}{:>10}{:>10}{:>10}{:>9}",
        "arena",
        words::parts_of(&allocator.arenas),
        "resident",
        "live",
        "cached",
        "trimmable",
        "stranded",
        "threads"
    );
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
    let mut arenas: Vec<_> = allocator.arenas.iter().collect();
    arenas.sort_by_key(|arena| (!arena.main, std::cmp::Reverse(arena.resident_bytes)));
    let named = if arenas.len() > ARENA_ROWS + 1 { ARENA_ROWS } else { arenas.len() };
    for arena in &arenas[..named] {
        push_arena(out, &words::arena(arena), arena.thread_count(), arena);
    }
    let others = arenas.split_off(named);
    if !others.is_empty() {
        let attached = others.iter().map(|arena| arena.thread_count()).sum();
        push_arena(out, &format!("{} more", others.len()), attached, &sum(others.iter().copied()));
    }
    if allocator.arenas.len() > 1 {
        let attached: u64 = allocator.arenas.iter().map(Arena::thread_count).sum();
        push_arena(out, &format!("all {}", allocator.arenas.len()), attached, &sum(allocator.arenas.iter()));
        if attached > 0 && attached < threads {
            let without = format!("  {} of {threads} threads have not allocated yet", threads - attached);
            let _ = writeln!(out, "{}", style.paint(Ink::Dim, &without));
        }
    }
    push_bins(out, allocator, style);
}

/// Adds the fill of the slabs whose size classes strand most.
fn push_bins(out: &mut String, allocator: &Allocator, style: &Style) {
    let mut bins = words::worst_bins(allocator).peekable();
    if bins.peek().is_none() {
        return;
    }
    let head =
        format!("  {:<14}{:>9}{:>12}{:>10}{:>10}", "blocks of", "slabs", "filled to", "stranded", "holes");
    let _ = writeln!(out, "{}", style.paint(Ink::Dim, &head));
    for bin in bins {
        let _ = writeln!(
            out,
            "  {:<14}{:>9}{:>12}{:>10}{:>10}",
            Iec(bin.block_bytes).to_string(),
            thousands(bin.slabs),
            percent(bin.used_blocks, bin.blocks),
            Iec(bin.stranded_bytes).to_string(),
            Iec(bin.holes_bytes).to_string(),
        );
    }
}

fn push_arena(out: &mut String, name: &str, threads: u64, arena: &Arena) {
    let size = |bytes: u64| if bytes == 0 { "–".to_owned() } else { Iec(bytes).to_string() };
    let _ = writeln!(
        out,
        "  {name:<14}{:>5}{:>10}{:>10}{:>10}{:>10}{:>10}{threads:>9}",
        words::parts(arena),
        size(arena.resident_bytes),
        size(arena.live_bytes),
        size(arena.cached_bytes),
        size(arena.trimmable_bytes),
        size(arena.stranded_bytes),
    );
}

fn sum<'a>(arenas: impl Iterator<Item = &'a Arena>) -> Arena {
    arenas.fold(Arena::default(), |mut sum, arena| {
        sum.heaps += words::parts(arena);
        sum.resident_bytes += arena.resident_bytes;
        sum.live_bytes += arena.live_bytes;
        sum.cached_bytes += arena.cached_bytes;
        sum.trimmable_bytes += arena.trimmable_bytes;
        sum.stranded_bytes += arena.stranded_bytes;
        sum
    })
}
