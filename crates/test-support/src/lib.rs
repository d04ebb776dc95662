//! Support for the tests of all crates: real processes, built from C, started, talked to line by line, and ended whatever
//! happens to the test; and the schemas that documents are held against.
//!
//! A [`Target`] owns its process: dropping it kills and reaps that process and nothing else.
//!
//! | module | concept |
//! |---|---|
//! | `compile` | programs built from C |
//! | `directory` | a directory visible to targets as well |
//! | `root` | the root file system of the targets: this machine's, or another Debian's |
//! | `ruby` | the Ruby under test |
//! | `schema` | the published schemas of documents |
//! | `target` | a running process |

mod compile;
mod directory;
mod root;
mod ruby;
mod schema;
mod target;

pub use compile::{Compiler, Program, c_program};
pub use directory::TargetDirectory;
pub use root::{system_library, target_command};
pub use ruby::{ruby, ruby_executable};
pub use schema::assert_follows;
pub use target::Target;
