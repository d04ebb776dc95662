//! `/proc/PID/stat`: a process's resource usage, from the cheapest source in the kernel.
//!
//! Format: `Documentation/filesystems/proc.rst` (table 1-4) and proc_pid_stat(5). Parsed by hand, because a
//! recorder reads this file hundreds of times per second.

use crate::Pid;

/// One reading of `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The process.
    pub pid: Pid,
    /// The kernel's short name (at most 15 bytes).
    pub name: String,
    /// `R`, `S`, `D`, `T`, `Z`, …
    pub state: u8,
    /// The parent; 0 for one in another PID namespace.
    pub parent: Pid,
    /// The session ID.
    pub session: i32,
    /// Flags of the kernel's task (`PF_*`, include/linux/sched.h).
    pub flags: u64,
    /// Page faults without I/O, of the process itself.
    pub minor_faults: u64,
    /// Page faults without I/O of awaited children and their descendants.
    pub children_minor_faults: u64,
    /// Page faults that needed I/O.
    pub major_faults: u64,
    /// CPU in user mode, in clock ticks.
    pub user_ticks: u64,
    /// CPU in the kernel, in clock ticks.
    pub system_ticks: u64,
    /// `user_ticks` of awaited children and their descendants.
    pub children_user_ticks: u64,
    /// `system_ticks` of awaited children and their descendants.
    pub children_system_ticks: u64,
    /// Number of threads; for a zombie 1, or 0 once it is being reaped.
    pub threads: u64,
    /// Start time, in clock ticks since boot.
    pub start_ticks: u64,
    /// Resident bytes.
    pub rss_bytes: u64,
}

impl Stat {
    /// Parses the contents of the file; `None` if they deviate from the documented format.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let open = text.iter().position(|&b| b == b'(')?;
        // The name may contain anything, even a closing parenthesis; the last one ends it.
        let close = text.iter().rposition(|&b| b == b')')?;
        let pid = number(text.get(..open)?)?;
        let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
        let rest = text.get(close + 2..)?;
        let &state = rest.first()?;
        // Fields 4 to 24; the rest is not needed.
        let mut fields = [0i64; 21];
        let mut values = rest.get(2..)?.split(|&b| b == b' ');
        for field in &mut fields {
            *field = number(values.next()?)?;
        }
        let field = |n: usize| fields.get(n - 4).copied().unwrap_or(0);
        let count = |n: usize| u64::try_from(field(n)).unwrap_or(0);
        Some(Stat {
            pid: Pid(i32::try_from(pid).ok()?),
            name,
            state,
            parent: Pid(i32::try_from(field(4)).ok()?),
            session: i32::try_from(field(6)).ok()?,
            flags: count(9),
            minor_faults: count(10),
            children_minor_faults: count(11),
            major_faults: count(12),
            user_ticks: count(14),
            system_ticks: count(15),
            children_user_ticks: count(16),
            children_system_ticks: count(17),
            threads: count(20),
            start_ticks: count(22),
            rss_bytes: count(24).saturating_mul(crate::page_size()),
        })
    }

    /// Returns whether it has ended and only waits for its parent. A process whose first thread has ended
    /// while others continue shows that thread's state.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }
}

/// Parses a decimal number, possibly surrounded by blanks. A number that does not fit is `None`; that
/// includes values of 2^63 and more (field 25 of an unlimited process), which no caller reads.
pub(crate) fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const LINE: &[u8] =
        b"4711 (ruby) a) (b) S 1 4711 4700 0 -1 4194560 5000 70000 3 9 120 40 800 90 20 0 12 0 \
        987654 300000000 51200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n";

    #[test]
    fn every_field_is_found_behind_an_awkward_name() {
        let stat = Stat::parse(LINE).unwrap();
        let expected = Stat {
            pid: Pid(4711),
            name: "ruby) a) (b".into(),
            state: b'S',
            parent: Pid(1),
            session: 4700,
            flags: 4_194_560,
            minor_faults: 5000,
            children_minor_faults: 70000,
            major_faults: 3,
            user_ticks: 120,
            system_ticks: 40,
            children_user_ticks: 800,
            children_system_ticks: 90,
            threads: 12,
            start_ticks: 987_654,
            rss_bytes: 51200 * crate::page_size(),
        };
        assert_eq!(stat, expected);
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(text in proptest::collection::vec(any::<u8>(), 0..300), cut in 0..LINE.len()) {
            let _ = (Stat::parse(&text), Stat::parse(&LINE[..cut]));
        }
    }
}
