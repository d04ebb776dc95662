//! One pass over everything that glibc's malloc manages: all arenas, all chunks, each byte's use.

use super::accounting::{Knowledge, SpanTally};
use super::at_rest::{AtRest, Lock};
use super::layout::{FLAGS, HEAP_MAX, PREV_IN_USE, WORD};
use super::marks::Marks;
use super::observer::Observer;
use super::parameters::ParameterValues;
use super::spans::{LiveSpan, SpanFacts};
use super::tcache::Caches;
use super::trim::TopRule;
use super::walk::{READINGS, Walker};
use super::{ArenaState, Glibc};
use crate::Iec;
use crate::model::{Note, NoteCode};
use crate::ranges::joined;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;
use unbloat_process::resident::word_if_resident;
use unbloat_process::{Backing, Maps, Memory, Pid, ResidentOnly, Result, Thread, page_size};

/// The findings for one arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedArena {
    /// The arena's state when its walk began.
    pub state: ArenaState,
    /// Its spans: heaps, or the runs of the main arena.
    pub spans: Vec<Range<u64>>,
    /// Its bytes by use.
    pub tally: SpanTally,
}

/// The findings for all arenas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The arenas, the main one first.
    pub arenas: Vec<SurveyedArena>,
    /// The settings in force.
    pub parameters: Option<ParameterValues>,
    /// The threads and their caches.
    pub caches: Caches,
    /// The main arena's memory that is not on the program break.
    pub runs: Vec<Range<u64>>,
    /// Time for which the target was stopped.
    pub stopped: Duration,
    /// Notes on everything missing from the result.
    pub notes: Vec<Note>,
}

/// The input of a survey.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The process to stop while each span is walked; `None` to stop nothing.
    pub stop: Option<Pid>,
    /// The process's mappings.
    pub maps: &'a Maps,
    /// Its threads.
    pub threads: &'a [Thread],
    /// Sorted, disjoint ranges accounted for elsewhere.
    pub claims: &'a [Range<u64>],
}

impl Survey {
    /// Returns all memory of the arenas, sorted.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self.arenas.iter().flat_map(|arena| arena.spans.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Returns the bytes of all arenas.
    #[must_use]
    pub fn total(&self) -> SpanTally {
        let mut total = SpanTally::default();
        self.arenas.iter().for_each(|arena| total.add(&arena.tally));
        total
    }

    /// Walks all arenas.
    ///
    /// # Errors
    /// The process is gone or may not be read, or the main arena cannot be read.
    pub fn take(
        glibc: &Glibc,
        memory: &dyn Memory,
        context: Context<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let mut survey = Survey::default();
        let careful = ResidentOnly::new(memory);
        survey.parameters = glibc.parameters.and_then(|p| p.read(&careful).ok());
        let ring = match glibc.arenas(&careful) {
            Ok(ring) => ring,
            Err(error) => {
                survey.note(NoteCode::ArenasUnreadable, format!("glibc's arenas cannot be read: {error}."));
                return Ok(survey);
            }
        };
        if let Some(error) = ring.broken {
            survey.note(NoteCode::ArenasIncomplete, format!("Not all arenas were reached: {error}."));
        }
        let mut facts =
            SpanFacts { glibc, memory, maps: context.maps, parameters: survey.parameters, runs: Vec::new() };
        let spans: Vec<_> =
            ring.arenas.iter().flat_map(|state| facts.spans(state).unwrap_or_default()).collect();
        if let Some(main) = ring.arenas.first() {
            facts.find_runs(main, &spans)?;
        }
        survey.caches = read_caches(&facts, context.threads, &ring.arenas, spans)?;
        let mut walker = Walker::new(memory);
        for state in ring.arenas {
            survey.add_arena(&facts, context, &mut walker, state, observer)?;
        }
        survey.runs = facts.runs;
        Ok(survey)
    }

    /// Walks the spans of one arena. They are listed again before each walk, because heaps come and go.
    fn add_arena(
        &mut self,
        facts: &SpanFacts<'_>,
        context: Context<'_>,
        walker: &mut Walker<'_>,
        state: ArenaState,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let bytes_before = state.system_mem;
        let mut arena = SurveyedArena { state, spans: Vec::new(), tally: SpanTally::default() };
        let mut walked = HashSet::new();
        let mut chain = None;
        loop {
            let stop = |pid| AtRest::of(pid, facts.memory, arena.state.address);
            let at_rest = context.stop.map(stop).transpose()?;
            let spans = self.spans_now(facts, &mut arena.state, &mut chain);
            let round = round(facts.memory, &spans, &mut walked);
            let tallies = self.walk_round(facts, context, walker, (&arena.state, &spans, &round), observer);
            if let Some(at_rest) = at_rest {
                self.note_lock(&at_rest, &arena.state);
                self.stopped += at_rest.end();
            }
            for (live, tally) in round.iter().zip(tallies?) {
                arena.tally.add(&tally);
                arena.spans.push(live.range());
            }
            if round.is_empty() {
                break;
            }
        }
        self.note_missing(&arena, bytes_before);
        self.arenas.push(arena);
        Ok(())
    }

    /// Returns the current spans of an arena and updates `state`. A chain of heaps that is still the same is not followed
    /// again: it may be long, and there is a round for every few of its heaps.
    fn spans_now(
        &mut self,
        facts: &SpanFacts<'_>,
        state: &mut ArenaState,
        chain: &mut Option<Chain>,
    ) -> Vec<LiveSpan> {
        let mut last = None;
        for _ in 0..READINGS {
            if let Ok(again) = facts.glibc.reread(&ResidentOnly::new(facts.memory), state) {
                *state = again;
            }
            if let Some(same) = chain.as_ref().filter(|chain| chain.is_of(state)) {
                return same.spans.clone();
            }
            match facts.spans(state) {
                Ok(spans) => {
                    *chain = Chain::of(state, &spans);
                    return spans;
                }
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last {
            self.note(
                NoteCode::HeapsUnreadable,
                format!("The arena at {:#x} was left out: {error}.", state.address),
            );
        }
        Vec::new()
    }

    /// Walks some spans. Quickly changing data is read as late as possible: the fastbins right before the
    /// walk, and with a stopped target the thread caches too.
    fn walk_round(
        &mut self,
        facts: &SpanFacts<'_>,
        context: Context<'_>,
        walker: &mut Walker<'_>,
        (state, spans, round): (&ArenaState, &[LiveSpan], &[&LiveSpan]),
        observer: &mut dyn Observer,
    ) -> Result<Vec<SpanTally>> {
        let memory = facts.memory;
        let fast = facts.glibc.fastbin_chunks(memory, state, spans)?;
        if context.stop.is_some() {
            self.caches.reread(facts.glibc, memory)?;
        }
        let merged_from = merged_from(memory, state.top, &fast)?;
        let mut tallies = Vec::with_capacity(round.len());
        for live in round {
            let knowledge = Knowledge {
                cached: &self.caches.chunks,
                fast: &fast,
                own: &self.caches.structures,
                claims: context.claims,
                top_rule: self.top_rule(live, merged_from, context.maps),
            };
            tallies.push(walker.walk(&live.span, &knowledge, &mut || live.frontier(memory), observer)?);
        }
        Ok(tallies)
    }

    fn top_rule(&self, live: &LiveSpan, merged_from: u64, maps: &Maps) -> TopRule {
        if !live.span.has_top {
            return TopRule { merged_from: u64::MAX, cuttable: false, unit: page_size() };
        }
        let ends_at_break = maps.iter().any(|m| m.backing == Backing::Brk && m.end == live.span.range.end);
        let huge = self.parameters.map_or(0, |p| p.thp_pagesize);
        TopRule { merged_from, cuttable: live.span.main && ends_at_break, unit: huge.max(page_size()) }
    }

    fn note_lock(&mut self, at_rest: &AtRest, state: &ArenaState) {
        match at_rest.lock() {
            Lock::Free => {}
            Lock::Held => self.note(
                NoteCode::ArenaLocked,
                format!(
                    "The arena at {:#x} was in use every time the process was stopped: a thread was in the \
                     middle of a change. The chunk it was changing may be counted as unsettled.",
                    state.address
                ),
            ),
            Lock::Unknown => self.note(
                NoteCode::ArenaLockUnknown,
                format!(
                    "The lock of the arena at {:#x} cannot be read: a thread may have been stopped in the \
                     middle of a change. The chunk it was changing may be counted as unsettled.",
                    state.address
                ),
            ),
        }
    }

    /// Notes unrecognized memory of a main arena that is not on the program break alone. Memory that it
    /// obtained since `bytes_before` were counted is ignored.
    fn note_missing(&mut self, arena: &SurveyedArena, bytes_before: u64) {
        let found: u64 = arena.spans.iter().map(|span| span.end - span.start).sum();
        let missing = bytes_before.min(arena.state.system_mem).saturating_sub(found);
        if arena.state.main && arena.state.noncontiguous && missing > 0 {
            self.note(
                NoteCode::MainArenaIncomplete,
                format!(
                    "The program break could not grow, so malloc mapped memory for the main arena \
                     elsewhere: {} of it was not recognized and is counted as other anonymous memory.",
                    Iec(missing)
                ),
            );
        }
    }

    /// Adds a note once, even if several rounds through an arena find the same.
    fn note(&mut self, code: NoteCode, text: String) {
        let note = Note::new(code, text);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The heaps of an arena, and the values by which they are known to be the same still: a heap that is added or removed
/// changes both (`sysmalloc` and `heap_trim`), one that grows or shrinks the bytes.
struct Chain {
    newest: u64,
    system_mem: u64,
    spans: Vec<LiveSpan>,
}

impl Chain {
    /// `None` for the main arena, which has no heaps.
    fn of(state: &ArenaState, spans: &[LiveSpan]) -> Option<Self> {
        let (newest, system_mem) = (state.newest_heap(), state.system_mem);
        (!state.main).then(|| Chain { newest, system_mem, spans: spans.to_vec() })
    }

    fn is_of(&self, state: &ArenaState) -> bool {
        (self.newest, self.system_mem) == (state.newest_heap(), state.system_mem)
    }
}

/// Returns the spans to walk next: one, or several complete ones that together have no more memory than a heap.
fn round<'a>(memory: &dyn Memory, spans: &'a [LiveSpan], walked: &mut HashSet<u64>) -> Vec<&'a LiveSpan> {
    let (mut round, mut bytes): (Vec<&LiveSpan>, u64) = (Vec::new(), 0);
    for live in spans.iter().filter(|live| !walked.contains(&live.span.range.start)) {
        bytes += memory.populated(&live.span.range).iter().map(|part| part.end - part.start).sum::<u64>();
        if !round.is_empty() && (bytes > HEAP_MAX || !live.is_complete()) {
            break;
        }
        round.push(live);
    }
    walked.extend(round.iter().map(|live| live.span.range.start));
    round
}

/// Reads the thread caches. `spans`: those of the arenas except the main arena's runs.
fn read_caches(
    facts: &SpanFacts<'_>,
    threads: &[Thread],
    arenas: &[ArenaState],
    spans: Vec<LiveSpan>,
) -> Result<Caches> {
    let addresses: Vec<u64> = arenas.iter().map(|arena| arena.address).collect();
    let spans = joined(spans.iter().map(LiveSpan::range).chain(facts.runs.clone()).collect());
    Caches::read(facts.glibc, facts.memory, threads, &addresses, &spans)
}

/// Returns the address from which freed chunks become part of the top when the fastbins are emptied: fastbin
/// chunks that touch the top, and free chunks before those.
fn merged_from(memory: &dyn Memory, top: u64, fast: &Marks) -> Result<u64> {
    let mut from = top;
    while let Some(chunk) = fast.last_before(from) {
        let (foot, head) = (word_if_resident(memory, chunk)?, word_if_resident(memory, chunk + WORD)?);
        let (Some(foot), Some(head)) = (foot, head) else { break };
        if chunk.checked_add(head & !FLAGS) != Some(from) {
            break;
        }
        let before = chunk.checked_sub(foot).filter(|_| head & PREV_IN_USE == 0 && foot != 0);
        from = match before.map(|before| word_if_resident(memory, before + WORD)) {
            Some(Ok(Some(size))) if size & !FLAGS == foot => chunk - foot,
            _ => chunk,
        };
    }
    Ok(from)
}
