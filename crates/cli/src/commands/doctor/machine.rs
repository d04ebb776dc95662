//! Checks of the kernel's settings.

use super::Verdict::{Advice, Fine, Problem, Unknown};
use super::{Check, Verdict, text_of};

pub(super) const CHECKS: [Check<()>; 4] = [
    Check { code: "kernel", examine: kernel },
    Check { code: "huge-pages", examine: huge_pages },
    Check { code: "swap", examine: swap },
    Check { code: "yama", examine: yama },
];

/// `smaps_rollup`, by which PSS is read, came with Linux 4.14, `PAGEMAP_SCAN` with 6.7.
fn kernel((): &()) -> Verdict {
    let Some(release) = text_of("/proc/sys/kernel/osrelease") else {
        return Unknown("the kernel's release cannot be read".to_owned());
    };
    let mut numbers = release.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (0, _) => Unknown(format!("Linux {release} has a release of an unknown form")),
        old if old < (4, 14) => Problem(
            format!("Linux {release} does not report proportional memory (PSS)"),
            "upgrade to Linux 4.14 or later".to_owned(),
        ),
        old if old < (6, 7) => {
            Fine(format!("Linux {release}; looks at large processes cost less from 6.7 on"))
        }
        _ => Fine(format!("Linux {release}")),
    }
}

/// The word in brackets is in force (`Documentation/admin-guide/mm/transhuge.rst`).
fn huge_pages((): &()) -> Verdict {
    const FILE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let Some(words) = text_of(FILE) else { return Fine("not built into this kernel".to_owned()) };
    let word = words.split(['[', ']']).nth(1).unwrap_or_default();
    match word {
        "always" => Advice(
            "always: a forked worker un-shares 2 MiB where it writes one byte".to_owned(),
            format!("echo madvise > {FILE}"),
        ),
        "" => Unknown(format!("{FILE} says {words}")),
        _ => Fine(word.to_owned()),
    }
}

fn swap((): &()) -> Verdict {
    let Some(swaps) = text_of("/proc/swaps") else { return Unknown("/proc/swaps cannot be read".to_owned()) };
    match swaps.lines().skip(1).count() {
        0 => Fine("none: when memory runs out, the kernel kills processes".to_owned()),
        areas => Fine(format!("{areas} areas; resident sizes exclude swapped memory")),
    }
}

/// `Documentation/admin-guide/LSM/Yama.rst`.
fn yama((): &()) -> Verdict {
    const FILE: &str = "/proc/sys/kernel/yama/ptrace_scope";
    match text_of(FILE).as_deref() {
        None => Fine("not built into this kernel".to_owned()),
        Some("0") => Fine("0: processes of the same user can be read".to_owned()),
        Some(scope @ ("1" | "2")) if super::container::has_ptrace() == Some(true) => {
            Fine(format!("{scope}, and CAP_SYS_PTRACE is present"))
        }
        Some(scope @ ("1" | "2")) => Problem(
            format!("{scope}: the memory of a process can only be read with CAP_SYS_PTRACE"),
            "sudo unbloat inspect PID".to_owned(),
        ),
        Some(scope) => Problem(
            format!("{scope}: nobody can look into a process until the next boot"),
            format!("remove kernel.yama.ptrace_scope from /etc/sysctl.d, boot, and look at {FILE}"),
        ),
    }
}
