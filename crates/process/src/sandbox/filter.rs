//! The system calls allowed to the confined child.
//!
//! Reading files and memory, allocating memory, reading the clock, writing to open descriptors (its own pipes
//! are the only ones), exiting. Anything else fails with `EPERM`. Files are opened for reading only; only the
//! targets' memory is read; nothing becomes executable.

use super::Scope;
use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch,
};
use std::collections::BTreeMap;

/// System calls allowed with any arguments.
const ALLOWED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_readv,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    libc::SYS_get_robust_list,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Those that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] =
    &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_readlink, libc::SYS_access, libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// Stopping the target's threads, if requested by the user.
const STOPPING: &[i64] = &[libc::SYS_ptrace, libc::SYS_wait4, libc::SYS_rt_sigtimedwait];

/// Installs the filter irrevocably.
///
/// # Errors
/// The kernel lacks filters, or a container denies them.
pub(super) fn install(scope: &Scope<'_>) -> Result<(), String> {
    let program = program(scope).map_err(|error| format!("seccomp: {error}"))?;
    seccompiler::apply_filter(&program).map_err(|error| format!("seccomp: {error}"))
}

fn program(scope: &Scope<'_>) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(
        rules(scope)?,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        arch,
    )?;
    filter.try_into()
}

fn rules(scope: &Scope<'_>) -> Result<BTreeMap<i64, Vec<Rule>>, seccompiler::BackendError> {
    let stopping = if scope.may_stop { STOPPING } else { &[] };
    let plain = ALLOWED.iter().chain(ALLOWED_HERE).chain(stopping);
    let mut rules: BTreeMap<i64, Vec<Rule>> = plain.map(|&call| (call, vec![])).collect();
    // Bits of an argument that must be 0, and values that an argument must have.
    let without = |argument: u8, bits: u64| Condition::new(argument, Len::Dword, Op::MaskedEq(bits), 0);
    let equal = |argument: u8, value: u64| Condition::new(argument, Len::Dword, Op::Eq, value);
    let writing = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
    let mut conditional = vec![
        (libc::SYS_openat, without(2, writing)?),
        (libc::SYS_mmap, without(2, libc::PROT_EXEC as u64)?),
        (libc::SYS_mprotect, without(2, libc::PROT_EXEC as u64)?),
        (libc::SYS_ioctl, equal(1, crate::pages::PAGEMAP_SCAN)?),
        // abort(3)
        (libc::SYS_tgkill, equal(0, u64::from(std::process::id()))?),
        (libc::SYS_kill, equal(0, u64::from(std::process::id()))?),
    ];
    #[cfg(target_arch = "x86_64")]
    conditional.push((libc::SYS_open, without(1, writing)?));
    for target in &scope.targets {
        conditional.push((libc::SYS_process_vm_readv, equal(0, target.0 as u64)?));
    }
    for (call, condition) in conditional {
        rules.entry(call).or_default().push(Rule::new(vec![condition])?);
    }
    Ok(rules)
}
