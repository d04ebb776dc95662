//! Builds the libraries that the `unbloat` binary contains: `libunbloat.so` (crates/runtime) and
//! `libunbloat-jemalloc.so` (crates/bundle/jemalloc with jemalloc's archive).
//!
//! They are built by a separate cargo, with the workspace's lock file and the profile `embedded`, in a target
//! directory next to the outer one's profiles (`target/embedded`). It has its own lock, so the two cargos
//! never deadlock, and all outer profiles share it, so jemalloc is compiled once.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// jemalloc's defaults for a Ruby server; docs/method/lean.md gives the reasons, with figures.
const MALLOC_CONF: &str =
    "narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0,slab_sizes:513-4096:1,tcache_max:1024,thp:never";

fn main() {
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let workspace = manifest.join("../..");
    for watched in [
        "crates/runtime",
        "crates/contract",
        "crates/bundle/jemalloc",
        "Cargo.toml",
        "crates/bundle/build.rs",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(watched).display());
    }
    let out = PathBuf::from(variable("OUT_DIR"));
    let target = target_directory(&out);
    build_runtime(&workspace, &target, &out.join("libunbloat.so"));
    build_jemalloc(&workspace, &target, &out.join("libunbloat-jemalloc.so"));
    println!("cargo::rustc-env=UNBLOAT_FINGERPRINT={:016x}", fingerprint(&out));
}

/// Returns a number that changes with the libraries (FNV-1a, 64 bits). It names their directory in the cache;
/// their protection is that they are compared byte by byte and that nobody else can write there.
fn fingerprint(out: &Path) -> u64 {
    let libraries = ["libunbloat.so", "libunbloat-jemalloc.so"];
    let bytes = libraries.iter().flat_map(|name| std::fs::read(out.join(name)).expect("it was just built"));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns `target/embedded`: the directory that cargo marked as its target directory, plus one level.
fn target_directory(out: &Path) -> PathBuf {
    let top = out.ancestors().find(|directory| directory.join("CACHEDIR.TAG").exists()).unwrap_or(out);
    top.join("embedded")
}

fn build_runtime(workspace: &Path, target: &Path, library: &Path) {
    let mut cargo = cargo(workspace, target, "rustc", "unbloat-runtime", "standalone");
    // `dlsym` is in libdl before glibc 2.34. The reference is weak, for which a linker needs no library.
    let dlsym = "-Clink-args=-Wl,--no-as-needed -l:libdl.so.2";
    run(cargo.args(["--lib", "--crate-type", "cdylib", "--", dlsym]));
    let built = target.join(triple()).join("embedded/libunbloat_runtime.so");
    std::fs::copy(&built, library).unwrap_or_else(|error| panic!("cannot copy {}: {error}", built.display()));
}

fn build_jemalloc(workspace: &Path, target: &Path, library: &Path) {
    let mut cargo = cargo(workspace, target, "build", "unbloat-jemalloc", "library");
    let versions = workspace.join("crates/bundle/jemalloc/src/glibc_versions.h");
    cargo.env("CFLAGS", format!("-include {}", versions.display()));
    let messages = run(cargo.arg("--message-format=json-render-diagnostics"));
    let archive = jemalloc_out_directory(&messages).join("lib/libjemalloc_pic.a");
    run(Command::new(compiler())
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wl,-z,now,-z,relro", "-Wl,-s"])
        .arg("-Wl,-soname,libunbloat-jemalloc.so")
        .arg(format!("-DUNBLOAT_MALLOC_CONF=\"{MALLOC_CONF}\""))
        .arg("-o")
        .arg(library)
        .arg("-include")
        .arg(versions)
        .args(["ruby.c", "exec.c"].map(|source| workspace.join("crates/bundle/jemalloc/src").join(source)))
        .arg("-Wl,--whole-archive")
        .arg(archive)
        // By their run-time names, and regardless of whether this machine's linker considers them needed:
        // they are empty since glibc 2.34, but contain the functions before.
        .args(["-Wl,--no-whole-archive,--no-as-needed", "-l:libpthread.so.0", "-l:libdl.so.2"]));
}

/// The C compiler for the target, by the names that the `cc` crate uses as well.
fn compiler() -> OsString {
    let (target, host) = (triple(), variable("HOST"));
    let named = [format!("CC_{target}"), format!("CC_{}", target.replace('-', "_"))];
    let general = if target == host { "CC" } else { "TARGET_CC" };
    let named = named.iter().map(String::as_str).chain([general]).find_map(env::var_os);
    named.unwrap_or_else(|| match target.strip_suffix("-unknown-linux-gnu") {
        Some(machine) if target != host => OsString::from(format!("{machine}-linux-gnu-gcc")),
        _ => OsString::from("cc"),
    })
}

/// Returns jemalloc's build directory, from the line of cargo's messages in which the crate's build script
/// reports it.
fn jemalloc_out_directory(messages: &str) -> PathBuf {
    const KEY: &str = "\"out_dir\":\"";
    let line = messages
        .lines()
        .find(|line| line.contains("\"build-script-executed\"") && line.contains("tikv-jemalloc-sys"))
        .expect("cargo reports the build script of tikv-jemalloc-sys");
    let start = line.find(KEY).expect("the report names the directory") + KEY.len();
    let end = line[start..].find('"').expect("the report is JSON");
    PathBuf::from(&line[start..start + end])
}

/// Creates a cargo command without the settings of the outer cargo for this build script.
fn cargo(workspace: &Path, target: &Path, command: &str, package: &str, feature: &str) -> Command {
    let mut cargo = Command::new(variable("CARGO"));
    for inherited in
        ["RUSTC_WORKSPACE_WRAPPER", "CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_MAKEFLAGS", "MAKEFLAGS"]
    {
        cargo.env_remove(inherited);
    }
    cargo
        .current_dir(workspace)
        .args([command, "--locked", "--profile", "embedded", "--package", package, "--features", feature])
        .arg("--target")
        .arg(triple())
        .arg("--target-dir")
        .arg(target);
    cargo
}

/// Runs a command and returns its standard output; if it fails, ends the build with its error output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn triple() -> String {
    variable("TARGET")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| panic!("cargo sets {name}: {error}"))
}
