//! Real processes for the tests of all crates: built from C, started, talked to line by line, and ended whatever
//! happens to the test.
//!
//! A [`Target`] owns its process: dropping it kills and reaps that process and nothing else.

mod compile;
mod ruby;
mod target;

pub use compile::{Compiler, Program, c_program};
pub use ruby::ruby;
pub use target::Target;

/// The path of a shared library of the system by its file name, searched where Debian and others put libraries.
#[must_use]
pub fn system_library(name: &str) -> Option<std::path::PathBuf> {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    ["/usr/lib", "/lib", "/usr/local/lib"]
        .iter()
        .flat_map(|dir| {
            [format!("{dir}/{machine}/{name}"), format!("{dir}/{name}"), format!("{dir}64/{name}")]
        })
        .map(std::path::PathBuf::from)
        .find(|path| path.exists())
}
