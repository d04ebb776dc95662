//! The Ruby heap's part of an inspection: its pages are claimed before anybody else counts them.

use crate::cartography::Cartographer;
use crate::model::Category;
use crate::ruby::{Reading, Ruby};
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// What was found of a CRuby.
pub(super) struct Found {
    /// Its heap.
    pub(super) reading: Reading,
    /// Sorted ranges of the pages' bodies, for which nobody else accounts.
    pub(super) bodies: Vec<Range<u64>>,
    /// Other memory of its own: fiber stacks, the transient heap.
    pub(super) other: Vec<(Range<u64>, Category)>,
}

/// Looks for a CRuby and reads its heap, onto the map, too, if there is one.
pub(super) fn read(
    memory: &dyn Memory,
    maps: &Maps,
    pid: Pid,
    map: &mut Option<Cartographer<'_>>,
) -> Result<Option<Found>> {
    let Some(ruby) = Ruby::find(memory, maps, pid)? else { return Ok(None) };
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
    Ok(Some(Found { reading, bodies, other }))
}
