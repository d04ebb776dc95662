//! Fault classes of a connection, for reports and scripts (docs/guide/bench.md lists them).

use crate::ws::upgrade::Refusal;
use std::borrow::Cow;
use std::io;

/// Classifies a refused upgrade.
pub(super) fn of_refusal(refusal: &Refusal) -> Cow<'static, str> {
    match refusal {
        Refusal::Status(status) => format!("upgrade_status_{status}").into(),
        Refusal::Invalid(_) => "upgrade_invalid".into(),
    }
}

/// Classifies an error while connecting.
pub(super) fn of_connecting(error: &io::Error) -> &'static str {
    match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::ConnectionRefused, _) => "connect_refused",
        (io::ErrorKind::TimedOut, _) => "connect_timeout",
        (io::ErrorKind::AddrNotAvailable, _) => "no_free_port",
        (_, Some(nix::libc::EMFILE | nix::libc::ENFILE)) => "too_many_files",
        (io::ErrorKind::ConnectionReset, _) => "reset",
        _ => "connect_failed",
    }
}

/// Classifies an error on an established connection.
pub(super) fn of_breaking(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset",
        io::ErrorKind::InvalidData => "tls",
        io::ErrorKind::WriteZero => "server_not_reading",
        io::ErrorKind::UnexpectedEof => "closed",
        io::ErrorKind::TimedOut => "timeout",
        _ => "io",
    }
}
