//! The Ruby heap's part of an inspection. Its pages are claimed before any other walk counts them.

use crate::cartography::Cartographer;
use crate::model::Category;
use crate::ruby::{Reading, Ruby};
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// The findings for a CRuby.
pub(super) struct Findings {
    /// The CRuby as found.
    pub(super) ruby: Ruby,
    /// The heap as read.
    pub(super) reading: Reading,
    /// Sorted ranges of the pages' bodies, which no other walk may count.
    pub(super) bodies: Vec<Range<u64>>,
    /// CRuby's other memory: fiber stacks, the transient heap.
    pub(super) other: Vec<(Range<u64>, Category)>,
}

/// Finds a CRuby and reads its heap, drawing it onto the map if there is one.
pub(super) fn read(
    memory: &dyn Memory,
    maps: &Maps,
    pid: Pid,
    map: &mut Option<Cartographer<'_>>,
) -> Result<Option<Findings>> {
    let Some(ruby) = Ruby::find(memory, maps, pid)? else { return Ok(None) };
    read_found(memory, maps, ruby, map).map(Some)
}

/// Reads the heap of a CRuby that was found.
pub(super) fn read_found(
    memory: &dyn Memory,
    maps: &Maps,
    ruby: Ruby,
    map: &mut Option<Cartographer<'_>>,
) -> Result<Findings> {
    if let (Some(map), Some(pages)) = (map.as_mut(), &ruby.pages) {
        map.open_ruby(pages)?;
    }
    let other = ruby.other_memory(memory, maps)?;
    let mut bodies: Vec<Range<u64>> = Vec::new();
    let reading = ruby.read(memory, maps, |range, category| {
        if let Some(map) = map {
            map.add(range.clone(), category);
        }
        match bodies.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => bodies.push(range),
        }
    })?;
    bodies.sort_by_key(|body| body.start);
    Ok(Findings { ruby, reading, bodies, other })
}
