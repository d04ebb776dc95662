//! One look at everything that glibc's malloc manages: all arenas, all chunks, each byte's use.

use super::arena::ArenaError;
use super::at_rest::AtRest;
use super::layout::{FLAGS, PREV_IN_USE, WORD};
use super::marks::Marks;
use super::observer::Observer;
use super::parameters::ParameterValues;
use super::spans::LiveSpan;
use super::tcache::Caches;
use super::teller::{Knowledge, SpanTally};
use super::trim::TopRule;
use super::walk::{READINGS, Walker};
use super::{ArenaState, Glibc};
use crate::model::Note;
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;
use unbloat_process::resident::word_if_resident;
use unbloat_process::{Backing, Maps, Memory, PAGE_SIZE, Pid, ResidentOnly, Result, Thread};

/// What one arena was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedArena {
    /// As it was when its walk began.
    pub state: ArenaState,
    /// Its spans: heaps, or the runs of the main arena.
    pub spans: Vec<Range<u64>>,
    /// Its bytes.
    pub tally: SpanTally,
}

/// What all arenas were found to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// The main arena first.
    pub arenas: Vec<SurveyedArena>,
    /// The settings in force.
    pub parameters: Option<ParameterValues>,
    /// The threads and their caches.
    pub caches: Caches,
    /// How long the target was stopped.
    pub stopped: Duration,
    /// What could not be told.
    pub notes: Vec<Note>,
}

/// What a survey is told beforehand.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// Stop this process while each span is walked; `None`: stop nothing.
    pub stop: Option<Pid>,
    /// The process's mappings.
    pub maps: &'a Maps,
    /// Its threads.
    pub threads: &'a [Thread],
    /// Sorted, disjoint ranges that somebody else accounts for.
    pub claims: &'a [Range<u64>],
}

impl Survey {
    /// All memory that the arenas have, sorted.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<_> = self.arenas.iter().flat_map(|arena| arena.spans.clone()).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// The bytes of all arenas.
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
                survey.note("arenas-unreadable", format!("glibc's arenas cannot be read: {error}"));
                return Ok(survey);
            }
        };
        if let Some(error) = ring.broken {
            survey.note("arenas-incomplete", format!("Not all arenas were reached: {error}"));
        }
        let mut arenas = Vec::new();
        for state in ring.arenas {
            let spans = spans(glibc, memory, context.maps, survey.parameters.as_ref(), &state);
            arenas.push((state, spans.unwrap_or_default()));
        }
        survey.caches = read_caches(glibc, memory, context.threads, &arenas)?;
        let mut walker = Walker::new(memory);
        for (state, _) in arenas {
            survey.add_arena(glibc, memory, context, &mut walker, state, observer)?;
        }
        Ok(survey)
    }

    /// Walks the spans of one arena. They are asked for again before each: heaps come and go.
    fn add_arena(
        &mut self,
        glibc: &Glibc,
        memory: &dyn Memory,
        context: Context<'_>,
        walker: &mut Walker<'_>,
        state: ArenaState,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let mut arena = SurveyedArena { state, spans: Vec::new(), tally: SpanTally::default() };
        let mut walked = HashSet::new();
        loop {
            let rest = |pid| AtRest::of(pid, memory, arena.state.address);
            let rest = context.stop.map(rest).transpose()?;
            let spans = self.spans_now(glibc, memory, context.maps, &mut arena.state);
            let next = spans.iter().find(|live| walked.insert(live.span.range.start));
            let tally = next.map(|live| {
                self.walk_span(glibc, memory, context, walker, (&arena.state, &spans, live), observer)
            });
            if let Some(rest) = rest {
                self.note_lock(&rest, &arena.state);
                self.stopped += rest.end();
            }
            let (Some(live), Some(tally)) = (next, tally.transpose()?) else { break };
            arena.tally.add(&tally);
            arena.spans.push(live.range());
        }
        self.arenas.push(arena);
        Ok(())
    }

    /// The spans of an arena as they are now; `state` becomes what the arena is now.
    fn spans_now(
        &mut self,
        glibc: &Glibc,
        memory: &dyn Memory,
        maps: &Maps,
        state: &mut ArenaState,
    ) -> Vec<LiveSpan> {
        let mut last = None;
        for _ in 0..READINGS {
            if let Ok(again) = glibc.reread(&ResidentOnly::new(memory), state) {
                *state = again;
            }
            match spans(glibc, memory, maps, self.parameters.as_ref(), state) {
                Ok(spans) => return spans,
                Err(error) => last = Some(error),
            }
        }
        if let Some(error) = last {
            self.note("heaps-unreadable", format!("The arena at {:#x} was left out: {error}", state.address));
        }
        Vec::new()
    }

    /// Walks one span. What changes quickly is read as late as can be: the fastbins right before, and the thread caches,
    /// too, while the target is stopped.
    fn walk_span(
        &mut self,
        glibc: &Glibc,
        memory: &dyn Memory,
        context: Context<'_>,
        walker: &mut Walker<'_>,
        (state, spans, live): (&ArenaState, &[LiveSpan], &LiveSpan),
        observer: &mut dyn Observer,
    ) -> Result<SpanTally> {
        let fast = glibc.fastbin_chunks(memory, state, spans)?;
        if context.stop.is_some() {
            self.caches.reread(glibc, memory)?;
        }
        let knowledge = Knowledge {
            cached: &self.caches.chunks,
            fast: &fast,
            own: &self.caches.structures,
            claims: context.claims,
            top_rule: self.top_rule(live, merged_from(memory, state.top, &fast)?, context.maps),
        };
        walker.walk(&live.span, &knowledge, &mut || live.frontier(memory), observer)
    }

    fn top_rule(&self, live: &LiveSpan, merged_from: u64, maps: &Maps) -> TopRule {
        if !live.span.has_top {
            return TopRule { merged_from: u64::MAX, cuttable: false, unit: PAGE_SIZE };
        }
        let ends_at_break = maps.iter().any(|m| m.backing == Backing::Brk && m.end == live.span.range.end);
        let huge = self.parameters.map_or(0, |p| p.thp_pagesize);
        TopRule { merged_from, cuttable: live.span.main && ends_at_break, unit: huge.max(PAGE_SIZE) }
    }

    fn note_lock(&mut self, rest: &AtRest, state: &ArenaState) {
        if rest.locked() {
            self.note(
                "arena-locked",
                format!(
                    "The arena at {:#x} was in use each time the process was stopped: a thread stands still in the middle \
                     of a change. The chunk that it works on may be counted as unsettled.",
                    state.address
                ),
            );
        }
    }

    fn note(&mut self, code: &'static str, text: String) {
        self.notes.push(Note { code, text });
    }
}

/// The spans of an arena.
pub(super) fn spans(
    glibc: &Glibc,
    memory: &dyn Memory,
    maps: &Maps,
    parameters: Option<&ParameterValues>,
    arena: &ArenaState,
) -> Result<Vec<LiveSpan>, ArenaError> {
    if arena.main {
        return Ok(LiveSpan::of_break(glibc, arena, parameters, memory, maps).into_iter().collect());
    }
    let heaps = glibc.heaps(&ResidentOnly::new(memory), arena)?;
    Ok(heaps.iter().enumerate().map(|(i, heap)| LiveSpan::of_heap(glibc, arena, heap, i == 0)).collect())
}

fn read_caches(
    glibc: &Glibc,
    memory: &dyn Memory,
    threads: &[Thread],
    arenas: &[(ArenaState, Vec<LiveSpan>)],
) -> Result<Caches> {
    let addresses: Vec<u64> = arenas.iter().map(|(arena, _)| arena.address).collect();
    let mut spans: Vec<_> = arenas.iter().flat_map(|(_, spans)| spans).map(LiveSpan::range).collect();
    spans.sort_by_key(|span| span.start);
    Caches::read(glibc, memory, threads, &addresses, &spans)
}

/// From where on freed chunks become part of the top when the fastbins are emptied: fastbin chunks that touch it, and
/// free chunks before those.
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
