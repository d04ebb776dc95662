//! The tables of the page.

use super::super::words;
use crate::style::{percent, thousands};
use maud::{Markup, html};
use unbloat_heap::Iec;
use unbloat_heap::model::{Allocator, Arena, Category, Group, Ownership, ProcessReport, RubyHeap};
use unbloat_untrusted::visible;

/// Renders a cell with a size, which sorts by its bytes.
fn size(bytes: u64) -> Markup {
    html! { td data-value=(bytes) { (Iec(bytes)) } }
}

/// Renders a cell with a count.
fn count(number: u64) -> Markup {
    html! { td data-value=(number) { (thousands(number)) } }
}

/// Renders the census: every resident byte in one category.
pub(super) fn census(process: &ProcessReport) -> Markup {
    let rss = process.rss_bytes;
    let missing = process.unattributed_bytes();
    html! {
        div {
            h3 { "Where every byte is" }
            table {
                tbody {
                    @for group in Group::ALL { (census_group(process, group)) }
                    @if missing != 0 {
                        tr {
                            td { (if missing > 0 { "not attributed" } else { "counted twice" }) }
                            td { (Iec(missing.unsigned_abs())) }
                            td {}
                        }
                    }
                    tr.group { th { "resident" } td { (Iec(rss)) } td { "100 %" } }
                }
            }
        }
    }
}

fn census_group(process: &ProcessReport, group: Group) -> Markup {
    let rss = process.rss_bytes;
    let mut rows: Vec<(Category, u64)> =
        process.census.iter().filter(|&(category, _)| category.group() == group).collect();
    if rows.is_empty() {
        return html! {};
    }
    // The types of Ruby objects first, the largest at the top; the others in the census's own order.
    rows.sort_by_key(|&(category, bytes)| {
        let is_object = matches!(category, Category::RubyLive(_));
        (!is_object, if is_object { u64::MAX - bytes } else { 0 })
    });
    let sum = process.census.sum(|category| category.group() == group);
    html! {
        tr.group { th { (group.label()) } td { (Iec(sum)) } td { (percent(sum, rss)) } }
        @for (category, bytes) in rows {
            tr {
                td { i class=(category.segment().key()) {} (category.label()) }
                td { (Iec(bytes)) }
                td { (percent(bytes, rss)) }
            }
        }
    }
}

/// Renders the Ruby heap by slot size, and the memory owned by its objects.
pub(super) fn ruby(ruby: &RubyHeap, ownership: Option<&Ownership>) -> Markup {
    html! {
        div {
            h3 { "Ruby heap" }
            p.quiet {
                "Ruby " (visible(&ruby.version)) " · " (thousands(ruby.pages())) " pages of " (Iec(ruby.page_bytes)) " · "
                (thousands(ruby.slots())) " slots · " (words::compactable(ruby))
            }
            table.sortable {
                thead { tr { th { "slot" } th { "pages" } th { "live" } th { "free" } th { "live" } } }
                tbody {
                    @for pool in &ruby.pools {
                        tr {
                            (size(pool.slot_bytes)) (count(pool.pages)) (count(pool.live_slots)) (count(pool.free_slots()))
                            td data-value=(share(pool.live_slots, pool.slots)) { (percent(pool.live_slots, pool.slots)) }
                        }
                    }
                }
            }
            @if let Some(owned) = &ruby.malloc_owned { (malloc_owned(owned)) }
            @if let Some(ownership) = ownership { (owners(ownership)) }
        }
    }
}

/// Renders code by origin, and strings by holder.
fn owners(ownership: &Ownership) -> Markup {
    html! {
        table.sortable {
            thead { tr { th { "code of" } th { "bytes" } } }
            tbody {
                @for (origin, bytes) in &ownership.code { tr { td { (origin.label()) } (size(*bytes)) } }
            }
        }
        @if !ownership.string_holders.is_empty() {
            table.sortable {
                thead { tr { th { "strings held by" } th { "bytes" } } }
                tbody {
                    @for holder in &ownership.string_holders {
                        tr { td { (holder.what) } (size(holder.held.bytes())) }
                    }
                }
            }
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn malloc_owned(owned: &[(unbloat_heap::model::RubyType, u64)]) -> Markup {
    /// Number of types named in a table: the largest owners.
    const ROWS: usize = 10;
    let mut owned = owned.to_vec();
    owned.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    html! {
        table.sortable {
            thead { tr { th { "malloc memory owned by" } th { "bytes" } } }
            tbody {
                @for (ruby_type, bytes) in owned.into_iter().take(ROWS) {
                    tr { td { (ruby_type.name()) } (size(bytes)) }
                }
            }
        }
    }
}

/// Renders the live allocator, with one row per arena.
pub(super) fn allocator(allocator: &Allocator) -> Markup {
    let settings = allocator.settings.as_ref().and_then(words::settings);
    let mut arenas: Vec<&Arena> = allocator.arenas.iter().collect();
    arenas.sort_by_key(|arena| (!arena.main, std::cmp::Reverse(arena.resident_bytes)));
    html! {
        h3 { "Allocator" }
        p.quiet {
            (allocator.kind.name()) " " (visible(allocator.version.as_deref().unwrap_or(""))) " · "
            (visible(&allocator.evidence))
            @if let Some(settings) = settings { " · " (settings) }
        }
        @if !arenas.is_empty() {
            div.wide {
                table.sortable.arenas {
                    thead {
                        tr {
                            th { "arena" } th { (words::parts_of(&allocator.arenas)) } th { "resident" } th { "live" } th { "cached" } th { "trimmable" }
                            th { "stranded" } th { "threads" }
                        }
                    }
                    tbody { @for arena in arenas { (arena_row(arena)) } }
                }
            }
        }
        (bins(allocator))
    }
}

/// Renders the fill of the slabs whose size classes strand most.
fn bins(allocator: &Allocator) -> Markup {
    let bins: Vec<_> = words::worst_bins(allocator).collect();
    html! {
        @if !bins.is_empty() {
            div.wide {
                table.sortable {
                    thead {
                        tr { th { "blocks of" } th { "slabs" } th { "filled to" } th { "stranded" } th { "holes" } }
                    }
                    tbody {
                        @for bin in bins {
                            tr {
                                (size(bin.block_bytes)) (count(bin.slabs))
                                td data-value=(share(bin.used_blocks, bin.blocks)) { (percent(bin.used_blocks, bin.blocks)) }
                                (size(bin.stranded_bytes)) (size(bin.holes_bytes))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn arena_row(arena: &Arena) -> Markup {
    let names = arena.threads.iter().map(|thread| match &thread.name {
        Some(name) => name.shown(),
        None => thread.tid.to_string(),
    });
    let threads: Vec<String> = names.collect();
    html! {
        tr {
            td { code { (words::arena(arena)) } }
            (count(words::parts(arena))) (size(arena.resident_bytes)) (size(arena.live_bytes)) (size(arena.cached_bytes))
            (size(arena.trimmable_bytes)) (size(arena.stranded_bytes))
            td title=(threads.join(", ")) data-value=(arena.thread_count()) { (arena.thread_count()) }
        }
    }
}
