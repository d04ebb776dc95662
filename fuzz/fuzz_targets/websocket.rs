//! The frames that a WebSocket server sends, which may be anybody's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_load::ws::frame;

fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some(frame)) = frame::read(rest) {
        assert!((2..=rest.len()).contains(&frame.size) && frame.payload.len() < frame.size);
        // However it is cut, it is not complete before its end.
        assert_eq!(frame::read(&rest[..frame.size - 1]), Ok(None));
        rest = &rest[frame.size..];
    }
});
