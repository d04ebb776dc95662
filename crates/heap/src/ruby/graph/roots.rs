//! The roots of the graph, from which the collector starts.
//!
//! Static variables, the VM, registered variables, finalizers and stacks. Where the collector marks exactly
//! but we cannot, words count as references if they are addresses of objects, as the collector does for
//! machine stacks.

use super::conservative::Follower;
use super::facts::GraphFacts;
use crate::closer::Scene;
use crate::ruby::names::symbols::words_of;
use crate::ruby::names::tables::{self, ST_BYTES};
use crate::ruby::words::word;
use std::ops::Range;
use unbloat_process::{Backing, Image, Result, elf, threads};

/// Maximum number of registered variables and finalizers to follow.
const MAX_LIST: usize = 1 << 16;
/// Maximum number of files whose writable data is searched.
const MAX_FILES: usize = 512;
/// Smallest value that can be an address.
const LOWEST: u64 = 4096;
/// Bytes of the main stack to read.
const MAX_STACK: u64 = 16 << 20;

/// Adds the roots in the order in which paths prefer them.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(super) fn add(scene: &Scene<'_>, facts: &GraphFacts, follower: &mut Follower<'_, '_>) -> Result<()> {
    data(scene, scene.data, "Ruby's own variables", follower)?;
    if let Some(vm) = follower.vm {
        let root = follower.root("the VM");
        follower.chunk_words(root, vm)?;
    }
    if let Some(pool) = follower.first_pool {
        let root = follower.root("variables that C code has registered");
        let mut at = word_at(scene, pool.wrapping_add(facts.global_list));
        for _ in 0..MAX_LIST {
            // struct gc_list { VALUE *varptr; struct gc_list *next; }
            if follower.chunk_bytes(at) < 16 {
                break;
            }
            let value = word_at(scene, word_at(scene, at));
            follower.word(root, value);
            at = word_at(scene, at.wrapping_add(8));
        }
        let root = follower.root("finalizers");
        let mut head = [0; ST_BYTES];
        let table = word_at(scene, pool.wrapping_add(facts.finalizers));
        if follower.chunk_bytes(table) >= ST_BYTES as u64 && scene.memory.read(table, &mut head).is_ok() {
            tables::entries(scene.memory, &head, MAX_LIST as u64, |_, value| follower.word(root, value));
        }
    }
    for mapping in elf::first_mappings(scene.maps).take(MAX_FILES) {
        let Ok(image) = Image::of_mapping(scene.pid, mapping) else { continue };
        let ranges: Vec<Range<u64>> = image.writable().collect();
        if ranges != scene.data {
            data(scene, &ranges, &format!("static variables of {}", image.name()), follower)?;
        }
    }
    main_stack(scene, follower)?;
    follower.drain()
}

fn word_at(scene: &Scene<'_>, address: u64) -> u64 {
    scene.memory.word(address).unwrap_or(0)
}

fn data(scene: &Scene<'_>, ranges: &[Range<u64>], name: &str, follower: &mut Follower<'_, '_>) -> Result<()> {
    let root = follower.root(name);
    words_of(scene.memory, ranges, |start, bytes| {
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(u64::MAX);
        for (i, bytes) in bytes.chunks_exact(8).enumerate() {
            let inside = start + 8 * i as u64 + 8 <= end;
            let value = word(bytes, 0).filter(|&value| inside && value > LOWEST);
            follower.word(root, value.unwrap_or(0));
        }
    })
}

/// Returns the ends of the stacks of threads that wait in the kernel (`/proc/PID/task/TID/syscall`).
pub(super) fn stack_pointers(scene: &Scene<'_>) -> Vec<u64> {
    threads::stack_pointers(scene.pid)
}

fn main_stack(scene: &Scene<'_>, follower: &mut Follower<'_, '_>) -> Result<()> {
    let Some(stack) = scene.maps.iter().find(|mapping| mapping.backing == Backing::MainStack) else {
        return Ok(());
    };
    let root = follower.root("the main thread's stack");
    let low = follower
        .lowest(stack.start..stack.end)
        .unwrap_or(stack.start)
        .max(stack.end.saturating_sub(MAX_STACK));
    follower.range(root, low / 8 * 8..stack.end)
}
