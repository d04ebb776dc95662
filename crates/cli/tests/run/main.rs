//! `unbloat run`, `env`, `install` and `status` on real processes.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod children;
mod command;
mod forks;
mod guest;
mod home;
mod policies;
mod servers;
mod status;
mod targets;
