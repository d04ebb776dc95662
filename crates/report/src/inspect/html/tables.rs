//! The tables of the page.

use super::super::words::{self, Group};
use crate::markup::escape;
use crate::segment::Segment;
use crate::style::{percent, thousands};
use std::fmt::{self, Write as _};
use unbloat_heap::Iec;
use unbloat_heap::model::{Allocator, Category, ProcessReport, RubyHeap};

/// Every resident byte in one category.
pub(super) fn census(out: &mut String, process: &ProcessReport) -> fmt::Result {
    out.push_str("<div><h3>Where every byte is</h3><table><tbody>");
    let rss = process.rss_bytes;
    for group in Group::ALL {
        let mut rows: Vec<_> =
            process.census.iter().filter(|&(category, _)| Group::of(category) == group).collect();
        if rows.is_empty() {
            continue;
        }
        // The types of Ruby objects first, the largest at the top; the rest in the census's own order.
        rows.sort_by_key(|&(category, bytes)| match category {
            Category::RubyLive(_) => (false, u64::MAX - bytes),
            _ => (true, 0),
        });
        let sum: u64 = rows.iter().map(|(_, bytes)| bytes).sum();
        write!(
            out,
            "<tr class=\"group\"><th>{}</th><td>{}</td><td>{}</td></tr>",
            group.label(),
            Iec(sum),
            percent(sum, rss)
        )?;
        for (category, bytes) in rows {
            write!(
                out,
                "<tr><td><i class=\"{}\"></i>{}</td><td>{}</td><td>{}</td></tr>",
                Segment::of(category).key(),
                words::label(category),
                Iec(bytes),
                percent(bytes, rss)
            )?;
        }
    }
    let missing = process.unattributed_bytes();
    if missing != 0 {
        let what = if missing > 0 { "not attributed" } else { "counted twice" };
        write!(out, "<tr><td>{what}</td><td>{}</td><td></td></tr>", Iec(missing.unsigned_abs()))?;
    }
    write!(out, "<tr class=\"group\"><th>resident</th><td>{}</td><td>100 %</td></tr>", Iec(rss))?;
    out.push_str("</tbody></table></div>\n");
    Ok(())
}

/// The Ruby heap by slot size, and the memory its objects own.
pub(super) fn ruby(out: &mut String, ruby: &RubyHeap) -> fmt::Result {
    write!(
        out,
        "<div><h3>Ruby heap</h3><p class=\"quiet\">Ruby {} · {} pages of {} · {} slots · {}</p>\
         <table><thead><tr><th>slot</th><th>pages</th><th>live</th><th>free</th><th>live</th></tr>\
         </thead><tbody>",
        escape(&ruby.version),
        thousands(ruby.pages()),
        Iec(ruby.page_bytes),
        thousands(ruby.slots()),
        words::compactable(ruby),
    )?;
    for pool in &ruby.pools {
        write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            Iec(pool.slot_bytes),
            thousands(pool.pages),
            thousands(pool.live_slots),
            thousands(pool.free_slots()),
            percent(pool.live_slots, pool.slots)
        )?;
    }
    out.push_str("</tbody></table>");
    if let Some(owned) = &ruby.malloc_owned {
        let mut owned = owned.clone();
        owned.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
        out.push_str("<table><thead><tr><th>malloc memory owned by</th><th>bytes</th></tr></thead><tbody>");
        for (ruby_type, bytes) in owned.iter().take(10) {
            write!(out, "<tr><td>{}</td><td>{}</td></tr>", ruby_type.name(), Iec(*bytes))?;
        }
        out.push_str("</tbody></table>");
    }
    out.push_str("</div>\n");
    Ok(())
}

/// What serves malloc, with a row an arena.
pub(super) fn allocator(out: &mut String, allocator: &Allocator) -> fmt::Result {
    let version = allocator.version.as_deref().unwrap_or("");
    let settings = allocator.settings.as_ref().and_then(words::settings);
    write!(
        out,
        "<h3>Allocator</h3><p class=\"quiet\">{} {} · {}{}</p>",
        allocator.kind.name(),
        escape(version),
        escape(&allocator.evidence),
        settings.map_or(String::new(), |settings| format!(" · {settings}"))
    )?;
    if allocator.arenas.is_empty() {
        return Ok(());
    }
    out.push_str(
        "<div class=\"wide\"><table><thead><tr><th>arena</th><th>heaps</th><th>resident</th><th>live</th>\
         <th>cached</th><th>trimmable</th><th>stranded</th><th>threads</th></tr></thead><tbody>",
    );
    let mut arenas: Vec<_> = allocator.arenas.iter().collect();
    arenas.sort_by_key(|arena| (!arena.main, std::cmp::Reverse(arena.resident_bytes)));
    for arena in arenas {
        let threads: Vec<_> = arena
            .threads
            .iter()
            .map(|thread| escape(thread.name.as_deref().unwrap_or(&thread.tid.to_string())))
            .collect();
        write!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td title=\"{}\">{}</td></tr>",
            if arena.main { "main".to_owned() } else { format!("{:x}", arena.address) },
            arena.heaps,
            Iec(arena.resident_bytes),
            Iec(arena.live_bytes),
            Iec(arena.cached_bytes),
            Iec(arena.trimmable_bytes),
            Iec(arena.stranded_bytes),
            threads.join(", "),
            threads.len()
        )?;
    }
    out.push_str("</tbody></table></div>\n");
    Ok(())
}
