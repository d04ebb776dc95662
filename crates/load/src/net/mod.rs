//! Reaching a server: its address ([`target`]), a non-blocking stream to it, plain or TLS ([`stream`], [`tls`]), and how many
//! of them this process may have open ([`limit`]).

pub(crate) mod limit;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod tls;
