//! The frames of a WebSocket server, which may be hostile.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_load::ws::frame;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some(frame)) = frame::read(rest) {
        assert!((2..=rest.len()).contains(&frame.size) && frame.payload.len() < frame.size);
        // A truncated frame is never complete.
        assert_eq!(frame::read(&rest[..frame.size - 1]), Ok(None));
        rest = &rest[frame.size..];
    }
});
