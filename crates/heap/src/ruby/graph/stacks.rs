//! The stacks of threads and fibers, through their execution contexts (`rb_execution_context_t`, vm_core.h).
//!
//! A context is recognized by its shape: `vm_stack`, its size in words, and a `cfp` inside it. Of the VM
//! stack only the values below the top frame's `sp` and the frames themselves count.

use super::conservative::Follower;
use super::facts::GraphFacts;
use crate::closer::Scene;
use crate::ruby::words::word;
use unbloat_process::Result;

/// Bytes of a context to read.
const CONTEXT_BYTES: usize = 24 * 8;
/// Range of words of a VM stack, from the smallest fiber to the largest configurable thread.
const STACK_WORDS: std::ops::RangeInclusive<u64> = 1024..=1 << 24;
/// Bytes between the end of a stack as noted by Ruby and the stack pointer.
const MAX_BEYOND: u64 = 1 << 20;
/// Maximum bytes of a machine stack.
const MAX_STACK: u64 = 64 << 20;

/// An execution context.
struct Context {
    bytes: [u8; CONTEXT_BYTES],
    base: u64,
    end: u64,
    frame: u64,
}

impl Context {
    fn read(scene: &Scene<'_>, address: u64) -> Option<Self> {
        let mut bytes = [0; CONTEXT_BYTES];
        scene.memory.read(address, &mut bytes).ok()?;
        let (base, words, frame) = (word(&bytes, 0)?, word(&bytes, 8)?, word(&bytes, 16)?);
        let end = base.checked_add(8 * Some(words).filter(|words| STACK_WORDS.contains(words))?)?;
        (base != 0 && base < frame && frame <= end).then_some(Context { bytes, base, end, frame })
    }
}

/// An owner of an execution context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// `rb_thread_t`: one of its first pointers leads to the context.
    Thread,
    /// `rb_fiber_t`: it contains the context.
    Fiber,
}

impl Owner {
    fn context(self, scene: &Scene<'_>, address: u64) -> Option<Context> {
        let field = |i: u64| address.wrapping_add(8 * i);
        match self {
            Owner::Thread => {
                let pointers = (0..12).filter_map(|i| scene.memory.word(field(i)).ok());
                pointers.filter(|&pointer| pointer != 0).find_map(|pointer| Context::read(scene, pointer))
            }
            Owner::Fiber => (9..16).find_map(|i| Context::read(scene, field(i))),
        }
    }
}

/// Follows the stacks of a thread or fiber at an address: the VM's, and C's.
pub(super) fn follow(
    follower: &mut Follower<'_, '_>,
    facts: &GraphFacts,
    scene: &Scene<'_>,
    from: u32,
    (owner, address): (Owner, u64),
) -> Result<()> {
    let Some(context) = owner.context(scene, address) else { return Ok(()) };
    // The unused part of the VM stack holds stale words.
    follower.weak.insert(context.base);
    let top = scene.memory.word(context.frame.wrapping_add(8)).unwrap_or(0);
    if (context.base..=context.end).contains(&top) {
        follower.range(from, context.base..top)?;
        follower.range(from, context.frame..context.end)?;
        let mut frame = context.frame;
        while frame < context.end {
            let ep = scene.memory.word(frame.wrapping_add(32)).unwrap_or(0);
            if ep != 0 && !(context.base..context.end).contains(&ep) {
                // An environment that has left the stack: its object follows the flags.
                let environment = scene.memory.word(ep.wrapping_add(8)).unwrap_or(0);
                follower.word(from, environment);
            }
            frame = frame.saturating_add(facts.frame_bytes);
        }
    }
    let at = |at| word(&context.bytes, at).unwrap_or(0);
    let (high, low) = (at(facts.stack_start), at(facts.stack_start + 8));
    if low != 0 && low < high && high - low < MAX_STACK {
        let mapping = scene.maps.find(high - 8).filter(|mapping| mapping.start <= low);
        if let Some(mapping) = mapping {
            // A thread that waits in the kernel is deeper in its stack than when it released the lock.
            let near = mapping.start.max(low.saturating_sub(MAX_BEYOND))..low;
            let pointer = follower.highest(near).filter(|_| owner == Owner::Thread).unwrap_or(low);
            follower.range(from, pointer / 8 * 8..high)?;
        }
    }
    let words: Vec<u64> = context.bytes.chunks_exact(8).filter_map(|bytes| word(bytes, 0)).collect();
    words.into_iter().for_each(|value| follower.word(from, value));
    Ok(())
}
