//! Accounts for the memory that no walker has claimed: every mapping by its kind, page by page.

use super::MAPPED;
use crate::allocators::Observer;
use crate::allocators::glibc::layout::CHUNK_HEADER;
use crate::allocators::glibc::mmapped;
use crate::allocators::glibc::mmapped::MappedChunk;
use crate::model::{AllocatorKind, Category};
use crate::ranges::{joined, overlaps, remaining};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use unbloat_process::elf::first_mappings;
use unbloat_process::{
    Backing, Image, Mapping, Maps, Memory, Pid, Residency, Result, page_size, resident_bytes, windows,
};

/// Bytes per residency query.
const STRIDE_BYTES: u64 = 64 << 20;

/// Ranges that are already accounted for.
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
    /// Inodes of files with an executable mapping.
    inodes: HashSet<u64>,
    /// Zero-initialized data (`.bss`) that follows a library's last mapping in a separate mapping. Sorted and
    /// disjoint.
    zero_data: Vec<Range<u64>>,
}

impl Images {
    pub(super) fn of(pid: Pid, maps: &Maps) -> Self {
        let executable = maps.iter().filter(|m| m.execute && m.file().is_some());
        let inodes: HashSet<u64> = executable.map(|m| m.inode).collect();
        let last: HashMap<_, &Mapping> = maps.iter().map(|m| ((m.inode, m.file()), m)).collect();
        let mut zero_data = Vec::new();
        for mapping in first_mappings(maps).filter(|m| inodes.contains(&m.inode)) {
            let last = last.get(&(mapping.inode, mapping.file()));
            let Some(follows) = last.and_then(|last| maps.find(last.end)).filter(|m| m.file().is_none())
            else {
                continue;
            };
            let Ok(image) = Image::of_mapping(pid, mapping) else { continue };
            let end = image.writable().map(|range| range.end).max().unwrap_or(0);
            if end > follows.start {
                zero_data.push(follows.start..end.next_multiple_of(page_size()).min(follows.end));
            }
        }
        Images::new(inodes, zero_data)
    }

    /// Returns the images of a process that has none.
    pub(super) fn none() -> Self {
        Images::new(HashSet::new(), Vec::new())
    }

    /// Joins zero-initialized data that two files claim, so that each byte counts once.
    fn new(inodes: HashSet<u64>, zero_data: Vec<Range<u64>>) -> Self {
        Images { inodes, zero_data: joined(zero_data) }
    }

    fn is_library(&self, mapping: &Mapping) -> bool {
        mapping.file().is_some() && self.inodes.contains(&mapping.inode)
    }
}

/// All mappings, with the facts needed to categorize them.
pub(super) struct Unclaimed<'a> {
    pub(super) memory: &'a dyn Memory,
    pub(super) maps: &'a Maps,
    pub(super) images: &'a Images,
    /// The known thread stacks.
    pub(super) stacks: Vec<Range<u64>>,
    pub(super) allocator: Option<AllocatorKind>,
    /// The allocator's heap was walked, so unclaimed memory is not the allocator's.
    pub(super) walked: bool,
    /// Number of chunks with their own mappings, according to glibc.
    pub(super) mapped_chunks: u64,
}

/// The result of [`Unclaimed::account`].
#[derive(Default)]
pub(super) struct Accounted {
    /// Resident bytes by category.
    pub(super) bytes: BTreeMap<Category, u64>,
    /// Number of chunks with their own mappings that were found.
    pub(super) mapped_chunks: u64,
}

impl Unclaimed<'_> {
    /// Counts the resident bytes of all mappings outside `taken`, and reports mapped chunks to `observer`.
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
        for part in windows(self.memory, range, STRIDE_BYTES) {
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
        for stack in overlaps(stacks, range) {
            add(Category::ThreadStacks, resident_bytes(self.memory, &stack)?);
        }
        for part in remaining(range, stacks).flat_map(|part| windows(self.memory, &part, STRIDE_BYTES)) {
            let residency = self.residency(&part)?;
            let zero: u64 = overlaps(&self.images.zero_data, &part)
                .map(|zero| residency.resident_within(zero))
                .fold(0, u64::saturating_add);
            add(Category::LibrariesPrivate, zero);
            let rest = residency.resident_within(part).saturating_sub(zero);
            add(anonymous_category(mapping, self.allocator.filter(|_| !self.walked)), rest);
        }
        Ok(())
    }

    /// Returns glibc's chunks with their own mappings, outside stacks and `taken` ranges.
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
        let before = resident_bytes(self.memory, &(mapping.start..*address))?;
        let header = resident_bytes(self.memory, &(*address..user.start))?;
        let live = resident_bytes(self.memory, &user)?;
        observer.block(user.clone(), live);
        observer.bytes(user, MAPPED);
        add(Category::MallocOverhead, before + header);
        add(MAPPED, live);
        Ok(())
    }

    fn residency(&self, part: &Range<u64>) -> Result<Residency> {
        let pages = pages_of(part);
        self.memory.residency(pages.start, pages.end - pages.start)
    }
}

/// Returns the pages that a range touches.
fn pages_of(range: &Range<u64>) -> Range<u64> {
    range.start / page_size() * page_size()..range.end.next_multiple_of(page_size())
}

/// Returns the categories of a file mapping's pages: unchanged from the file, and written to.
fn file_categories(mapping: &Mapping, images: &Images) -> (Category, Category) {
    match mapping.file() {
        Some(path) if is_shared_memory(mapping, path) => (Category::SharedMemory, Category::SharedMemory),
        _ if images.is_library(mapping) => (Category::LibrariesShared, Category::LibrariesPrivate),
        _ => (Category::MappedFiles, Category::MappedFiles),
    }
}

/// Returns whether the mapping is shared memory, whose name comes from the kernel: `MAP_SHARED|MAP_ANONYMOUS`
/// (`/dev/zero`), System V, memfd, POSIX shared memory.
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
        // Names given by CRuby 3.4 and newer (gc.c, cont.c, yjit.c, thread_pthread_mn.c), where the kernel
        // keeps them.
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

/// Returns whether these pages are mapped into every process by the kernel and excluded from RSS.
fn is_special(mapping: &Mapping) -> bool {
    matches!(&mapping.backing, Backing::Kernel(name) if name.starts_with("vvar") || name == "vsyscall")
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_process::SyntheticMemory;

    /// A page of another file in the middle of an image makes both claim the `.bss` after it.
    #[test]
    fn zero_data_that_two_files_claim_counts_once() {
        let images = Images::new(HashSet::new(), vec![0x5000..0x8000, 0x5000..0x7000, 0x9000..0xa000]);
        let mut memory = SyntheticMemory::default();
        memory.write(0x5000, &[1; 0x4000]);
        let maps = Maps::parse(Pid(1), "5000-9000 rw-p 0 0:0 0 \n").unwrap_or_default();
        let unclaimed = Unclaimed {
            memory: &memory,
            maps: &maps,
            images: &images,
            stacks: vec![],
            allocator: None,
            walked: false,
            mapped_chunks: 0,
        };
        let accounted =
            unclaimed.account(Taken::default(), &mut ()).map(|accounted| accounted.bytes).unwrap_or_default();
        let expected = [(Category::LibrariesPrivate, 0x3000), (Category::OtherAnonymous, 0x1000)];
        assert_eq!(accounted, BTreeMap::from(expected));
    }
}
