//! Telling damage from change.
//!
//! In a program that runs, a chunk is now and then seen in the middle of a change, and twice in a row if the thread that
//! changes it loses its processor just then or changes the same chunk over and over. Damage stays: the same words stand in
//! the same place at every later look, from the start of the heap on and while nobody holds the arena's lock. What does
//! not stay was change, and its bytes are unsettled.

use super::Glibc;
use super::accounting::Knowledge;
use super::chunk::Break;
use super::marks::Marks;
use super::spans::{Ground, LiveSpan};
use super::survey::{Survey, SurveyedArena};
use super::trim::TopRule;
use super::walk::Walker;
use crate::model::{Note, NoteCode};
use std::time::Duration;
use unbloat_process::{Maps, Memory, PAGE_SIZE, ResidentOnly, Result};

/// Pauses before the later looks: short ones, which most changes do not outlast, and one longer than a container stands
/// still that has used up its share of the processor (`cpu.cfs_period_us`, 100 ms).
const PAUSES: [Duration; 4] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(120),
];
/// A look while somebody holds the arena's lock says nothing. So many are made.
const TRIES: usize = 30;
/// The pause between those.
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// A place in a heap where a chunk must start and none does, whenever it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Where the heap starts.
    pub heap: u64,
    /// The place.
    pub place: Break,
}

impl Damage {
    /// The damage as a report tells it.
    #[must_use]
    pub fn note(&self) -> Note {
        let [foot, head] = self.place.words;
        let text = format!(
            "The heap at {:#x} is damaged: at {:#x}, where a chunk must start, stand {foot:#x} and {head:#x}, each time \
             that it was looked at. The program has written beyond a block of memory; what lies between there and the \
             next chunk is counted as unsettled.",
            self.heap, self.place.address
        );
        Note::new(NoteCode::HeapDamaged, text)
    }
}

impl Survey {
    /// The first damaged place of each arena. Takes time, a few looks more, only if some place did not check.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn damage(&self, glibc: &Glibc, memory: &dyn Memory, maps: &Maps) -> Result<Vec<Damage>> {
        let ground = Ground { glibc, memory, maps, parameters: self.parameters, runs: self.runs.clone() };
        let mut found = Vec::new();
        for arena in &self.arenas {
            found.extend(damage(&ground, arena)?);
        }
        Ok(found)
    }
}

fn damage(ground: &Ground<'_>, arena: &SurveyedArena) -> Result<Option<Damage>> {
    let mut suspects = arena.tally.breaks.clone();
    for pause in PAUSES {
        if suspects.is_empty() {
            return Ok(None);
        }
        std::thread::sleep(pause);
        let still = look(ground, arena)?;
        suspects.retain(|suspect| still.contains(suspect));
    }
    let heap_of = |place: Break| {
        arena.spans.iter().find(|span| span.contains(&place.address)).map_or(0, |span| span.start)
    };
    Ok(suspects.first().map(|&place| Damage { heap: heap_of(place), place }))
}

/// The places of an arena that do not check while nobody holds its lock; none if somebody always does.
fn look(ground: &Ground<'_>, arena: &SurveyedArena) -> Result<Vec<Break>> {
    let careful = ResidentOnly::new(ground.memory);
    let at_rest = || ground.glibc.reread(&careful, &arena.state).ok().filter(|state| state.mutex == 0);
    for _ in 0..TRIES {
        if let Some(state) = at_rest() {
            let breaks = breaks(ground.memory, &ground.spans(&state).unwrap_or_default())?;
            if at_rest().is_some() {
                return Ok(breaks);
            }
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    Ok(Vec::new())
}

fn breaks(memory: &dyn Memory, spans: &[LiveSpan]) -> Result<Vec<Break>> {
    let none = Marks::default();
    let top_rule = TopRule { merged_from: u64::MAX, cuttable: false, unit: PAGE_SIZE };
    let knowledge = Knowledge { cached: &none, fast: &none, own: &none, claims: &[], top_rule };
    let mut walker = Walker::new(memory);
    let mut breaks = Vec::new();
    for live in spans {
        let tally = walker.walk(&live.span, &knowledge, &mut || live.frontier(memory), &mut ())?;
        breaks.extend(tally.breaks);
    }
    Ok(breaks)
}
