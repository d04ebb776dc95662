//! The heap map's data: regions as JSON, pages as runs in base64.
//!
//! A run is ten bytes: the number of consecutive equal pages (two bytes, little endian), their residency, and
//! their contents, in units of 16 bytes, in the order of [`PageUse::ALL`] (a full page, 256 units, is written
//! as 255). Most heaps have long runs of equal pages, so 2 GiB seldom take more than a few hundred KiB, and
//! never more than 7 MiB.

use crate::page::{self, Part};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use maud::{Markup, html};
use serde::Serialize;
use unbloat_heap::Iec;
use unbloat_heap::model::{Allocator, Arena, HeapMap, Owner, PageFill, PageUse, ProcessReport, Region};
use unbloat_process::page_size;

/// Style and script of a page with a map.
pub(super) const PART: Part = Part {
    style: include_str!("../../../assets/heap_map.css"),
    script: include_str!("../../../assets/heap_map.js"),
};

/// Unit of the counts per page in bytes: glibc's alignment, so that nothing is lost.
const UNIT: u32 = 16;

/// Data of the script in addition to the pages.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Contents {
    page_bytes: u64,
    unit_bytes: u32,
    /// Uses of a page, in the order of its bytes.
    uses: Vec<Use>,
    groups: Vec<Group>,
}

#[derive(Serialize)]
struct Use {
    /// Its color in the palette.
    key: &'static str,
    label: &'static str,
}

impl Use {
    fn of(page_use: PageUse) -> Self {
        let (key, label) = match page_use {
            PageUse::Live => ("live", "live"),
            PageUse::Cached => ("cached", "cached"),
            PageUse::Trimmable => ("trimmable", "trimmable"),
            PageUse::Stranded => ("stranded", "stranded"),
            PageUse::Top => ("top", "top (unused end)"),
            PageUse::RubyLive => ("ruby-live", "Ruby objects"),
            PageUse::RubyFree => ("ruby-free", "Ruby free slots"),
        };
        Use { key, label }
    }
}

/// Regions with a common caption.
#[derive(Serialize)]
struct Group {
    name: String,
    note: String,
    /// First address (as text, because JavaScript's numbers end at 2^53) and number of pages of each region.
    regions: Vec<(String, usize)>,
}

/// Renders the map of one process.
pub(super) fn element(process: &ProcessReport, map: &HeapMap) -> Markup {
    let mut regions: Vec<&Region> = map.regions.iter().filter(|region| !region.pages.is_empty()).collect();
    if regions.is_empty() {
        return html! {};
    }
    regions.sort_by_key(|region| (rank(process.allocator.as_ref(), region.owner), region.start));
    let groups =
        regions.chunk_by(|a, b| a.owner == b.owner).map(|regions| describe(process, regions)).collect();
    let uses = PageUse::ALL.into_iter().map(Use::of).collect();
    let contents = Contents { page_bytes: page_size(), unit_bytes: UNIT, uses, groups };
    let pages = pack(regions.iter().flat_map(|region| region.pages.iter().copied()));
    html! {
        div.map {
            h3 { "Heap map" }
            p.quiet {
                "Every page (4 KiB) of every arena and of the Ruby heap, in order of address. Zoom in, and a cell shows its \
                 contents to scale."
            }
            div.tools {
                label { "Go to " select.goto {} }
                span.zoom-tools {
                    button.out type="button" aria-label="zoom out" { "−" }
                    output.scale {}
                    button.in type="button" aria-label="zoom in" { "+" }
                }
            }
            (keys())
            div.view tabindex="0" aria-label="heap map" { div.spacer {} canvas {} }
            div.slices {}
            noscript { "The map needs JavaScript; everything else on this page does not." }
            (page::data("groups", &contents))
            script.pages type="application/octet-stream" { (pages) }
        }
    }
}

/// Renders the legend of the map.
fn keys() -> Markup {
    let flat = [("trimmable", "trimmable"), ("cached", "cached"), ("top", "top"), ("absent", "not resident")];
    html! {
        ul.legend.keys {
            li { i.ramp.malloc {} "malloc: nearly empty → full of live chunks" }
            li { i.ramp.ruby {} "Ruby: free slots → full of objects" }
            @for (class, label) in flat { li { i class=(class) {} (label) } }
        }
    }
}

/// Returns the sort key: the Ruby heap first, then the main arena, the others by size, mapped chunks last.
fn rank(allocator: Option<&Allocator>, owner: Owner) -> (u8, u64, u64) {
    match owner {
        Owner::Ruby { slot_bytes } => (0, slot_bytes, 0),
        Owner::Arena(address) => {
            let arena = arena(allocator, address);
            let main = arena.is_some_and(|arena| arena.main);
            (if main { 1 } else { 2 }, u64::MAX - arena.map_or(0, |arena| arena.resident_bytes), address)
        }
        Owner::MmappedChunk => (3, 0, 0),
    }
}

/// Returns the caption of regions with one owner.
fn describe(process: &ProcessReport, regions: &[&Region]) -> Group {
    let pages = || regions.iter().flat_map(|region| region.pages.iter());
    let resident = Iec(pages().filter(|page| page.resident).count() as u64 * page_size());
    let bytes = |page_use| Iec(pages().map(|page| u64::from(page.bytes(page_use))).sum::<u64>());
    let malloc = || {
        let [live, trimmable, stranded] = [PageUse::Live, PageUse::Trimmable, PageUse::Stranded].map(bytes);
        format!("{resident} resident · {live} live · {trimmable} trimmable · {stranded} stranded")
    };
    let (name, note) = match regions.first().map(|region| region.owner) {
        Some(Owner::Arena(address)) => {
            let arena = arena(process.allocator.as_ref(), address);
            let name = match arena {
                Some(arena) if arena.main => "Main arena".to_owned(),
                Some(Arena { extents: Some(extents), .. }) => format!("Arena {}", extents.index),
                Some(_) | None => format!("Arena {address:x}"),
            };
            (name, malloc() + &threads(arena))
        }
        Some(Owner::MmappedChunk) => ("Chunks with mappings of their own".to_owned(), malloc()),
        Some(Owner::Ruby { slot_bytes }) => {
            let name = match slot_bytes {
                0 => "Ruby heap, pages without a pool".to_owned(),
                bytes => format!("Ruby heap, slots of {bytes} B"),
            };
            let size = process
                .ruby
                .as_ref()
                .map_or(String::new(), |ruby| format!("pages of {} · ", Iec(ruby.page_bytes)));
            let [live, free] = [PageUse::RubyLive, PageUse::RubyFree].map(bytes);
            (name, format!("{size}{resident} resident · {live} live · {free} free"))
        }
        None => (String::new(), String::new()),
    };
    let regions = regions.iter().map(|region| (format!("{:x}", region.start), region.pages.len())).collect();
    Group { name, note, regions }
}

fn arena(allocator: Option<&Allocator>, address: u64) -> Option<&Arena> {
    allocator?.arenas.iter().find(|arena| arena.address == address)
}

fn threads(arena: Option<&Arena>) -> String {
    match arena.map_or(0, Arena::thread_count) {
        0 => String::new(),
        1 => " · 1 thread".to_owned(),
        several => format!(" · {several} threads"),
    }
}

fn pack(pages: impl Iterator<Item = PageFill>) -> String {
    let mut bytes = Vec::new();
    let mut run: Option<(PageFill, u16)> = None;
    for page in pages {
        run = match run {
            Some((last, count)) if last == page && count < u16::MAX => Some((last, count + 1)),
            ended => {
                push_run(&mut bytes, ended);
                Some((page, 1))
            }
        };
    }
    push_run(&mut bytes, run);
    BASE64.encode(&bytes)
}

fn push_run(bytes: &mut Vec<u8>, run: Option<(PageFill, u16)>) {
    let Some((page, count)) = run else { return };
    bytes.extend(count.to_le_bytes());
    bytes.push(u8::from(page.resident));
    bytes.extend(page.all().iter().map(|&used| u8::try_from(used / UNIT).unwrap_or(u8::MAX)));
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;

    #[test]
    fn equal_pages_are_one_run() {
        let region = fixture::region();
        let [live, mixed, trimmable, absent] = region.pages[..] else { panic!("four pages") };
        let packed = pack([live, live, mixed, trimmable, absent].into_iter());
        let expected = [
            [2, 0, 1, 255, 0, 0, 0, 0, 0, 0],
            [1, 0, 1, 64, 0, 0, 191, 0, 0, 0],
            [1, 0, 1, 0, 0, 255, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(BASE64.decode(packed), Ok(expected.as_flattened().to_vec()));
    }
}
