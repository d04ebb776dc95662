//! A whole look at a process that the fuzzer makes up and damages: it ends within its budget, and accounts for every byte.
#![no_main]

#[path = "../../crates/heap/tests/made_up/mod.rs"]
mod made_up;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| made_up::look(data));
