//! The client side of WebSockets, made for many connections in one thread: a buffer of bytes in, frames out.
//!
//! The opening handshake is `tungstenite`'s ([`upgrade`]); frames are parsed in place ([`frame`]).

pub mod frame;
pub(crate) mod upgrade;
