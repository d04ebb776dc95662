//! Policies for a server's memory: their meaning, their deployment, and proof that they are live.
//!
//! A [`Policy`] is a set of wishes; [`changes`] turns it into environment variables, given those already set;
//! [`Program`] describes the command and the resulting limits. Nothing here starts anything: that is `unbloat
//! run`, and `unbloat env` prints the same changes. The crate `unbloat-bundle` carries the libraries that the
//! variables name.
//!
//! | module | concept |
//! |---|---|
//! | [`policy`] | the policies, their spelling, and the table of their parts |
//! | [`environment`] | the variables of a policy, separate from those of the user |
//! | [`deploy`] | lines for a shell, Dockerfile, unit, Procfile, Heroku and Kubernetes |
//! | [`note`] | conflicts and limits that a user should know |
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
pub use policy::{Allocator, Policy, PolicyError, known};
pub use program::Program;
pub use proof::{Claim, Evidence, Malloc, Problem, Proof};
