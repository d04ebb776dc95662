//! The walk of a glibc heap over hostile memory: arenas, heaps, fastbins, chunks, the top.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_heap::allocators::glibc::survey::{Context, Survey};
use unbloat_heap::allocators::glibc::{Glibc, Layout};
use unbloat_process::{Maps, Pid, SyntheticMemory};

const HEAP: u64 = 0x5500_0000_0000;
const HEAP_BYTES: u64 = 256 << 10;
const LIBC: u64 = 0x7f00_0000_0000;
const OTHER: u64 = 0x7e00_0000_0000;

fuzz_target!(|data: &[u8]| {
    let [layout, writes @ ..] = data else { return };
    let layout = Layout::ALL[usize::from(*layout) % Layout::ALL.len()];
    let mut memory = SyntheticMemory::default();
    memory.write(HEAP, &vec![0; HEAP_BYTES as usize]);
    memory.write(LIBC, &[0; 8192]);
    memory.write(OTHER, &[0; 32 << 10]);
    // A main arena with live 48-byte chunks and a top, alone in its ring.
    let top = HEAP + 48 * 1000;
    (0..1000).for_each(|i| memory.write_word(HEAP + 48 * i + 8, 0x31));
    memory.write_word(top + 8, (HEAP + HEAP_BYTES - top) | 1);
    memory.write_word(LIBC + layout.top(), top);
    memory.write_word(LIBC + layout.next(), LIBC);
    memory.write_word(LIBC + layout.system_mem(), HEAP_BYTES);
    // Each write: a region, an offset, and eight bytes; small values become addresses nearby.
    for write in writes.chunks_exact(11) {
        let place = u64::from(u16::from_le_bytes([write[1], write[2]]));
        let value = u64::from_le_bytes(write[3..].try_into().unwrap_or_default());
        let value = match write[0] >> 2 & 3 {
            0 => value,
            1 => LIBC + value % 8192,
            2 => OTHER + value % (32 << 10),
            _ => HEAP + value % HEAP_BYTES,
        };
        let base = [HEAP, HEAP + 48 * 900, LIBC, OTHER][usize::from(write[0] & 3)];
        memory.write_word(base + place % 8192, value);
    }
    let text = format!(
        "{HEAP:x}-{:x} rw-p 00000000 00:00 0 [heap]\n{OTHER:x}-{:x} rw-p 00000000 00:00 0\n{LIBC:x}-{:x} rw-p 00000000 00:00 0\n",
        HEAP + HEAP_BYTES,
        OTHER + (32 << 10),
        LIBC + 8192
    );
    let Ok(maps) = Maps::parse(Pid(0), &text) else { return };
    let glibc = Glibc { main_arena: LIBC, layout, parameters: None, version: None, linked_statically: false };
    let context = Context { stop: None, maps: &maps, threads: &[], claims: &[] };
    let _ = Survey::take(&glibc, &memory, context, &mut ());
});
