//! The walk of a jemalloc heap over hostile memory: blocks, tree, extents, bases, arenas, thread caches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_heap::allocators::jemalloc::blocks::Blocks;
use unbloat_heap::allocators::jemalloc::layout::{BASES, RTREES};
use unbloat_heap::allocators::jemalloc::locate::ImageData;
use unbloat_heap::allocators::jemalloc::reader::Reader;
use unbloat_heap::allocators::jemalloc::{Context, Search, Survey};
use unbloat_process::{Maps, Pid, SyntheticMemory};

const DATA: u64 = 0x5600_0000_0000;
const DATA_BYTES: u64 = 4 << 20;
const ROOT: u64 = DATA + (1 << 20);
const META: u64 = 0x7f00_0000_0000;
const META_BYTES: u64 = 8 << 20;
const LEAF: u64 = META + (2 << 20);
const DESCRIPTIONS: u64 = META + (6 << 20);
const ARENA: u64 = META + 0x4000;
const CACHE: u64 = OTHER + 0x800;
const HEAP: u64 = 0x7f80_0000_0000;
const OTHER: u64 = 0x7e00_0000_0000;

/// A jemalloc with an arena, a thread cache and forty slabs of 64 bytes.
fn jemalloc() -> SyntheticMemory {
    let mut memory = SyntheticMemory::default();
    memory.write(OTHER, &[0; 32 << 10]);
    let words = [
        (META, META_BYTES),
        (META + 24, META + META_BYTES - 4096),
        (META + 32, 4096),
        (META + 192 + BASES[0].blocks, META),
        (META + 192 + BASES[0].mapped, META_BYTES),
        (DATA + 64, ARENA),
        (ARENA + 0x2000, META + 192),
        (ARENA + 10392, CACHE),
        (CACHE, CACHE),
        (CACHE + 8, CACHE),
        (CACHE + 32, CACHE + 0x208),
        (CACHE + 40, ARENA),
        (CACHE + 160, OTHER + 0x4000),
        (CACHE + 168, CACHE + 0x200),
        (CACHE + 0x200, CACHE),
        (CACHE + 0x208 + 24 * 4, OTHER + 0x4000),
        (CACHE + 0x208 + 24 * 4 + 16, 0x4040 << 32 | 0x3f00 << 16),
        (ROOT + 8 * (HEAP >> 30), LEAF),
    ];
    words.into_iter().for_each(|(at, word)| memory.write_word(at, word));
    (0..8).for_each(|i| memory.write_word(OTHER + 0x4000 + 8 * i, HEAP + 64 * i));
    for i in 0..40 {
        let description = DESCRIPTIONS + 128 * i;
        memory.write_word(description, 1 << 12 | 4 << 20 | 8 << 28);
        memory.write_word(description + 8, HEAP + 4096 * i);
        memory.write_word(description + 16, 4096);
        memory.write_word(description + 64, 0xff00);
        memory.write_word(LEAF + 8 * (HEAP / 4096 % (1 << 18) + i), 4 << 48 | description | 1);
        memory.write_word(HEAP + 4096 * i, 1);
    }
    memory
}

fuzz_target!(|data: &[u8]| {
    let mut memory = jemalloc();
    // Each write: a region, an offset, and eight bytes; small values become addresses nearby.
    for write in data.chunks_exact(11) {
        let place = u64::from(u16::from_le_bytes([write[1], write[2]]));
        let value = u64::from_le_bytes(write[3..].try_into().unwrap_or_default());
        let value = match write[0] >> 4 & 3 {
            0 => value,
            1 => META + value % META_BYTES,
            2 => OTHER + value % (32 << 10),
            _ => HEAP + value % (1 << 20),
        };
        let bases = [DATA, ROOT + 8 * (HEAP >> 30), META, LEAF, DESCRIPTIONS, ARENA, CACHE, OTHER + 0x4000];
        memory.write_word(bases[usize::from(write[0] & 7)] + place % 16384, value);
    }
    let line = |start: u64, bytes: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0\n", start + bytes);
    let text = [line(DATA, DATA_BYTES), line(OTHER, 32 << 10), line(META, META_BYTES), line(HEAP, 1 << 20)].concat();
    let Ok(maps) = Maps::parse(Pid(0), &text) else { return };
    let reader = Reader::new(&memory);
    let Ok(blocks) = Blocks::find(&reader, &maps) else { return };
    let image = ImageData { path: "made up".into(), writable: vec![DATA..DATA + DATA_BYTES] };
    let Ok(search) = Search::within(vec![image], blocks, &reader) else { return };
    for jemalloc in &search.jemallocs {
        assert!(RTREES.contains(jemalloc.rtree));
        let context = Context { maps: &maps, threads: &[], claims: &[] };
        let Ok(survey) = Survey::take(jemalloc, &search.blocks, &memory, context) else { continue };
        survey.tell(&mut ());
        let _ = survey.block_at(HEAP + 100);
    }
});
