//! The graph of references: holders, garbage, and retained memory.
//!
//! | module | concept |
//! |---|---|
//! | `facts` | locations of references in objects, by version |
//! | `jobs` | structures in malloc memory to read, in rounds |
//! | `build` | the references of each type of object |
//! | `structures` | the references of structures in malloc memory |
//! | `shapes` | the shapes of objects (3.3) |
//! | `generic` | instance variables in separate tables |
//! | `weak` | tables that keep nothing alive |
//! | `conservative` | data wrapped by extensions, and chunks without an owner |
//! | `stacks` | the stacks of threads and fibers |
//! | `roots` | the starting points of the collector |
//! | `layout` | the compact graph |
//! | `dominators` | reachability and dominators |
//! | `holder` | the nearest holder of an object that has a name |
//! | `words` | descriptions of nodes and edges, for paths |
//!
//! Nodes are the slots by their numbers, then chunks of malloc memory that no object owns, then the roots,
//! then one above all roots.

pub(crate) mod build;
pub(crate) mod conservative;
pub(crate) mod dominators;
pub(crate) mod facts;
pub(crate) mod generic;
pub(crate) mod holder;
pub(crate) mod jobs;
pub(crate) mod layout;
pub(crate) mod roots;
pub(crate) mod shapes;
pub(crate) mod stacks;
pub(crate) mod structures;
pub(crate) mod weak;
pub(crate) mod words;

use super::chunks::Claims;
use super::owners::Owners;
use crate::closer::Scene;
use build::Builder;
use conservative::Follower;
use dominators::NONE;
use facts::Shape;
use jobs::{Blocks, Jobs, Kind};
use layout::{Adjacency, Edges};
use shapes::Shapes;
use unbloat_process::Result;

/// Maximum bytes of structures to read, beyond four times the memory allocated by malloc.
const BUDGET_BYTES: u64 = 256 << 20;
/// Maximum rounds of structures that lead to structures: a class's extension, its table, the items, an entry,
/// its entries.
const MAX_ROUNDS: usize = 16;

/// The graph of one Ruby.
pub(crate) struct Graph {
    /// Number of slots, including free ones: nodes below this are slots.
    pub(crate) slots: u32,
    /// The references.
    pub(crate) edges: Adjacency,
    /// Usable bytes of the chunks that are nodes.
    pub(crate) chunks: Vec<u64>,
    /// Names of the roots.
    pub(crate) roots: Vec<String>,
    /// The predecessor of each node on a shortest path.
    pub(crate) parents: Vec<u32>,
    /// Malloc bytes that each slot owns.
    pub(crate) owned: Vec<u64>,
    /// The shapes, if the version has them.
    pub(crate) shapes: Option<Shapes>,
    /// The readable part of the graph.
    pub(crate) coverage: crate::model::Coverage,
}

impl Graph {
    /// Reads the references of a Ruby; `None` if they are unknown for this version.
    ///
    /// # Errors
    /// The process is gone or may not be looked at.
    pub(crate) fn read(scene: &Scene<'_>) -> Result<Option<Self>> {
        let Some(facts) = &scene.facts.graph else { return Ok(None) };
        let claims = own(scene)?;
        let shapes = match facts.shape {
            Shape::Shapes => Shapes::find(scene.memory, scene.data)?,
            Shape::Tables => None,
        };
        let live: u64 = scene.chunks.map_or(0, super::chunks::Chunks::total);
        let mut builder = Builder {
            space: scene.space(),
            names: scene.texts().facts,
            facts,
            chunks: scene.chunks,
            shapes: shapes.as_ref(),
            edges: Edges::default(),
            jobs: Jobs::new(live.saturating_mul(4).saturating_add(BUDGET_BYTES)),
            wrapped: Vec::new(),
            dangling: 0,
        };
        let generic = precise(scene, &mut builder)?;
        let mut follower = Follower::new(&mut builder, scene, claims.as_ref());
        follower.weak.extend(generic);
        weak::add(scene, &mut follower)?;
        follower.wrapped(facts)?;
        roots::add(scene, facts, &mut follower)?;
        let (chunks, roots) = (follower.chunk_nodes, follower.roots);
        let slots = scene.space().len();
        let first_root = slots + chunks.len() as u32;
        let top = first_root + roots.len() as u32;
        for (i, (_, targets)) in roots.iter().enumerate() {
            let root = first_root + i as u32;
            targets.iter().for_each(|&to| builder.edges.add(root, to));
            builder.edges.add(top, root);
        }
        let taken = claims.as_ref().map(|claims| claims.bytes.iter().sum::<u64>());
        let coverage = crate::model::Coverage {
            structures: builder.jobs.read,
            unread: builder.jobs.unread,
            dangling: builder.dangling,
            dropped: builder.edges.dropped,
            explained_bytes: taken.map(|taken| taken + chunks.iter().sum::<u64>()),
        };
        drop(builder.jobs);
        let edges = builder.edges.lay_out(top + 1);
        let parents = dominators::parents(&edges, top);
        Ok(Some(Graph {
            slots,
            edges,
            chunks,
            roots: roots.into_iter().map(|(name, _)| name).collect(),
            parents,
            owned: claims.map(|claims| claims.bytes).unwrap_or_default(),
            shapes,
            coverage,
        }))
    }

    /// Returns the node above all roots.
    pub(crate) fn top(&self) -> u32 {
        self.edges.nodes().saturating_sub(1)
    }

    /// Returns whether a root reaches the node.
    pub(crate) fn is_reached(&self, node: u32) -> bool {
        self.parents.get(node as usize).is_some_and(|&parent| parent != NONE)
    }

    /// Returns the malloc bytes that the object in a slot owns, or that a chunk has.
    pub(crate) fn malloc_bytes(&self, node: u32) -> u64 {
        match node.checked_sub(self.slots) {
            None => self.owned.get(node as usize).copied().unwrap_or(0),
            Some(chunk) => self.chunks.get(chunk as usize).copied().unwrap_or(0),
        }
    }

    /// Returns the nodes from a root to this one, the root first; empty if no root reaches it.
    pub(crate) fn path(&self, node: u32) -> Vec<u32> {
        let mut path = Vec::new();
        let mut at = node;
        while self.is_reached(at) && at != self.top() && path.len() < self.parents.len() {
            path.push(at);
            at = self.parents[at as usize];
        }
        path.reverse();
        path
    }
}

/// Finds the chunks that each object owns, by the number of its slot.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn own<'a>(scene: &Scene<'a>) -> Result<Option<Claims<'a>>> {
    let claims = scene.chunks.map(|chunks| Claims::new(chunks, None));
    let owners = claims.and_then(|claims| Owners::of(scene.version, scene.memory, scene.maps, claims));
    let Some(mut owners) = owners else { return Ok(None) };
    for (number, slot) in scene.space().objects() {
        owners.visit(slot, number);
    }
    owners.finish().map(Some)
}

/// Collects the references that the collector marks exactly. Returns the chunks of the table of generic
/// instance variables.
fn precise(scene: &Scene<'_>, builder: &mut Builder<'_>) -> Result<Vec<u64>> {
    for (number, slot) in scene.space().objects() {
        builder.visit(number, &slot);
    }
    let wrapped = builder.wrapped.clone();
    for (number, pointer) in wrapped {
        let slot = scene.space().slot(number);
        let name = slot.and_then(|slot| scene.types.name(scene.types.of(&slot)?));
        if matches!(name.as_deref(), Some("proc" | "binding")) {
            builder.jobs.ask(Kind::Block, (pointer, 40), 8, number);
        }
    }
    let generic = generic::add(scene, builder)?;
    let mut blocks = Blocks::new(scene.memory);
    for _ in 0..MAX_ROUNDS {
        let jobs = builder.jobs.round();
        if jobs.is_empty() {
            break;
        }
        for job in &jobs {
            match blocks.bytes(job.address, job.bytes)? {
                Some(bytes) => {
                    builder.jobs.read += 1;
                    builder.read(job, bytes);
                }
                None => builder.jobs.unread += 1,
            }
        }
    }
    Ok(generic)
}
