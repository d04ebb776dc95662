//! The limit of open files, the first limit that thousands of connections hit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files needed in addition to the connections: standard streams, epoll, timers, the recording, the
/// resolver's sockets.
const BESIDES: u64 = 32;

/// The limit is too low for a run.
#[derive(Debug, thiserror::Error)]
#[error(
    "{connections} connections need {needed} open files, but this process may have at most {hard}. Raise \
     the hard limit (ulimit -Hn {needed} as root, LimitNOFILE= in a systemd unit, --ulimit nofile={needed} \
     for docker), or ask for fewer clients"
)]
pub struct FileLimit {
    connections: u64,
    needed: u64,
    hard: u64,
}

/// Raises this process's soft limit of open files as far as `connections` more require.
///
/// # Errors
/// The hard limit does not allow as many.
pub(crate) fn allow(connections: u64) -> Result<(), FileLimit> {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |fds| fds.count() as u64);
    let needed = connections + open + BESIDES;
    // Both calls fail only for invalid arguments; a limit that cannot be read is left alone.
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return Ok(()) };
    if needed > hard {
        return Err(FileLimit { connections, needed, hard });
    }
    if needed > soft {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, needed, hard);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_message_names_the_number_needed() {
        let text = allow(1 << 40).unwrap_err().to_string();
        assert!(text.contains("1099511627776 connections need"), "{text}");
        assert!(text.contains("ulimit -Hn"), "{text}");
    }

    #[test]
    fn a_few_connections_are_always_allowed() {
        allow(1).unwrap();
    }
}
