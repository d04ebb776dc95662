//! Distinguishes damage from change.
//!
//! In a running program, a chunk is now and then seen in the middle of a change, and even twice in a row if
//! the thread changing it is preempted just then or changes the same chunk over and over. Damage persists:
//! the same words are in the same place at every later look, reached from the start of the heap while nobody
//! holds the arena's lock. Anything that does not persist was a change, and its bytes are unsettled.

use super::Glibc;
use super::accounting::Knowledge;
use super::chunk::Break;
use super::marks::Marks;
use super::spans::{LiveSpan, SpanFacts};
use super::survey::{Survey, SurveyedArena};
use super::trim::TopRule;
use super::walk::Walker;
use crate::model::{Note, NoteCode};
use std::time::Duration;
use unbloat_process::{Maps, Memory, ResidentOnly, Result, page_size};

/// Pauses before the later looks: short ones that outlast most changes, and one longer than a throttled
/// container stands still (`cpu.cfs_period_us`, 100 ms).
const PAUSES: [Duration; 4] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(120),
];
/// Maximum number of looks. A look while somebody holds the arena's lock proves nothing.
const TRIES: usize = 30;
/// Pause between two of those looks.
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// A place in a heap where a chunk must start but no look finds one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// Start of the heap.
    pub heap: u64,
    /// The invalid header.
    pub place: Break,
}

impl Damage {
    /// The damage as a note for the report.
    #[must_use]
    pub fn note(&self) -> Note {
        let [foot, head] = self.place.words;
        let text = format!(
            "The heap at {:#x} is damaged: at {:#x}, where a chunk must start, every look found {foot:#x} \
             and {head:#x}. The program has written beyond the end of a memory block; the bytes from there \
             to the next chunk are counted as unsettled.",
            self.heap, self.place.address
        );
        Note::new(NoteCode::HeapDamaged, text)
    }
}

impl Survey {
    /// Returns the first damaged place of each arena. Takes extra time (a few more looks) only if some place
    /// failed its checks.
    ///
    /// # Errors
    /// The process is gone or may not be read.
    pub fn damage(&self, glibc: &Glibc, memory: &dyn Memory, maps: &Maps) -> Result<Vec<Damage>> {
        let facts = SpanFacts { glibc, memory, maps, parameters: self.parameters, runs: self.runs.clone() };
        let suspects = |arena| Suspects { arena, places: arena.tally.breaks.clone(), looked: false };
        let mut suspects: Vec<Suspects<'_>> = self.arenas.iter().map(suspects).collect();
        suspects.retain(|suspects| !suspects.places.is_empty());
        if suspects.is_empty() {
            return Ok(Vec::new());
        }
        let mut walker = Walker::new(memory);
        for pause in PAUSES {
            std::thread::sleep(pause);
            look_again(&facts, &mut walker, &mut suspects)?;
            suspects.retain(|suspects| !suspects.places.is_empty());
        }
        Ok(suspects.iter().filter_map(Suspects::first).collect())
    }
}

/// The places of an arena that have failed their checks at every look so far.
struct Suspects<'a> {
    arena: &'a SurveyedArena,
    places: Vec<Break>,
    /// Tells whether this round has looked at them.
    looked: bool,
}

impl Suspects<'_> {
    fn first(&self) -> Option<Damage> {
        let place = *self.places.first()?;
        let span = self.arena.spans.iter().find(|span| span.contains(&place.address));
        Some(Damage { heap: span.map_or(0, |span| span.start), place })
    }
}

/// Keeps the places that fail their checks while nobody holds their arena's lock; none of an arena whose lock is always
/// held. All arenas are waited for together: a process may claim thousands, and lock each.
fn look_again(facts: &SpanFacts<'_>, walker: &mut Walker<'_>, suspects: &mut [Suspects<'_>]) -> Result<()> {
    suspects.iter_mut().for_each(|suspects| suspects.looked = false);
    for _ in 0..TRIES {
        for suspects in suspects.iter_mut().filter(|suspects| !suspects.looked) {
            if let Some(still) = look(facts, walker, suspects.arena)? {
                suspects.places.retain(|place| still.contains(place));
                suspects.looked = true;
            }
        }
        if suspects.iter().all(|suspects| suspects.looked) {
            return Ok(());
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    suspects.iter_mut().filter(|suspects| !suspects.looked).for_each(|suspects| suspects.places.clear());
    Ok(())
}

/// Returns the places of an arena that fail their checks; `None` if somebody held its lock.
fn look(facts: &SpanFacts<'_>, walker: &mut Walker<'_>, arena: &SurveyedArena) -> Result<Option<Vec<Break>>> {
    let careful = ResidentOnly::new(facts.memory);
    let at_rest = || facts.glibc.reread(&careful, &arena.state).ok().filter(|state| state.mutex == 0);
    let Some(state) = at_rest() else { return Ok(None) };
    let breaks = breaks(facts.memory, walker, &facts.spans(&state).unwrap_or_default())?;
    Ok(at_rest().map(|_| breaks))
}

fn breaks(memory: &dyn Memory, walker: &mut Walker<'_>, spans: &[LiveSpan]) -> Result<Vec<Break>> {
    let none = Marks::default();
    let top_rule = TopRule { merged_from: u64::MAX, cuttable: false, unit: page_size() };
    let knowledge = Knowledge { cached: &none, fast: &none, own: &none, claims: &[], top_rule };
    let mut breaks = Vec::new();
    for live in spans {
        let tally = walker.walk(&live.span, &knowledge, &mut || live.frontier(memory), &mut ())?;
        breaks.extend(tally.breaks);
    }
    Ok(breaks)
}
