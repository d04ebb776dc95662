//! The kernel's page size: 4 KiB on x86-64; 4, 16 or 64 KiB on aarch64.

use nix::unistd::{SysconfVar, sysconf};
use std::sync::OnceLock;

/// The smallest page of any architecture that Linux runs on.
const SMALLEST: u64 = 4096;

/// The size of a page of this machine, in bytes. A power of two.
pub fn page_size() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let asked = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|bytes| u64::try_from(bytes).ok());
        asked.filter(|bytes| bytes.is_power_of_two()).unwrap_or(SMALLEST)
    })
}
