//! The client's side of a WebSocket, made for many connections in one thread: a buffer of bytes in, frames out.
//!
//! The opening handshake is `tungstenite`'s ([`upgrade`]); frames are taken apart where they lie ([`frame`]).

pub mod frame;
pub(crate) mod upgrade;
