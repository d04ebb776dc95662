//! The ABI constants used here, with their names in `elf.h`.

pub(super) const ELFMAG: [u8; 4] = *b"\x7fELF";
pub(super) const ELFCLASS64: u8 = 2;
pub(super) const ELFDATA2LSB: u8 = 1;
pub(super) const ET_DYN: u16 = 3;
pub(super) const EM_X86_64: u16 = 62;
pub(super) const EM_AARCH64: u16 = 183;
pub(super) const R_X86_64_RELATIVE: u32 = 8;
pub(super) const R_AARCH64_RELATIVE: u32 = 1027;
pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_INTERP: u32 = 3;
pub(super) const PT_NOTE: u32 = 4;
pub(super) const PT_TLS: u32 = 7;
/// Linux Standard Base Core 5.0, section 12.2.
pub(super) const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
pub(super) const PF_X: u32 = 1;
pub(super) const PF_W: u32 = 2;
pub(super) const DT_NULL: u64 = 0;
pub(super) const DT_NEEDED: u64 = 1;
pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_RELA: u64 = 7;
pub(super) const DT_RELASZ: u64 = 8;
pub(super) const DT_STRSZ: u64 = 10;
pub(super) const DT_SONAME: u64 = 14;
pub(super) const DT_RPATH: u64 = 15;
pub(super) const DT_RUNPATH: u64 = 29;
pub(super) const DT_RELRSZ: u64 = 35;
pub(super) const DT_RELR: u64 = 36;
pub(super) const SHT_SYMTAB: u32 = 2;
pub(super) const SHT_DYNSYM: u32 = 11;
pub(super) const SHN_UNDEF: u16 = 0;
pub(super) const NT_GNU_BUILD_ID: u32 = 3;
