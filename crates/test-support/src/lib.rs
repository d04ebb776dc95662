//! Real processes for the tests of all crates: built from C, started, talked to line by line, and ended whatever
//! happens to the test.
//!
//! A [`Target`] owns its process: dropping it kills and reaps that process and nothing else.

mod compile;
mod directory;
mod root;
mod ruby;
mod target;

pub use compile::{Compiler, Program, c_program};
pub use directory::TargetDirectory;
pub use root::{system_library, target_command};
pub use ruby::{ruby, ruby_executable};
pub use target::Target;
