//! Policies for a server's memory: what they mean, how they are deployed, and proof that they are live.
//!
//! A [`Policy`] says what is wanted; [`changes`] turns it into environment variables, given those that are set already;
//! [`Program`] tells what the command is and what therefore cannot work in it. Nothing here starts anything: that is `unbloat
//! run`, and `unbloat env` prints the same changes. The crate `unbloat-bundle` carries the libraries that the variables name.
//!
//! | module | concept |
//! |---|---|
//! | [`policy`] | the policies, how they are spelled, and the table of their parts |
//! | [`environment`] | the variables of a policy, kept apart from those of the user |
//! | [`deploy`] | lines for a shell, Dockerfile, unit, Procfile, Heroku and Kubernetes |
//! | [`note`] | conflicts and limits that a user should know of |
//! | [`program`] | the program behind a command, and the limits that it sets to a policy |
//! | `own_jemalloc` | a program's own jemalloc |
//! | [`proof`] | proof that a policy is live in a process |

pub mod deploy;
pub mod environment;
pub mod note;
mod own_jemalloc;
pub mod policy;
pub mod program;
pub mod proof;

pub use environment::{Changes, changes};
pub use note::Note;
pub use policy::{Allocator, Policy, PolicyError};
pub use program::Program;
pub use proof::{Claim, Evidence, Malloc, Problem, Proof};
