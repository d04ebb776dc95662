//! The servers that the load drivers are tested and measured against. For development only; nothing that ships uses them.
//!
//! [`cable`] is a WebSocket server that speaks the protocols of `unbloat bench cable`. Well-behaved it is fast enough to
//! measure the generator against (the binary `cable-server`); with a [`cable::Mischief`] it drops, doubles, delays,
//! mangles and dies, and keeps exact count of it. [`http`] is a web server with pages that are slow, wrong or behind a login.
//! [`tls`] puts TLS in front of either.
//!
//! | module | server |
//! |---|---|
//! | [`cable`] | WebSockets, well-behaved or not |
//! | [`http`] | pages that are slow, wrong or behind a login |
//! | [`tls`] | TLS in front of either |

pub mod cable;
pub mod http;
pub mod tls;
