//! ELF files are hostile input: headers, symbols, relocations, and the search for glibc's variables in their data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::ops::ControlFlow;
use unbloat_heap::allocators::glibc::locate::Statics;
use unbloat_process::elf::Elf;

fuzz_target!(|data: &[u8]| {
    if let Ok(elf) = Elf::parse(data) {
        let _ = elf.symbols(data, &["malloc", "main_arena"]);
        let _ = elf.soname(data);
        elf.each_relative_relocation(data, &(0..u64::MAX), |_| ControlFlow::Continue(()));
        let _ = Statics::find(&elf, data);
    }
});
