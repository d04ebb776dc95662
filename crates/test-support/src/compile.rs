//! Builds small C programs for a test.

use crate::{TargetDirectory, target_command};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A C compiler and its way of linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    /// `cc`, against the system's libc.
    System,
    /// `cc -static`.
    Static,
    /// `cc -static-pie`.
    StaticPie,
    /// `musl-gcc`.
    Musl,
    /// `cc -m32` without a libc, since few systems have a 32-bit one.
    Bits32,
}

impl Compiler {
    fn command(self) -> Command {
        let (program, flags): (_, &[&str]) = match self {
            Compiler::System => ("cc", &[]),
            Compiler::Static => ("cc", &["-static"]),
            Compiler::StaticPie => ("cc", &["-static-pie"]),
            Compiler::Musl => ("musl-gcc", &[]),
            Compiler::Bits32 => ("cc", &["-m32", "-nostdlib", "-static", "-fno-stack-protector"]),
        };
        let mut command = target_command(program);
        command.args(flags);
        command
    }
}

/// A program that was built; its directory is removed with the last use.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    _directory: TargetDirectory,
}

impl Program {
    /// Builds `source` (C) with optimization, threads and debugging symbols stripped.
    ///
    /// # Panics
    /// The compiler is missing or refuses the source: the test cannot go on.
    #[must_use]
    pub fn build(compiler: Compiler, source: &str, flags: &[&str]) -> Self {
        let directory = TargetDirectory::new();
        let file = directory.file("program.c", source);
        let path = directory.inside().join("program");
        let output = compiler
            .command()
            .args(["-O1", "-pthread", "-s", "-o"])
            .args([&path, &file])
            .args(flags)
            .output()
            .unwrap_or_else(|e| panic!("{compiler:?} compiler: {e}. Run scripts/deps build test"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Program { path, _directory: directory }
    }

    /// Returns the executable's path in the targets' root.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a command that runs it in the targets' root.
    #[must_use]
    pub fn command(&self) -> Command {
        target_command(&self.path)
    }
}

/// Returns the source of one of this crate's C programs.
///
/// - `heap`: a heap of known shape in several arenas, which prints its own `malloc_info` and trims itself on
///   request.
/// - `hostile`: fakes its own structures, each mode in one way.
/// - `idle`: holds some blocks and answers nothing, for any libc.
/// - `idle32`: the same as a 32-bit program without a libc.
/// - `jemalloc`: a heap of known shape under jemalloc, which prints jemalloc's own statistics.
/// - `threads`: as many threads as requested, or as the system allows.
/// - `inside`: a thread that waits inside a function, or where it has been inside before.
/// - `saturated`: many threads that allocate and make system calls all the time, and check everything.
/// - `waits`: a system call of a given kind, with every register checked after it.
///
/// # Panics
/// There is no program with that name.
#[must_use]
pub fn c_program(name: &str) -> &'static str {
    match name {
        "heap" => include_str!("../c/heap.c"),
        "hostile" => include_str!("../c/hostile.c"),
        "idle" => include_str!("../c/idle.c"),
        "idle32" => include_str!("../c/idle32.c"),
        "jemalloc" => include_str!("../c/jemalloc.c"),
        "inside" => include_str!("../c/inside.c"),
        "threads" => include_str!("../c/threads.c"),
        "saturated" => include_str!("../c/saturated.c"),
        "waits" => include_str!("../c/waits.c"),
        _ => panic!("there is no C program called {name}"),
    }
}
