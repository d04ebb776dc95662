//! The text of `/proc/PID/maps`, with arbitrary file names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_process::{Maps, Pid};

fuzz_target!(|data: &[u8]| {
    if let Ok(maps) = Maps::parse(Pid(1), &String::from_utf8_lossy(data)) {
        assert!(maps.iter().all(|mapping| mapping.start <= mapping.end));
    }
});
