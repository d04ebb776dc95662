//! A fast, well-behaved broadcast server, to measure load generators against (`bench/cable-peers`).
//!
//! usage: `cable-server [ADDRESS]` (default 127.0.0.1:0); prints `ready url=… pid=…`

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let address = address.parse().map_err(std::io::Error::other)?;
    unbloat_load_servers::cable::serve(address, |address| {
        // Fails only if stdout was closed on purpose.
        let _ = writeln!(std::io::stdout(), "ready url=ws://{address}/cable pid={}", std::process::id());
    })
}
