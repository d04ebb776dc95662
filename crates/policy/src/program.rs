//! The program behind a command, and the limits it imposes on a policy.
//!
//! Scripts are followed to their interpreters (including `#!/usr/bin/env ruby`), up to the program that the
//! kernel will load. The result is a hint for the user, never a reason not to start.

use crate::note::Note;
use crate::own_jemalloc;
use std::fmt;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use unbloat_process::elf::Elf;

/// Maximum number of `#!` lines followed; the kernel stops at about as many.
const MAX_INTERPRETERS: usize = 5;

/// Search path for commands without `PATH`, as in execvp(3) (`confstr(_CS_PATH)` of glibc).
pub const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Bytes of a file that the kernel reads for its `#!` line (`BINPRM_BUF_SIZE`).
const SHEBANG_BYTES: u64 = 256;

/// The program behind a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The file that the kernel finally loads: the command itself or its interpreter.
    pub path: PathBuf,
    /// Its properties that limit a policy.
    pub limits: Vec<Limit>,
}

/// A property of a program that limits a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It gains privileges through its mode, so the dynamic linker ignores `LD_PRELOAD` for it.
    SetUid,
    /// It gains privileges through its file capabilities (`setcap`), with the same effect.
    Capabilities,
    /// It has no dynamic linker that could preload anything.
    Static,
    /// It runs on musl, for which the libraries are not built.
    Musl,
    /// It, or its libruby, is linked with its own jemalloc.
    OwnJemalloc,
}

/// The consequence of privileges: the kernel sets `AT_SECURE` (ld.so(8), "Secure-execution mode").
const WITHOUT_ENVIRONMENT: &str = "so the dynamic linker ignores LD_PRELOAD and glibc MALLOC_ARENA_MAX: no allocator is \
     preloaded, and arenas=N has no effect";

impl Limit {
    /// Returns whether our libraries can still be preloaded.
    #[must_use]
    pub fn allows_preload(self) -> bool {
        self == Limit::OwnJemalloc
    }

    /// Writes the limit as a sentence about a program.
    pub(crate) fn describe(self, program: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = program.display();
        match self {
            Limit::SetUid => write!(f, "{program} is setuid or setgid, {WITHOUT_ENVIRONMENT}"),
            Limit::Capabilities => write!(f, "{program} has file capabilities, {WITHOUT_ENVIRONMENT}"),
            Limit::Static => {
                write!(f, "{program} is statically linked: no allocator can be preloaded into it")
            }
            Limit::Musl => {
                write!(f, "{program} runs on musl and our libraries need glibc: nothing is loaded into it")
            }
            Limit::OwnJemalloc => write!(
                f,
                "{program} is linked with a jemalloc of its own; an allocator of the policy takes its place"
            ),
        }
    }
}

/// Finds the file of a command as a shell would: by its path, or along `PATH`.
///
/// An existing file that is not executable is returned as well, because starting it gives the right error.
#[must_use]
pub fn find(command: &str, path: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Path::new(command).exists().then(|| PathBuf::from(command));
    }
    let directories = path.split(':').map(|directory| if directory.is_empty() { "." } else { directory });
    let files: Vec<PathBuf> = directories
        .map(|directory| Path::new(directory).join(command))
        .filter(|file| file.is_file())
        .collect();
    files.iter().find(|file| is_executable(file)).or(files.first()).cloned()
}

impl Program {
    /// Examines the program behind a command. Anything unreadable is assumed to be ordinary.
    #[must_use]
    pub fn examine(command: &Path, path: &str) -> Self {
        let program = interpreter_of(command, path);
        let mut limits = Vec::new();
        if fs::metadata(&program).is_ok_and(|meta| meta.mode() & 0o6000 != 0) {
            limits.push(Limit::SetUid);
        }
        // They have no effect for root (`cap_bprm_creds_from_file`, security/commoncap.c of Linux).
        if !nix::unistd::getuid().is_root() && has_capabilities(&program) {
            limits.push(Limit::Capabilities);
        }
        if let Ok(bytes) = fs::read(&program) {
            limits.extend(elf_limit(&program, &bytes));
        }
        Self { path: program, limits }
    }

    /// Returns the limits as notes.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        self.limits.iter().map(|&limit| Note::Limited { program: self.path.clone(), limit })
    }

    /// Returns whether our libraries can be preloaded into it.
    #[must_use]
    pub fn allows_preload(&self) -> bool {
        self.limits.iter().all(|limit| limit.allows_preload())
    }

    /// Returns whether our libraries can be loaded into it at all, even as a Ruby extension.
    #[must_use]
    pub fn allows_loading(&self) -> bool {
        !self.limits.contains(&Limit::Musl)
    }
}

/// Follows `#!` lines to the program that is finally loaded.
fn interpreter_of(command: &Path, path: &str) -> PathBuf {
    let mut program = command.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        let Some(next) = shebang(&program).and_then(|line| resolve_shebang(&line, path)) else { break };
        program = next;
    }
    program
}

fn shebang(file: &Path) -> Option<String> {
    let mut head = Vec::new();
    fs::File::open(file).ok()?.take(SHEBANG_BYTES).read_to_end(&mut head).ok()?;
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    Some(String::from_utf8_lossy(line).trim().to_owned())
}

/// Returns the interpreter of a `#!` line; with `env`, the command that it will look for.
fn resolve_shebang(line: &str, path: &str) -> Option<PathBuf> {
    let mut words = line.split_whitespace();
    let interpreter = words.next()?;
    if !interpreter.ends_with("/env") {
        return Some(PathBuf::from(interpreter));
    }
    let command = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    find(command, path)
}

/// The attribute that holds a file's capabilities (capabilities(7)).
const CAPABILITIES: &str = "security.capability";

/// Maximum size of the attribute: `struct vfs_ns_cap_data` has 24 bytes.
const CAPABILITIES_BYTES: usize = 64;

fn has_capabilities(program: &Path) -> bool {
    rustix::fs::getxattr(program, CAPABILITIES, &mut [0_u8; CAPABILITIES_BYTES]).is_ok_and(|bytes| bytes > 0)
}

fn elf_limit(program: &Path, bytes: &[u8]) -> Option<Limit> {
    let elf = Elf::parse(bytes).ok()?;
    match &elf.interpreter {
        None => Some(Limit::Static),
        Some(linker) if linker.contains("ld-musl") => Some(Limit::Musl),
        Some(_) => own_jemalloc::is_in(program, &elf, bytes).then_some(Limit::OwnJemalloc),
    }
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|meta| meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::print_stderr)]
    use super::*;

    fn write(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn scripts_are_followed_to_the_program() {
        let directory = tempfile::tempdir().unwrap();
        let inner = write(
            directory.path(),
            "inner",
            "#!/bin/sh
",
            0o755,
        );
        let outer = write(
            directory.path(),
            "outer",
            "#!/usr/bin/env -S inner --flag
",
            0o755,
        );
        let program = Program::examine(&outer, directory.path().to_str().unwrap());
        assert_eq!(program.path, Path::new("/bin/sh"), "by way of {}", inner.display());
        assert!(program.limits.is_empty(), "{:?}", program.limits);
    }

    #[test]
    fn a_command_is_found_along_the_path_and_executable_ones_first() {
        let one = tempfile::tempdir().unwrap();
        let two = tempfile::tempdir().unwrap();
        write(one.path(), "tool", "", 0o644);
        let executable = write(two.path(), "tool", "", 0o755);
        let path = format!("{}:{}", one.path().display(), two.path().display());
        assert_eq!(find("tool", &path), Some(executable));
        assert_eq!(find("tool", one.path().to_str().unwrap()), Some(one.path().join("tool")));
        assert_eq!(find("no-such-tool", &path), None);
    }

    #[test]
    fn setuid_and_hostile_files_are_examined_without_harm() {
        let directory = tempfile::tempdir().unwrap();
        let setuid = write(directory.path(), "setuid", "\x7fELF", 0o4755);
        assert_eq!(Program::examine(&setuid, "").limits, [Limit::SetUid]);
        let loop_ =
            write(directory.path(), "loop", &format!("#!{}/loop\n", directory.path().display()), 0o755);
        assert!(Program::examine(&loop_, "").allows_preload());
    }

    #[test]
    fn capabilities_of_a_file_are_seen() {
        let directory = tempfile::tempdir().unwrap();
        let program = write(directory.path(), "program", "", 0o755);
        assert!(!has_capabilities(&program));
        // cap_net_bind_service, permitted and effective: `struct vfs_cap_data` of version 2, little-endian.
        let bind_service = [0x0200_0001_u32, 1 << 10, 0, 0, 0].map(u32::to_le_bytes).concat();
        let given =
            rustix::fs::setxattr(&program, CAPABILITIES, &bind_service, rustix::fs::XattrFlags::empty());
        if let Err(error) = given {
            eprintln!("left out: capabilities cannot be given to a file here: {error}");
            return;
        }
        assert!(has_capabilities(&program));
    }
}
