//! Counts the memory that no walker has accounted for: every mapping by its kind, page by page.

use super::MAPPED;
use crate::allocators::Observer;
use crate::allocators::glibc::layout::CHUNK_HEADER;
use crate::allocators::glibc::mmapped;
use crate::allocators::glibc::mmapped::MappedChunk;
use crate::model::{AllocatorKind, Category};
use crate::ranges::{joined, remaining};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::Path;
use unbloat_process::elf::first_mappings;
use unbloat_process::{Backing, Image, Mapping, Maps, Memory, PAGE_SIZE, Pid, Residency, Result};

/// Bytes whose residency is asked for at once.
const STRIDE_BYTES: u64 = 64 << 20;

/// Ranges that somebody has accounted for already.
#[derive(Debug, Default)]
pub(super) struct Taken(Vec<Range<u64>>);

impl Taken {
    pub(super) fn add(&mut self, ranges: &[Range<u64>]) {
        self.0.extend_from_slice(ranges);
    }

    fn joined(self) -> Vec<Range<u64>> {
        joined(self.0)
    }
}

/// The mapped files that are programs or libraries.
pub(super) struct Images {
    /// Inodes of files that have an executable mapping.
    inodes: HashSet<u64>,
    /// Zero-initialized data (`.bss`) that follows a library's last mapping, where it is a mapping of its own. Sorted and
    /// disjoint.
    zero_data: Vec<Range<u64>>,
}

impl Images {
    pub(super) fn of(pid: Pid, maps: &Maps) -> Self {
        let executable = maps.iter().filter(|m| m.execute && m.file().is_some());
        let inodes: HashSet<u64> = executable.map(|m| m.inode).collect();
        let mut zero_data = Vec::new();
        for mapping in first_mappings(maps).filter(|m| inodes.contains(&m.inode)) {
            let last = maps.iter().rfind(|m| m.inode == mapping.inode && m.file() == mapping.file());
            let Some(follows) = last.and_then(|last| maps.find(last.end)).filter(|m| m.file().is_none())
            else {
                continue;
            };
            let Ok(image) = Image::of_mapping(pid, mapping) else { continue };
            let end = image.writable().map(|range| range.end).max().unwrap_or(0);
            if end > follows.start {
                zero_data.push(follows.start..end.next_multiple_of(PAGE_SIZE).min(follows.end));
            }
        }
        Images::new(inodes, zero_data)
    }

    /// Zero-initialized data that two files claim is one range: each byte counts once.
    fn new(inodes: HashSet<u64>, zero_data: Vec<Range<u64>>) -> Self {
        Images { inodes, zero_data: joined(zero_data) }
    }

    fn zero_data_within<'a>(&'a self, range: &'a Range<u64>) -> impl Iterator<Item = Range<u64>> + 'a {
        let cut = |zero: &Range<u64>| zero.start.max(range.start)..zero.end.min(range.end);
        self.zero_data.iter().map(cut).filter(|zero| !zero.is_empty())
    }

    fn is_library(&self, mapping: &Mapping) -> bool {
        mapping.file().is_some() && self.inodes.contains(&mapping.inode)
    }
}

/// All mappings, and what is known of them.
pub(super) struct Rest<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) maps: &'a Maps,
    pub(super) images: &'a Images,
    /// The threads' stacks, as far as they are known.
    pub(super) stacks: Vec<Range<u64>>,
    pub(super) allocator: Option<AllocatorKind>,
    /// The allocator's heap was walked: what is left is not the allocator's.
    pub(super) walked: bool,
    /// How many chunks with mappings of their own glibc says there are.
    pub(super) mapped_chunks: u64,
}

/// What [`Rest::account`] has counted.
#[derive(Default)]
pub(super) struct Accounted {
    /// Resident bytes.
    pub(super) bytes: BTreeMap<Category, u64>,
    /// How many chunks with mappings of their own were found.
    pub(super) mapped_chunks: u64,
}

impl Rest<'_> {
    /// Counts the resident bytes of all mappings outside of `taken`; tells `observer` of mapped chunks.
    pub(super) fn account(&self, taken: Taken, observer: &mut dyn Observer) -> Result<Accounted> {
        let mut stacks = Taken::default();
        stacks.add(&self.stacks);
        let (taken, stacks) = (taken.joined(), stacks.joined());
        let chunks = self.mapped_chunks(&taken, &stacks)?;
        let mut accounted = Accounted { mapped_chunks: chunks.len() as u64, ..Accounted::default() };
        let mut add = |category, count| {
            let sum: &mut u64 = accounted.bytes.entry(category).or_default();
            *sum = sum.saturating_add(count);
        };
        for chunk in &chunks {
            self.mapped_chunk(chunk, observer, &mut add)?;
        }
        let mut taken = Taken(taken);
        taken.0.extend(chunks.into_iter().map(|chunk| chunk.mapping));
        let taken = taken.joined();
        for mapping in self.maps.iter().filter(|m| !is_special(m)) {
            for range in remaining(&mapping.range(), &taken) {
                match mapping.file() {
                    Some(_) => self.file(mapping, &range, &mut add)?,
                    None => self.anonymous(mapping, &range, &stacks, &mut add)?,
                }
            }
        }
        Ok(accounted)
    }

    fn file(&self, mapping: &Mapping, range: &Range<u64>, add: &mut impl FnMut(Category, u64)) -> Result<()> {
        let (clean, written) = file_categories(mapping, self.images);
        for part in strides(range) {
            let pages = pages_of(&part);
            let residency = self.memory.residency_with_files(pages.start, pages.end - pages.start)?;
            let file = residency.file_within(part.clone());
            add(clean, file);
            add(written, residency.resident_within(part).saturating_sub(file));
        }
        Ok(())
    }

    fn anonymous(
        &self,
        mapping: &Mapping,
        range: &Range<u64>,
        stacks: &[Range<u64>],
        add: &mut impl FnMut(Category, u64),
    ) -> Result<()> {
        let overlap = |stack: &Range<u64>| stack.start.max(range.start)..stack.end.min(range.end);
        for stack in stacks.iter().map(overlap).filter(|stack| !stack.is_empty()) {
            add(Category::ThreadStacks, self.resident_bytes(&stack)?);
        }
        for part in remaining(range, stacks).flat_map(|part| strides(&part)) {
            let residency = self.residency(&part)?;
            let zero: u64 =
                self.images.zero_data_within(&part).map(|zero| residency.resident_within(zero)).sum();
            add(Category::LibrariesPrivate, zero);
            let rest = residency.resident_within(part).saturating_sub(zero);
            add(anonymous_category(mapping, self.allocator.filter(|_| !self.walked)), rest);
        }
        Ok(())
    }

    /// glibc's chunks with mappings of their own, in what is neither taken nor a stack.
    fn mapped_chunks(&self, taken: &[Range<u64>], stacks: &[Range<u64>]) -> Result<Vec<MappedChunk>> {
        if self.allocator != Some(AllocatorKind::Glibc) {
            return Ok(Vec::new());
        }
        let private = self.maps.iter().filter(|m| m.is_private_anonymous()).map(Mapping::range);
        let free = private.flat_map(|range| remaining(&range, taken).collect::<Vec<_>>());
        let ranges: Vec<_> = free.flat_map(|range| remaining(&range, stacks).collect::<Vec<_>>()).collect();
        mmapped::find(self.memory, &ranges, self.mapped_chunks)
    }

    fn mapped_chunk(
        &self,
        chunk: &MappedChunk,
        observer: &mut dyn Observer,
        add: &mut impl FnMut(Category, u64),
    ) -> Result<()> {
        let MappedChunk { mapping, address } = chunk;
        let user = address + CHUNK_HEADER..mapping.end;
        let before = self.resident_bytes(&(mapping.start..*address))?;
        let header = self.resident_bytes(&(*address..user.start))?;
        let live = self.resident_bytes(&user)?;
        observer.block(user.clone(), live);
        observer.bytes(user, MAPPED);
        add(Category::MallocOverhead, before + header);
        add(MAPPED, live);
        Ok(())
    }

    fn resident_bytes(&self, range: &Range<u64>) -> Result<u64> {
        strides(range).map(|part| Ok(self.residency(&part)?.resident_within(part))).sum()
    }

    fn residency(&self, part: &Range<u64>) -> Result<Residency> {
        let pages = pages_of(part);
        self.memory.residency(pages.start, pages.end - pages.start)
    }
}

/// The pages that a range touches.
fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / PAGE_SIZE * PAGE_SIZE..range.end.next_multiple_of(PAGE_SIZE)
}

/// Categories of a file mapping's pages: as in the file, and written to.
fn file_categories(mapping: &Mapping, images: &Images) -> (Category, Category) {
    match mapping.file() {
        Some(path) if is_shared_memory(mapping, path) => (Category::SharedMemory, Category::SharedMemory),
        _ if images.is_library(mapping) => (Category::LibrariesShared, Category::LibrariesPrivate),
        _ => (Category::MappedFiles, Category::MappedFiles),
    }
}

/// Memory that has a name only because the kernel gives it one: `MAP_SHARED|MAP_ANONYMOUS` (`/dev/zero`), System V,
/// memfd, POSIX shared memory.
fn is_shared_memory(mapping: &Mapping, path: &Path) -> bool {
    let deleted = matches!(mapping.backing, Backing::File { deleted: true, .. });
    let path = path.to_string_lossy();
    path.starts_with("/dev/shm/")
        || path.starts_with("/memfd:")
        || deleted && (path.starts_with("/SYSV") || path == "/dev/zero")
}

fn anonymous_category(mapping: &Mapping, unwalked: Option<AllocatorKind>) -> Category {
    match &mapping.backing {
        Backing::MainStack => Category::ThreadStacks,
        Backing::Kernel(_) => Category::LibrariesShared,
        // Names that CRuby 3.4 and newer give (gc.c, cont.c, yjit.c, thread_pthread_mn.c) where the kernel keeps them.
        Backing::Named(name) if name.contains("fiber_pool") || name.contains("thread_stack") => {
            Category::ThreadStacks
        }
        Backing::Named(name) if name.contains("yjit") || name.contains("zjit") => Category::JitCode,
        _ if mapping.shared => Category::SharedMemory,
        _ if mapping.execute => Category::JitCode,
        // A libc's own malloc shares anonymous memory with the rest of the program.
        _ => match unwalked.and_then(AllocatorKind::descriptor) {
            Some(descriptor) if !descriptor.in_libc => Category::AllocatorOther,
            Some(_) | None => Category::OtherAnonymous,
        },
    }
}

/// Pages that the kernel maps into every process and counts in nobody's RSS.
fn is_special(mapping: &Mapping) -> bool {
    matches!(&mapping.backing, Backing::Kernel(name) if name.starts_with("vvar") || name == "vsyscall")
}

fn strides(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let (mut at, end) = (range.start, range.end);
    std::iter::from_fn(move || {
        let from = at;
        at = (from / STRIDE_BYTES * STRIDE_BYTES + STRIDE_BYTES).min(end);
        (from < end).then_some(from..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_process::SyntheticMemory;

    /// Another file's page in the middle of an image makes both claim the `.bss` behind it.
    #[test]
    fn zero_data_that_two_files_claim_counts_once() {
        let images = Images::new(HashSet::new(), vec![0x5000..0x8000, 0x5000..0x7000, 0x9000..0xa000]);
        let mut memory = SyntheticMemory::default();
        memory.write(0x5000, &[1; 0x4000]);
        let maps = Maps::parse(Pid(1), "5000-9000 rw-p 0 0:0 0 \n").unwrap_or_default();
        let rest = Rest {
            memory: &memory,
            maps: &maps,
            images: &images,
            stacks: vec![],
            allocator: None,
            walked: false,
            mapped_chunks: 0,
        };
        let accounted =
            rest.account(Taken::default(), &mut ()).map(|accounted| accounted.bytes).unwrap_or_default();
        let expected = [(Category::LibrariesPrivate, 0x3000), (Category::OtherAnonymous, 0x1000)];
        assert_eq!(accounted, BTreeMap::from(expected));
    }
}
