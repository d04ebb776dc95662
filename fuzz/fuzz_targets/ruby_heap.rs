//! The walk of a Ruby heap over hostile memory: a well-formed page, then arbitrary words written by the fuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_heap::ruby::layout::{PAGE_LAYOUTS, RVALUE_BYTES};
use unbloat_heap::ruby::{HeapPages, Ruby, RubyVersion};
use unbloat_process::{Maps, Pid, SyntheticMemory};

const BODIES: u64 = 0x7f00_0000_0000;
const MALLOC: u64 = 0x7e00_0000_0000;
const VERSIONS: [(u8, u8); 8] = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (4, 0), (9, 9)];

fuzz_target!(|data: &[u8]| {
    let [shape, version, writes @ ..] = data else { return };
    let layout = PAGE_LAYOUTS[usize::from(*shape) % PAGE_LAYOUTS.len()];
    let (major, minor) = VERSIONS[usize::from(*version) % VERSIONS.len()];

    let mut memory = SyntheticMemory::default();
    memory.write(BODIES, &vec![0; 2 * layout.page_bytes as usize]);
    memory.write_word(BODIES, MALLOC);
    memory.write(MALLOC, &[0; 4096]);
    let mut field = |at: usize, value: u64, len: usize| memory.write(MALLOC + at as u64, &value.to_le_bytes()[..len]);
    layout.slot_size.into_iter().for_each(|at| field(at, RVALUE_BYTES, 2));
    layout.body.into_iter().for_each(|at| field(at, BODIES, 8));
    layout.pool.into_iter().for_each(|at| field(at, MALLOC + 512, 8));
    field(layout.total_slots, 300, 2);
    field(layout.start, BODIES + RVALUE_BYTES, 8);
    // Each write: a region, an offset, and eight bytes; small values become addresses nearby.
    for write in writes.chunks_exact(11) {
        let place = u64::from(u16::from_le_bytes([write[1], write[2]]));
        let value = u64::from_le_bytes(write[3..].try_into().unwrap_or_default());
        let value = match write[0] >> 1 & 3 {
            0 => value,
            1 => MALLOC + value % 8192,
            _ => BODIES + value % (4 * layout.page_bytes),
        };
        memory.write_word(if write[0] & 1 == 0 { BODIES } else { MALLOC } + place, value);
    }

    let line = |start: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0\n", start + (1 << 20));
    let Ok(maps) = Maps::parse(Pid(0), &[line(MALLOC), line(BODIES)].concat()) else { return };
    for layout in [Some(layout), None] {
        let Ok(pages) = HeapPages::find(&memory, &maps, layout) else { return };
        let version = Some(RubyVersion { major, minor, teeny: 0 });
        let ruby = Ruby { version, pages, data: vec![MALLOC..MALLOC + 8192] };
        let _ = ruby.other_memory(&memory, &maps);
        if let Ok(reading) = ruby.read(&memory, &maps, |_, _| {}) {
            let (heap, _) = reading.finish();
            assert!(heap.live_slots() <= heap.slots());
        }
    }
});
