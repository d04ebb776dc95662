//! WebSocket frames (RFC 6455, section 5.2), read in place and written masked.
//!
//! Reading allocates and copies nothing: the payload is a slice of the caller's buffer.

/// Maximum accepted payload. A server that announces more is broken or hostile.
pub const LONGEST_PAYLOAD: u64 = 16 << 20;
/// Maximum payload of a control frame (RFC 6455, section 5.5).
const LONGEST_CONTROL: u64 = 125;

/// The type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    /// A further part of a message.
    Continuation,
    /// A text, or its first part.
    Text,
    /// Bytes, or their first part.
    Binary,
    /// The end of the connection, with a reason.
    Close,
    /// A request for a pong.
    Ping,
    /// The reply to a ping.
    Pong,
}

/// One frame from a server.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its type.
    pub opcode: Opcode,
    /// This is the last frame of its message.
    pub last: bool,
    /// Its payload.
    pub payload: &'a [u8],
    /// Size of the frame, including its header.
    pub size: usize,
}

/// A violation of the protocol by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// Bits reserved for extensions, although none was agreed on.
    #[error("a frame with reserved bits set")]
    ReservedBits,
    /// An opcode that does not exist.
    #[error("a frame with the unknown opcode {0}")]
    Opcode(u8),
    /// A mask, which only the client may use.
    #[error("a masked frame, which only a client may send")]
    Masked,
    /// A control frame that is fragmented or too long.
    #[error("a control frame that is fragmented or longer than 125 bytes")]
    Control,
    /// A payload longer than [`LONGEST_PAYLOAD`].
    #[error("a frame of {0} bytes, more than the 16 MiB that are accepted")]
    TooLong(u64),
}

/// Reads the first frame of `bytes`; `None` if it is incomplete.
///
/// # Errors
/// The bytes are not a frame that a server may send.
pub fn read(bytes: &[u8]) -> Result<Option<Frame<'_>>, Broken> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(Broken::ReservedBits);
    }
    let last = first & 0x80 != 0;
    let opcode = opcode(first & 0x0f)?;
    if second & 0x80 != 0 {
        return Err(Broken::Masked);
    }
    let (length, header) = match (second & 0x7f, rest) {
        (126, [a, b, ..]) => (u64::from(u16::from_be_bytes([*a, *b])), 4),
        (127, [a, b, c, d, e, f, g, h, ..]) => (u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]), 10),
        (126 | 127, _) => return Ok(None),
        (short, _) => (u64::from(short), 2),
    };
    let control = matches!(opcode, Opcode::Close | Opcode::Ping | Opcode::Pong);
    if control && (!last || length > LONGEST_CONTROL) {
        return Err(Broken::Control);
    }
    if length > LONGEST_PAYLOAD {
        return Err(Broken::TooLong(length));
    }
    let size = header + length as usize;
    Ok(bytes.get(header..size).map(|payload| Frame { opcode, last, payload, size }))
}

fn opcode(nibble: u8) -> Result<Opcode, Broken> {
    Ok(match nibble {
        0 => Opcode::Continuation,
        1 => Opcode::Text,
        2 => Opcode::Binary,
        8 => Opcode::Close,
        9 => Opcode::Ping,
        10 => Opcode::Pong,
        other => return Err(Broken::Opcode(other)),
    })
}

/// Appends one whole, masked frame to `out`.
pub(crate) fn write(out: &mut Vec<u8>, opcode: Opcode, payload: &[u8], mask: [u8; 4]) {
    let number = match opcode {
        Opcode::Continuation => 0,
        Opcode::Text => 1,
        Opcode::Binary => 2,
        Opcode::Close => 8,
        Opcode::Ping => 9,
        Opcode::Pong => 10,
    };
    out.push(0x80 | number);
    match payload.len() {
        short @ ..=125 => out.push(0x80 | short as u8),
        medium @ ..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Builds a frame as a server sends it: like `write`, but unmasked.
    fn from_server(opcode: Opcode, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, opcode, payload, [0; 4]);
        bytes[1] &= 0x7f;
        let header = bytes.len() - payload.len();
        bytes.drain(header - 4..header);
        bytes
    }

    #[test]
    fn what_a_server_may_not_send_is_named() {
        assert_eq!(read(&[0xc1, 0]), Err(Broken::ReservedBits));
        assert_eq!(read(&[0x83, 0]), Err(Broken::Opcode(3)));
        assert_eq!(read(&[0x81, 0x80]), Err(Broken::Masked));
        assert_eq!(read(&[0x09, 0]), Err(Broken::Control));
        assert_eq!(read(&[0x89, 126, 0, 200]), Err(Broken::Control));
        assert_eq!(read(&[0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0]), Err(Broken::TooLong(0xff << 56)));
    }

    proptest! {
        #[test]
        fn a_written_frame_is_read_back(payload in proptest::collection::vec(any::<u8>(), 0..70_000)) {
            let mut bytes = from_server(Opcode::Text, &payload);
            let whole = bytes.len();
            bytes.extend_from_slice(b"more");
            let frame = read(&bytes).unwrap().unwrap();
            prop_assert_eq!((frame.opcode, frame.last, frame.size), (Opcode::Text, true, whole));
            prop_assert_eq!(frame.payload, &payload[..]);
        }

        #[test]
        fn a_frame_that_is_cut_anywhere_is_incomplete_and_not_an_error(length in 0usize..300, cut in 0usize..300) {
            let bytes = from_server(Opcode::Binary, &vec![7; length]);
            let cut = cut.min(bytes.len() - 1);
            prop_assert_eq!(read(&bytes[..cut]), Ok(None));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(Some(frame)) = read(&bytes) {
                prop_assert!(frame.size <= bytes.len());
            }
        }

        #[test]
        fn masking_twice_gives_the_payload_back(payload in proptest::collection::vec(any::<u8>(), 0..200), mask: [u8; 4]) {
            let mut bytes = Vec::new();
            write(&mut bytes, Opcode::Text, &payload, mask);
            let body = &bytes[bytes.len() - payload.len()..];
            let plain: Vec<u8> = body.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
            prop_assert_eq!(plain, payload);
        }
    }
}
