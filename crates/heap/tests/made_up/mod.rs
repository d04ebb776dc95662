//! A process made of the bytes that a fuzzer or a test chooses: a whole one first, with arenas, a Ruby heap and a jemalloc,
//! then words written anywhere into their structures.

#![allow(clippy::single_range_in_vec_init)] // lists of ranges, of which there is one

use std::cell::Cell;
use std::ops::Range;
use unbloat_heap::allocators::glibc::{Glibc, Layout};
use unbloat_heap::allocators::jemalloc::locate::ImageData;
use unbloat_heap::inspect::made_up::MadeUp;
use unbloat_heap::ruby::layout::{PAGE_LAYOUTS, RVALUE_BYTES};
use unbloat_heap::ruby::{HeapPages, Ruby, RubyVersion};
use unbloat_process::{Maps, Memory, Pid, Residency, Result, SyntheticMemory, page_size, resident_bytes};

const BREAK: u64 = 0x5500_0000_0000;
const BREAK_BYTES: u64 = 128 << 10;
const DATA: u64 = 0x5600_0000_0000;
const MALLOC: u64 = 0x7d00_0000_0000;
const ARENA: u64 = 0x7e00_0000_0000;
const BODIES: u64 = 0x7e80_0000_0000;
const META: u64 = 0x7f00_0000_0000;
const SPARSE: u64 = 0x1000_0000_0000;
const LIBC: u64 = 0x7ff0_0000_0000;
const HEAP_INFO: u64 = 0x30;
/// Addresses at which words are written.
const PLACES: [u64; 8] = [BREAK, LIBC, ARENA, ARENA + (64 << 20), BODIES, MALLOC, META, DATA];
const VERSIONS: [(u8, u8); 8] = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 0), (9, 9)];

/// Reads of a look that is done with what is resident, at least, and for each resident page.
const READS: u64 = 200_000;
const READS_A_PAGE: u64 = 200;
/// The same in bytes.
const BYTES: u64 = 256 << 20;
const BYTES_A_PAGE: u64 = 64 * 4096;

/// Memory that counts what is asked of it.
struct Counted<'a> {
    inner: &'a SyntheticMemory,
    reads: Cell<u64>,
    bytes: Cell<u64>,
    most: (u64, u64),
}

impl Counted<'_> {
    fn count(&self, bytes: u64) {
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        assert!(self.reads.get() <= self.most.0, "{} reads and more", self.reads.get());
        assert!(self.bytes.get() <= self.most.1, "{} bytes and more", self.bytes.get());
    }
}

impl Memory for Counted<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        self.count(buffer.len() as u64);
        self.inner.read(address, buffer)
    }

    fn residency(&self, start: u64, len: u64) -> Result<Residency> {
        // One byte a page.
        self.count(len / page_size());
        self.inner.residency(start, len)
    }

    fn populated(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let parts = self.inner.populated(range);
        self.count(16 * parts.len() as u64);
        parts
    }
}

/// Makes a process of bytes and looks at it whole.
///
/// # Panics
/// The look took more than what is resident allows, or its parts are not the resident bytes.
pub(crate) fn look(bytes: &[u8]) {
    let [shape, version, writes @ ..] = bytes else { return };
    let mut memory = SyntheticMemory::default();
    let layout = Layout::ALL[usize::from(*shape) % Layout::ALL.len()];
    glibc_heap(&mut memory, layout);
    let page = PAGE_LAYOUTS[usize::from(*shape >> 1) % PAGE_LAYOUTS.len()];
    ruby_page(&mut memory, &page);
    jemalloc_block(&mut memory);
    (0..4).for_each(|i| memory.write_word(SPARSE + (i << 40), 1));
    for write in writes.chunks_exact(12) {
        apply(&mut memory, write);
    }
    let Some(maps) = mappings() else { return };
    let whole = |range: Range<u64>| resident_bytes(&memory, &range).unwrap_or(0);
    let resident: u64 = maps.iter().map(|mapping| whole(mapping.range())).sum();
    let pages = resident / page_size();
    let most = (READS + READS_A_PAGE * pages, BYTES + BYTES_A_PAGE * pages);
    let counted = Counted { inner: &memory, reads: Cell::new(0), bytes: Cell::new(0), most };
    let (major, minor) = VERSIONS[usize::from(*version) % VERSIONS.len()];
    let version = Some(RubyVersion { major, minor, teeny: 0 });
    let Ok(pages) = HeapPages::find(&counted, &maps, Some(page)) else { return };
    let process = MadeUp {
        memory: &counted,
        maps: &maps,
        ruby: Some(Ruby { version, pages, data: vec![MALLOC..MALLOC + 8192] }),
        glibc: Some(Glibc {
            main_arena: LIBC,
            layout,
            parameters: None,
            version: None,
            linked_statically: false,
        }),
        images: vec![ImageData { path: "made up".into(), writable: vec![DATA..DATA + (4 << 20)] }],
        mapped_chunks: u64::from(*shape),
    };
    if let Ok((census, map)) = process.look() {
        assert_eq!(census.total(), resident, "every byte once");
        assert!(map.pages() as u64 <= resident / page_size());
    }
}

/// A main arena of live chunks of 48 bytes with a top, and another in its ring that has two heaps.
fn glibc_heap(memory: &mut SyntheticMemory, layout: Layout) {
    memory.write(BREAK, &vec![0; BREAK_BYTES as usize]);
    memory.write(LIBC, &[0; 8192]);
    let top = BREAK + 48 * 1000;
    (0..1000).for_each(|i| memory.write_word(BREAK + 48 * i + 8, 0x31));
    memory.write_word(top + 8, (BREAK + BREAK_BYTES - top) | 1);
    memory.write_word(LIBC + layout.top(), top);
    memory.write_word(LIBC + layout.next(), ARENA + HEAP_INFO);
    memory.write_word(LIBC + layout.system_mem(), BREAK_BYTES);
    let (first, second) = (ARENA, ARENA + (64 << 20));
    for (heap, before) in [(first, 0), (second, first)] {
        memory.write(heap, &[0; 16384]);
        let words = [ARENA + HEAP_INFO, before, 16384, 16384];
        (0..).zip(words).for_each(|(i, word)| memory.write_word(heap + 8 * i, word));
    }
    let top = second + 8192;
    memory.write_word(ARENA + HEAP_INFO + layout.top(), top);
    memory.write_word(ARENA + HEAP_INFO + layout.next(), LIBC);
    memory.write_word(ARENA + HEAP_INFO + layout.system_mem(), 32768);
    let chunk = first + (HEAP_INFO + layout.arena_bytes()).next_multiple_of(16);
    memory.write_word(chunk + 8, (first + 16384 - 32 - chunk) | 1);
    memory.write_word(first + 16384 - 24, 0x11);
    memory.write_word(first + 16384 - 8, 0x11);
    memory.write_word(second + HEAP_INFO + 8, (8192 - HEAP_INFO) | 1);
    memory.write_word(top + 8, (16384 - 8192) | 1);
}

fn ruby_page(memory: &mut SyntheticMemory, layout: &unbloat_heap::ruby::layout::PageLayout) {
    memory.write(BODIES, &vec![0; layout.page_bytes as usize]);
    memory.write_word(BODIES, MALLOC);
    memory.write(MALLOC, &[0; 8192]);
    let mut field =
        |at: usize, value: u64, len: usize| memory.write(MALLOC + at as u64, &value.to_le_bytes()[..len]);
    layout.slot_size.into_iter().for_each(|at| field(at, RVALUE_BYTES, 2));
    layout.body.into_iter().for_each(|at| field(at, BODIES, 8));
    layout.pool.into_iter().for_each(|at| field(at, MALLOC + 512, 8));
    field(layout.total_slots, 300, 2);
    field(layout.start, BODIES + RVALUE_BYTES, 8);
}

/// A block of metadata, and a word of a library's data that leads to it.
fn jemalloc_block(memory: &mut SyntheticMemory) {
    memory.write(META, &[0; 8192]);
    let words = [(META, 2 << 20), (META + 24, META + 4096), (META + 32, (2 << 20) - 4096), (DATA + 64, META)];
    words.into_iter().for_each(|(at, word)| memory.write_word(at, word));
}

/// Writes a word, of which small values are taken as addresses nearby or as claims of size.
fn apply(memory: &mut SyntheticMemory, write: &[u8]) {
    let value = u64::from_le_bytes(write[4..].try_into().unwrap_or_default());
    let place = u64::from(u16::from_le_bytes([write[2], write[3]]));
    let base = PLACES[usize::from(write[0] & 7)];
    let value = match write[1] & 7 {
        0 => value,
        1 => value % (64 << 20),
        2 => (value % 512) << 21,
        n => PLACES[usize::from(n) % PLACES.len()] + value % 16384,
    };
    // Aligned, for most of what is read is.
    let place = if write[1] & 8 == 0 { place % 16384 / 8 * 8 } else { place % 16384 };
    memory.write_word(base + place, value);
}

fn mappings() -> Option<Maps> {
    let line = |start: u64, bytes: u64, name: &str| {
        format!("{start:x}-{:x} rw-p 00000000 00:00 0 {name}\n", start + bytes)
    };
    let text = [
        line(SPARSE, 8 << 40, ""),
        line(BREAK, BREAK_BYTES, "[heap]"),
        line(DATA, 4 << 20, ""),
        line(MALLOC, 1 << 20, ""),
        line(ARENA, 128 << 20, ""),
        line(BODIES, 1 << 20, ""),
        line(META, 8 << 20, ""),
        line(LIBC, 64 << 10, ""),
    ];
    Maps::parse(Pid(0), &text.concat()).ok()
}
