//! How a server is started so that it stays lean.
//!
//! A [`Policy`] says what is wanted; [`plan`] turns it into the environment variables that bring it about, given the
//! variables that are set already; [`Target`] tells what the command is and what therefore cannot work in it;
//! the crate `unbloat-bundle` carries the libraries that the variables name. Nothing here starts anything: that is `unbloat run`, and
//! `unbloat env` prints the same plan.
//!
//! | module | concept |
//! |---|---|
//! | [`policy`] | the policies and how they are spelled |
//! | [`environment`] | the variables of a policy, kept apart from those of the user |
//! | [`target`] | what the command is, and what cannot work in it |
//! | `own_jemalloc` | whether a program brings a jemalloc of its own |
//! | [`live`] | whether what a policy asks for is what a process has |

pub mod environment;
pub mod live;
mod own_jemalloc;
pub mod policy;
pub mod target;

pub use environment::{Plan, plan};
pub use policy::{Allocator, Policy, PolicyError, Trim};
pub use target::Target;
