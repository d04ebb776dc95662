//! Network access to a server: its address ([`target`]), a non-blocking stream to it, plain or TLS
//! ([`stream`], [`tls`]), and the number that this process may open ([`limit`]).

pub(crate) mod limit;
pub(crate) mod stream;
pub(crate) mod target;
pub(crate) mod tls;
