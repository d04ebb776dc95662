//! The heap map's data: regions as JSON, pages as runs in base64.
//!
//! A run is ten bytes: how many equal pages follow each other (two bytes, little endian), whether they are resident,
//! and what fills them, in units of 16 bytes, in the order of [`PageUse::ALL`] (a full page, 256 units, is written as
//! 255). Most heaps have long runs of equal pages, so 2 GiB seldom take more than a few hundred KiB, and never more
//! than 7 MiB.

use crate::markup::escape;
use serde::Serialize;
use std::fmt::{self, Write as _};
use unbloat_heap::Iec;
use unbloat_heap::model::{Allocator, HeapMap, Owner, PageFill, PageUse, ProcessReport, Region};
use unbloat_process::PAGE_SIZE;

/// What a use is counted in, in bytes: glibc's alignment, so nothing is lost.
const UNIT: u16 = 16;

/// Regions that one caption stands above.
#[derive(Serialize)]
struct Group {
    name: String,
    note: String,
    ruby: bool,
    /// First address, as text because JavaScript's numbers end at 2^53, and number of pages, of each region.
    regions: Vec<(String, usize)>,
}

/// The map of one process.
pub(super) fn element(out: &mut String, process: &ProcessReport, map: &HeapMap) -> fmt::Result {
    let mut regions: Vec<&Region> = map.regions.iter().filter(|region| !region.pages.is_empty()).collect();
    if regions.is_empty() {
        return Ok(());
    }
    regions.sort_by_key(|region| (rank(process.allocator.as_ref(), region.owner), region.start));
    let groups: Vec<_> = regions
        .chunk_by(|a, b| a.owner == b.owner)
        .map(|group| {
            describe(process.allocator.as_ref(), process.ruby.as_ref().map(|ruby| ruby.page_bytes), group)
        })
        .collect();
    let json = serde_json::to_string(&groups).unwrap_or_default();
    let pages = pack(regions.iter().flat_map(|region| region.pages.iter().copied()));
    writeln!(
        out,
        "<div class=\"map\" data-groups=\"{}\"><h3>Heap map</h3>\
         <p class=\"quiet\">Every page (4 KiB) of every arena and of the Ruby heap, in order of address. Zoom in and a \
         cell shows its contents to scale.</p>\
         <div class=\"tools\"><label>Go to <select class=\"goto\"></select></label>\
         <span class=\"zoom\"><button type=\"button\" class=\"out\" aria-label=\"zoom out\">−</button>\
         <output class=\"scale\"></output>\
         <button type=\"button\" class=\"in\" aria-label=\"zoom in\">+</button></span></div>\
         <ul class=\"legend keys\"><li><i class=\"ramp malloc\"></i>malloc: nearly empty → full of live chunks</li>\
         <li><i class=\"ramp ruby\"></i>Ruby: free slots → full of objects</li>\
         <li><i class=\"trimmable\"></i>trimmable</li><li><i class=\"cached\"></i>cached</li>\
         <li><i class=\"top\"></i>top</li><li><i class=\"absent\"></i>not resident</li></ul>\
         <div class=\"view\" tabindex=\"0\" aria-label=\"heap map\"><div class=\"spacer\"></div><canvas></canvas></div>\
         <noscript>The map needs JavaScript; everything else on this page does not.</noscript>\
         <script type=\"application/octet-stream\" class=\"pages\">{pages}</script></div>",
        escape(&json)
    )
}

/// The Ruby heap first, then the main arena, the others by size, mapped chunks last.
fn rank(allocator: Option<&Allocator>, owner: Owner) -> (u8, u64, u64) {
    match owner {
        Owner::Ruby { slot_bytes } => (0, slot_bytes, 0),
        Owner::Arena(address) => {
            let arena = allocator.and_then(|a| a.arenas.iter().find(|arena| arena.address == address));
            let main = arena.is_some_and(|arena| arena.main);
            (if main { 1 } else { 2 }, u64::MAX - arena.map_or(0, |arena| arena.resident_bytes), address)
        }
        Owner::MmappedChunk => (3, 0, 0),
    }
}

fn describe(allocator: Option<&Allocator>, ruby_page: Option<u64>, regions: &[&Region]) -> Group {
    let name = match regions.first().map(|region| region.owner) {
        Some(Owner::Arena(address)) => {
            match allocator.and_then(|a| a.arenas.iter().find(|arena| arena.address == address)) {
                Some(arena) if arena.main => "Main arena".to_owned(),
                _ => format!("Arena {address:x}"),
            }
        }
        Some(Owner::MmappedChunk) => "Chunks with mappings of their own".to_owned(),
        Some(Owner::Ruby { slot_bytes: 0 }) => "Ruby heap, pages without a pool".to_owned(),
        Some(Owner::Ruby { slot_bytes }) => format!("Ruby heap, slots of {slot_bytes} B"),
        None => String::new(),
    };
    let ruby = matches!(regions.first().map(|region| region.owner), Some(Owner::Ruby { .. }));
    let pages = || regions.iter().flat_map(|region| region.pages.iter());
    let resident = pages().filter(|page| page.resident).count() as u64 * PAGE_SIZE;
    let bytes = |page_use| pages().map(|page| u64::from(page.bytes(page_use))).sum::<u64>();
    let note = if ruby {
        let per_page = ruby_page.map_or(String::new(), |bytes| format!("pages of {} · ", Iec(bytes)));
        let live = Iec(bytes(PageUse::RubyLive));
        let free = Iec(bytes(PageUse::RubyFree));
        format!("{per_page}{} resident · {live} live · {free} free", Iec(resident))
    } else {
        let live = Iec(bytes(PageUse::Live));
        let trimmable = Iec(bytes(PageUse::Trimmable));
        let stranded = Iec(bytes(PageUse::Stranded));
        let threads = threads(allocator, regions.first().map(|region| region.owner));
        let resident = Iec(resident);
        format!("{resident} resident · {live} live · {trimmable} trimmable · {stranded} stranded{threads}")
    };
    let regions = regions.iter().map(|region| (format!("{:x}", region.start), region.pages.len())).collect();
    Group { name, note, ruby, regions }
}

fn threads(allocator: Option<&Allocator>, owner: Option<Owner>) -> String {
    let Some(Owner::Arena(address)) = owner else { return String::new() };
    let arena = allocator.and_then(|a| a.arenas.iter().find(|arena| arena.address == address));
    match arena.map_or(0, |arena| arena.threads.len()) {
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
    base64(&bytes)
}

fn push_run(bytes: &mut Vec<u8>, run: Option<(PageFill, u16)>) {
    let Some((page, count)) = run else { return };
    bytes.extend(count.to_le_bytes());
    bytes.push(u8::from(page.resident));
    bytes.extend(page.all().iter().map(|&used| u8::try_from(used / UNIT).unwrap_or(u8::MAX)));
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let padded = [chunk[0], chunk.get(1).copied().unwrap_or(0), chunk.get(2).copied().unwrap_or(0)];
        let word = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        for digit in 0..4 {
            let used = digit <= chunk.len();
            let value = (word >> (18 - 6 * digit) & 63) as usize;
            text.push(if used { char::from(DIGITS[value]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        for (plain, encoded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

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
        assert_eq!(packed, base64(expected.as_flattened()));
    }
}
