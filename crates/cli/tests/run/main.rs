//! `unbloat run`, `env`, `install` and `status` on real processes.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod command;
mod forks;
mod home;
mod policies;
mod servers;
mod status;
mod targets;
