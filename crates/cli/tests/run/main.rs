//! `unbloat run`, `env`, `install`, `status` and `doctor` on real processes.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod children;
mod command;
mod doctor;
mod entries;
mod forks;
mod guest;
mod home;
mod policies;
mod servers;
mod status;
mod targets;
