//! A look at a process that was made up: all of a look but the questions to the kernel. For tests and fuzz targets.

use super::{Observers, mappings, ruby};
use crate::allocators::glibc::Glibc;
use crate::allocators::jemalloc::blocks::Blocks;
use crate::allocators::jemalloc::locate::ImageData;
use crate::allocators::jemalloc::reader::Reader;
use crate::allocators::jemalloc::{JemallocHeap, Search};
use crate::allocators::{Heap, Look};
use crate::cartography::Cartographer;
use crate::model::{AllocatorKind, Census, HeapMap};
use crate::ranges::joined;
use crate::ruby::Ruby;
use unbloat_process::{Maps, Memory, Pid, ResidentOnly, Result, resident_bytes};

/// A process that was made up.
pub struct MadeUp<'a> {
    /// The memory.
    pub memory: &'a dyn Memory,
    /// The mappings.
    pub maps: &'a Maps,
    /// The CRuby in it.
    pub ruby: Option<Ruby>,
    /// The glibc in it.
    pub glibc: Option<Glibc>,
    /// Libraries that may carry a jemalloc.
    pub images: Vec<ImageData>,
    /// Chunks with mappings of their own that its glibc claims to have.
    pub mapped_chunks: u64,
}

impl MadeUp<'_> {
    /// Accounts for every byte, and draws the map.
    ///
    /// # Errors
    /// The memory's.
    pub fn look(self) -> Result<(Census, HeapMap)> {
        let MadeUp { memory, maps, ruby, glibc, images, mapped_chunks } = self;
        let mut observers = Observers { map: Some(Cartographer::new(memory)), ruby: None, chunks: None };
        let (mut census, mut taken) = (Census::default(), mappings::Taken::default());
        let (mut claims, mut stacks) = (Vec::new(), Vec::new());
        if let Some(ruby) = ruby {
            let found = ruby::read_found(&ResidentOnly::new(memory), maps, ruby, &mut observers.map)?;
            census.add_all(found.reading.census().iter());
            for (range, category) in found.other {
                census.add(category, resident_bytes(memory, &range)?);
                claims.push(range);
            }
            claims.extend(found.bodies);
            claims = joined(claims);
            taken.add(&claims);
            observers.ruby = Some(found.reading);
        }
        for heap in heaps(memory, maps, images, glibc)? {
            let look = Look { pid: Pid::this(), memory, maps, claims: &claims, stop: false };
            let found = heap.walk(&look, &mut observers)?;
            taken.add(&found.ranges);
            census.add_all(found.bytes);
            stacks.extend(found.stacks);
            claims.extend(found.ranges);
            claims = joined(claims);
            if let Some(recheck) = found.recheck {
                recheck(memory, maps)?;
            }
        }
        let unclaimed = mappings::Unclaimed {
            memory,
            maps,
            images: &mappings::Images::none(),
            stacks,
            allocator: Some(AllocatorKind::Glibc),
            walked: true,
            mapped_chunks,
        };
        census.add_all(unclaimed.account(taken, &mut observers)?.bytes);
        if let Some(reading) = observers.ruby {
            drop(reading.finish());
        }
        Ok((census, observers.map.map(Cartographer::finish).unwrap_or_default()))
    }
}

fn heaps(
    memory: &dyn Memory,
    maps: &Maps,
    images: Vec<ImageData>,
    glibc: Option<Glibc>,
) -> Result<Vec<Box<dyn Heap>>> {
    let reader = Reader::new(memory);
    let jemallocs = Search::within(images, Blocks::find(&reader, maps)?, &reader)?.heaps();
    let jemallocs = jemallocs.map(|heap: JemallocHeap| Box::new(heap) as Box<dyn Heap>);
    Ok(jemallocs.chain(glibc.map(|glibc| Box::new(glibc) as Box<dyn Heap>)).collect())
}
