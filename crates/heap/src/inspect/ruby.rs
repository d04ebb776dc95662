//! The Ruby heap's part of an inspection: its pages are claimed before anybody else counts them.

use crate::cartography::Cartographer;
use crate::ruby::{Reading, Ruby};
use std::ops::Range;
use unbloat_process::{Maps, Memory, Pid, Result};

/// Looks for a CRuby and reads its heap, onto the map, too, if there is one. Returns what was read and the sorted ranges
/// of the page bodies, for which nobody else accounts.
pub(super) fn read(
    memory: &dyn Memory,
    maps: &Maps,
    pid: Pid,
    map: &mut Option<Cartographer<'_>>,
) -> Result<Option<(Reading, Vec<Range<u64>>)>> {
    let Some(ruby) = Ruby::find(memory, maps, pid)? else { return Ok(None) };
    if let (Some(map), Some(pages)) = (map.as_mut(), &ruby.pages) {
        map.open_ruby(pages)?;
    }
    let mut claims: Vec<Range<u64>> = Vec::new();
    let reading = ruby.read(memory, maps, |range, category| {
        if let Some(map) = map {
            map.add(range.clone(), category);
        }
        match claims.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => claims.push(range),
        }
    })?;
    claims.sort_by_key(|claim| claim.start);
    Ok(Some((reading, claims)))
}
