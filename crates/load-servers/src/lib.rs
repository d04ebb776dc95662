//! Servers to test and measure the load drivers against. For development only; nothing that ships uses them.
//!
//! [`cable`] is a WebSocket server that speaks the protocols of `unbloat bench cable`. When well-behaved it
//! is fast enough to measure the generator (the binary `cable-server`); with a [`cable::Mischief`] it drops,
//! doubles, delays, mangles and dies, and keeps an exact record. [`http`] is a web server with pages that are
//! slow, wrong or behind a login. [`tls`] puts TLS in front of either.
//!
//! | module | server |
//! |---|---|
//! | [`cable`] | WebSockets, well-behaved or not |
//! | [`http`] | pages that are slow, wrong or behind a login |
//! | [`tls`] | TLS in front of either |

pub mod cable;
pub mod http;
pub mod tls;
