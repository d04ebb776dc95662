//! The closer look at a Ruby over hostile memory: well-formed pages, then whatever words the fuzzer writes anywhere. Objects by class
//! count every live slot once, and neither they nor code by file nor holders panic or go on
//! for ever.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_heap::ruby::layout::RVALUE_BYTES;
use unbloat_heap::ruby::versions::VERSIONS;
use unbloat_heap::ruby::{HeapPages, Ruby, RubyVersion};
use unbloat_heap::{code::code_of, holds::holds_of, objects::objects_of};
use unbloat_process::{Maps, Pid, SyntheticMemory};

const BODIES: u64 = 0x7f00_0000_0000;
const MALLOC: u64 = 0x7e00_0000_0000;
/// The memory that the fuzzer writes: behind the heads of the pages.
const DATA: u64 = MALLOC + 4096;

fuzz_target!(|data: &[u8]| {
    let [version, writes @ ..] = data else { return };
    let facts = &VERSIONS[usize::from(*version) % VERSIONS.len()];
    let layout = facts.pages;

    let mut memory = SyntheticMemory::default();
    memory.write(BODIES, &vec![0; layout.page_bytes as usize]);
    memory.write_word(BODIES, MALLOC);
    memory.write(MALLOC, &[0; 1 << 16]);
    let mut field = |at: usize, value: u64, len: usize| memory.write(MALLOC + at as u64, &value.to_le_bytes()[..len]);
    layout.slot_size.into_iter().for_each(|at| field(at, 160, 2));
    layout.body.into_iter().for_each(|at| field(at, BODIES, 8));
    layout.pool.into_iter().for_each(|at| field(at, MALLOC + 512, 8));
    field(layout.total_slots, 90, 2);
    field(layout.start, BODIES + RVALUE_BYTES, 8);
    // Each write: where, a place, and eight bytes, of which small values are taken as addresses nearby.
    for write in writes.chunks_exact(11) {
        let place = u64::from(u16::from_le_bytes([write[1], write[2]])) / 8 * 8;
        let value = u64::from_le_bytes(write[3..].try_into().unwrap_or_default());
        let value = match write[0] >> 1 & 3 {
            0 => value,
            1 => DATA + value % (48 << 10) / 8 * 8,
            _ => BODIES + RVALUE_BYTES + value % 100 * if layout.slot_size.is_some() { 160 } else { 40 },
        };
        memory.write_word(if write[0] & 1 == 0 { BODIES + RVALUE_BYTES } else { DATA } + place, value);
    }

    let line = |start: u64| format!("{start:x}-{:x} rw-p 00000000 00:00 0\n", start + (1 << 20));
    let Ok(maps) = Maps::parse(Pid(0), &[line(MALLOC), line(BODIES)].concat()) else { return };
    let version = Some(RubyVersion { major: facts.major, minor: facts.minor, teeny: 0 });
    let ruby = || {
        let pages = HeapPages::find(&memory, &maps, Some(layout)).ok()?;
        Some(Ruby { version, pages, data: vec![DATA..DATA + (48 << 10)] })
    };
    let (Some(ruby), Some(again), Some(once_more)) = (ruby(), ruby(), ruby()) else { return };
    if let Ok(reading) = ruby.read(&memory, &maps, |_, _| {}) {
        let (heap, _) = reading.finish();
        if let Ok(Some(found)) = objects_of(&memory, &maps, ruby) {
            assert_eq!(found.total().objects, heap.live_slots());
        }
    }
    let _ = code_of(&memory, &maps, again);
    let blocks: Vec<_> = (0..64).map(|i| DATA + 512 * i).map(|at| at..at + 504).collect();
    let _ = holds_of(&memory, &maps, once_more, &blocks);
});
