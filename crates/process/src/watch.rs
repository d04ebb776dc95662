//! Reads the same few files of a process repeatedly, keeping them open and using one buffer.
//!
//! An open file in `/proc/PID` belongs to that very process: after its end reads fail with ESRCH, even if the
//! PID has been reused. All paths start at a root, so that tests can use a synthetic `/proc`.

use crate::{Error, Pid, Result, Rollup, Stat};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use unbloat_untrusted::Untrusted;

/// A `/proc` file system.
#[derive(Debug, Clone)]
pub struct ProcFs {
    root: PathBuf,
}

impl Default for ProcFs {
    fn default() -> Self {
        ProcFs { root: PathBuf::from("/proc") }
    }
}

impl ProcFs {
    /// Uses a `/proc` at another path.
    #[must_use]
    pub fn at(root: &Path) -> Self {
        ProcFs { root: root.to_owned() }
    }

    /// Lists all processes.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn pids(&self) -> io::Result<Vec<Pid>> {
        let entries = std::fs::read_dir(&self.root)?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Pid)).collect())
    }

    /// Reads `stat` once, for a process that is not watched.
    ///
    /// # Errors
    /// The process is gone, or its file deviates from the documented format.
    pub fn stat(&self, pid: Pid) -> Result<Stat> {
        let what = "the state";
        let text = std::fs::read(self.path(pid, "stat")).map_err(|e| Error::from_io(pid, what, e))?;
        Stat::parse(&text).ok_or_else(|| Error::malformed(pid, "stat", &text))
    }

    /// Returns the process to which a thread or process ID belongs (`Tgid` of `status`).
    #[must_use]
    pub fn leader(&self, pid: Pid) -> Option<Pid> {
        let status = std::fs::read(self.path(pid, "status")).ok()?;
        let line = status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(b"Tgid:"))?;
        std::str::from_utf8(line.trim_ascii()).ok()?.parse().ok().map(Pid)
    }

    /// Returns the command line with the arguments joined by spaces, up to [`MAX_COMMAND_BYTES`]; `None` if there is none (a
    /// zombie, a kernel thread).
    #[must_use]
    pub fn command(&self, pid: Pid) -> Option<Untrusted> {
        let bytes = read_up_to(&self.path(pid, "cmdline"), MAX_COMMAND_BYTES).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches(['\0', ' ']).replace('\0', " ");
        (!text.is_empty()).then(|| text.into())
    }

    /// Opens the source of the last PID.
    #[must_use]
    pub fn numbers(&self) -> LastPid {
        LastPid { file: File::open(self.root.join("loadavg")).ok() }
    }

    /// Starts to watch a process. Files are opened on first use and stay open if `keep_open` (two file
    /// descriptors per process).
    #[must_use]
    pub fn watch(&self, pid: Pid, keep_open: bool) -> Watched {
        Watched { proc: self.clone(), pid, keep_open, stat: None, rollup: None }
    }

    fn path(&self, pid: Pid, file: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(file)
    }
}

/// Maximum length of a command line. A process may declare any part of its memory to be its command line
/// (`PR_SET_MM_MAP`, prctl(2)), terabytes that it maps without having them.
const MAX_COMMAND_BYTES: u64 = 16 << 10;

/// Reads the beginning of a file whose length the process decides.
pub(crate) fn read_up_to(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The number most recently assigned to a process or thread.
#[derive(Debug)]
pub struct LastPid {
    file: Option<File>,
}

impl LastPid {
    /// Returns the number, in the PID namespace of this object's creator (fifth field of `loadavg`).
    #[must_use]
    pub fn last(&self) -> Option<Pid> {
        let mut buffer = [0; 128];
        let read = self.file.as_ref()?.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(buffer.get(..read)?).ok()?;
        text.trim_end().rsplit(' ').next()?.parse().ok().map(Pid)
    }
}

/// A process whose files are kept open.
#[derive(Debug)]
pub struct Watched {
    proc: ProcFs,
    pid: Pid,
    keep_open: bool,
    stat: Option<File>,
    rollup: Option<File>,
}

impl Watched {
    /// Reads `stat`. `buffer` is scratch space that callers share between processes.
    ///
    /// # Errors
    /// The process is gone, or its file deviates from the documented format.
    pub fn stat(&mut self, buffer: &mut Vec<u8>) -> Result<Stat> {
        read(&self.proc, self.pid, "stat", &mut self.stat, buffer)?;
        if !self.keep_open {
            self.stat = None;
        }
        Stat::parse(buffer).ok_or_else(|| Error::malformed(self.pid, "stat", buffer))
    }

    /// Reads `smaps_rollup`; `None` for a process without memory. The kernel walks the process's pages for
    /// this, with its mmap lock held for reading.
    ///
    /// # Errors
    /// The process is gone, or access to it is denied.
    pub fn rollup(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Rollup>> {
        let read = read(&self.proc, self.pid, "smaps_rollup", &mut self.rollup, buffer);
        if matches!(read, Err(Error::Gone { .. })) {
            // An open file belongs to the address space, which execve has meanwhile replaced: reopen it,
            // once.
            self.rollup = None;
            match self::read(&self.proc, self.pid, "smaps_rollup", &mut self.rollup, buffer) {
                // A process that is ending has no memory but still exists.
                Err(Error::Gone { .. }) if self.proc.path(self.pid, "stat").exists() => return Ok(None),
                result => result?,
            }
        } else {
            read?;
        }
        if !self.keep_open {
            self.rollup = None;
        }
        Ok(Rollup::parse(buffer))
    }
}

/// Fills `buffer` with a whole file, opening it on first use.
fn read(
    proc: &ProcFs,
    pid: Pid,
    name: &'static str,
    file: &mut Option<File>,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let io = |e| Error::from_io(pid, name, e);
    let opened = match file.take() {
        Some(open) => open,
        None => File::open(proc.path(pid, name)).map_err(io)?,
    };
    fill(&opened, buffer).map_err(io)?;
    *file = Some(opened);
    Ok(())
}

fn fill(file: &File, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(buffer.capacity().max(2048), 0);
    let mut length = 0;
    while let Some(unfilled) = buffer.get_mut(length..) {
        match file.read_at(unfilled, length as u64) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        // These files arrive in one piece; a second read just to see the end would double the cost.
        if buffer.get(length - 1) == Some(&b'\n') && length < buffer.len() {
            break;
        }
        if length == buffer.len() {
            buffer.resize(length * 2, 0);
        }
    }
    buffer.truncate(length);
    Ok(())
}

/// Raises the soft limit of open files to the hard one, so that a large tree can be watched; returns the limit.
pub fn allow_many_files() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return 256 };
    let limit = if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft };
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// Returns clock ticks per second (`USER_HZ`), the unit of CPU time in `stat`.
#[must_use]
pub fn ticks_per_second() -> f64 {
    use nix::unistd::{SysconfVar, sysconf};
    sysconf(SysconfVar::CLK_TCK).ok().flatten().map_or(100.0, |ticks| ticks as f64)
}

/// Returns the wall-clock time at which the machine was booted, in seconds since 1970: the origin of
/// [`Stat::start_ticks`].
#[must_use]
pub fn booted_unix_s() -> f64 {
    use nix::time::{ClockId, clock_gettime};
    let seconds = |clock| clock_gettime(clock).map_or(0.0, |t| t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9);
    seconds(ClockId::CLOCK_REALTIME) - seconds(ClockId::CLOCK_BOOTTIME)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::process::Command;

    #[test]
    fn this_process_can_be_watched() {
        let proc = ProcFs::default();
        let mut watched = proc.watch(Pid::this(), true);
        let mut buffer = Vec::new();
        let block = vec![1u8; 32 << 20];
        for _ in 0..3 {
            let stat = watched.stat(&mut buffer).unwrap();
            assert_eq!(stat.pid, Pid::this());
            assert!(stat.rss_bytes > 16 << 20);
            let rollup = watched.rollup(&mut buffer).unwrap().unwrap();
            assert!(rollup.uss_bytes > 32 << 20 && rollup.pss_bytes <= rollup.rss_bytes);
        }
        assert_eq!(block.len(), 32 << 20);
        assert!(proc.command(Pid::this()).unwrap().raw().contains("process"));
        assert_eq!(proc.leader(Pid::this()), Some(Pid::this()));
        assert!(proc.numbers().last().is_some() && proc.pids().unwrap().contains(&Pid::this()));
    }

    #[test]
    fn a_process_is_followed_through_exec_and_to_its_end() {
        let mut child = Command::new("sh")
            .args(["-c", "read _; exec sleep 60"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid(child.id() as i32);
        let mut watched = ProcFs::default().watch(pid, true);
        let mut buffer = Vec::new();
        assert!(watched.rollup(&mut buffer).unwrap().is_some());
        drop(child.stdin.take());
        while watched.stat(&mut buffer).unwrap().name != "sleep" {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(watched.rollup(&mut buffer).unwrap().is_some(), "its new address space is read");
        child.kill().unwrap();
        while !watched.stat(&mut buffer).unwrap().is_dead() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(watched.rollup(&mut buffer).unwrap(), None, "a zombie has no memory");
        child.wait().unwrap();
        assert!(matches!(watched.stat(&mut buffer), Err(Error::Gone { .. })));
    }

    #[test]
    fn a_made_up_proc_is_read_the_same_way() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("7");
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("stat"), "7 (x) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 2 0 9 0 10\n")
            .unwrap();
        std::fs::write(directory.join("cmdline"), "puma: worker\0\0\0").unwrap();
        let proc = ProcFs::at(root.path());
        assert_eq!(proc.stat(Pid(7)).unwrap().rss_bytes, 10 * crate::page_size());
        assert_eq!(proc.command(Pid(7)), Some("puma: worker".into()));
        assert_eq!(proc.pids().unwrap(), [Pid(7)]);
        assert!(matches!(proc.watch(Pid(8), false).stat(&mut Vec::new()), Err(Error::Gone { .. })));
        std::fs::write(directory.join("stat"), "7 (x) S 1").unwrap();
        assert!(matches!(proc.stat(Pid(7)), Err(Error::Malformed { .. })));
    }
}
