//! The verdict: the meaning of a report's figures in plain words, and the actions to take, largest gain
//! first.
//!
//! A pure function of the report: every sentence rests on figures that the same output shows. One inspection
//! cannot tell growth from size, so nothing here speaks of growth. The `code` of a finding is stable; its
//! wording is not.
//!
//! | module | concept |
//! |---|---|
//! | [`mod@self`] | the findings that a process gets, and their order |
//! | `live` | the owners of live memory, and garbage |
//! | `advice` | the exact lines and where to put them |
//! | `tree` | findings about several processes together |

mod advice;
mod live;
mod tree;

pub use tree::of_tree;

use crate::allocators::{Release, jemalloc};
use crate::iec::Iec;
use crate::model::{Action, AllocatorKind, Arena, Category, Finding, FindingCode, ProcessReport};

/// Minimum size in bytes for a finding about a part of the memory.
const WORTH_BYTES: u64 = 1 << 20;

/// Minimum share of the resident bytes for such a finding.
const WORTH_SHARE: f64 = 0.01;

/// Share of bloat below which a process counts as lean.
const LEAN_SHARE: f64 = 0.05;

/// The cure for memory that an allocator has stranded.
#[derive(Debug)]
pub struct Cure {
    /// The cure in words, as a sentence.
    pub text: &'static str,
    /// Suggested actions, the first one to be tried first.
    pub actions: Vec<Action>,
}

impl Default for Cure {
    fn default() -> Self {
        Cure { text: "A restart clears it.", actions: Vec::new() }
    }
}

/// A finding with the number of bytes it concerns, by which findings are ordered.
struct Weighed {
    bytes: u64,
    finding: Finding,
}

/// Returns the verdict on one process: the summary, then the possible actions by gain, then an explanation of
/// the rest. Empty for a process without memory (a kernel thread, a zombie).
#[must_use]
pub fn of(report: &ProcessReport) -> Vec<Finding> {
    if report.rss_bytes == 0 {
        return vec![];
    }
    let mut remedies: Vec<_> = [trimmable(report), stranded(report), cached(report), ruby_free_slots(report)]
        .into_iter()
        .chain([other_allocator(report)])
        .flatten()
        .collect();
    remedies.sort_by_key(|weighed| std::cmp::Reverse(weighed.bytes));
    let mut findings = vec![summary(report)];
    findings.extend(runtime(report));
    findings.extend(remedies.into_iter().map(|weighed| weighed.finding));
    findings.extend(jemalloc::verdict::findings(report));
    findings.extend(
        [live::live(report), live::waiting(report), unsettled(report), swapped(report)].into_iter().flatten(),
    );
    findings
}

fn finding(code: FindingCode, text: String, actions: Vec<Action>, gain_bytes: Option<u64>) -> Finding {
    Finding { code, text, actions, gain_bytes }
}

fn worth(report: &ProcessReport, bytes: u64) -> bool {
    bytes >= WORTH_BYTES && bytes as f64 >= report.rss_bytes as f64 * WORTH_SHARE
}

fn percent(part: u64, whole: u64) -> String {
    match (part as f64 / whole.max(1) as f64 * 100.0, part) {
        (_, 0) => "0 %".to_owned(),
        (share, _) if share < 1.0 => "under 1 %".to_owned(),
        (share, _) => format!("{share:.0} %"),
    }
}

fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

fn summary(report: &ProcessReport) -> Finding {
    let census = &report.census;
    let hidden = census.bytes(Category::NotReadable);
    if hidden == report.rss_bytes {
        let text =
            format!("The use of the {} resident is unknown: we may not read the process.", Iec(hidden));
        return finding(FindingCode::NotReadable, text, vec![Action::InspectAsRoot(report.pid)], None);
    }
    let live = census.live();
    let total = Iec(report.rss_bytes);
    let Some(bloat) = census.bloat() else {
        let text = format!(
            "Of {total} resident, {} are live Ruby objects and identified chunks; how much of the rest is \
             freed memory is unknown, because the allocator's heap is not read.",
            Iec(live)
        );
        return finding(FindingCode::Summary, text, vec![], None);
    };
    let rest = report.rss_bytes.saturating_sub(live.saturating_add(bloat));
    let others = match census.bytes(Category::RubyFree) {
        0 => "the program, its libraries, stacks and other memory",
        _ => "the program, its libraries, stacks, Ruby's free slots and other memory",
    };
    if (bloat as f64) < report.rss_bytes as f64 * LEAN_SHARE {
        let text = format!(
            "This process is lean: of {total} resident, the application holds {} and only {} ({}) is bloat. The \
             other {} are {others}.",
            Iec(live),
            Iec(bloat),
            percent(bloat, report.rss_bytes),
            Iec(rest)
        );
        return finding(FindingCode::Lean, text, vec![], None);
    }
    let text = format!(
        "Of {total} resident, the application holds {} and {} ({}) is bloat: memory that it has freed and the process \
         keeps. The other {} are {others}.",
        Iec(live),
        Iec(bloat),
        percent(bloat, report.rss_bytes),
        Iec(rest)
    );
    finding(FindingCode::Bloat, text, vec![], None)
}

/// Describes what `unbloat run` already does for this process.
fn runtime(report: &ProcessReport) -> Option<Finding> {
    let runtime = report.runtime.as_ref()?;
    let done = match runtime.trims {
        0 => "it has not had to return anything yet".to_owned(),
        trims => {
            format!("it has returned {} in {} so far", Iec(runtime.returned_bytes), count(trims, "trim"))
        }
    };
    let mut text = format!("The process runs under unbloat run with the policy {}: {done}.", runtime.policy);
    let problem = runtime.problem.as_ref();
    problem.iter().for_each(|problem| text.push_str(&format!(" It does not work as it should: {problem}.")));
    let actions = problem.map(|_| Action::Status(report.pid)).into_iter().collect();
    Some(finding(FindingCode::Runtime, text, actions, None))
}

fn trimmable(report: &ProcessReport) -> Option<Weighed> {
    let bytes = report.trimmable_bytes()?;
    worth(report, bytes).then(|| {
        let text = format!(
            "{} would come back at once: freed memory in whole pages, which the allocator keeps for later.",
            Iec(bytes)
        );
        Weighed {
            bytes,
            finding: finding(FindingCode::Trimmable, text, vec![Action::Trim(report.pid)], Some(bytes)),
        }
    })
}

fn stranded(report: &ProcessReport) -> Option<Weighed> {
    let bytes = report.census.stranded()?;
    worth(report, bytes).then(|| {
        let arenas = report.allocator.as_ref().map_or(&[][..], |allocator| &allocator.arenas);
        let kind = report.allocator.as_ref().map(|allocator| allocator.kind);
        let cure = kind.and_then(|kind| kind.descriptor()?.stranded_cure);
        let Cure { text: cure, actions } = cure.map_or_else(Cure::default, |cure| cure(report));
        let holes = report.census.bytes(Category::MallocHoles);
        let holes = if worth(report, holes) { format!(" ({} of it in whole pages)", Iec(holes)) } else { String::new() };
        let text = format!(
            "{} is stranded{}{holes}: freed, but on pages that something live shares, so nothing can return it without \
             moving data. {cure}",
            Iec(bytes),
            spread(arenas, report.threads)
        );
        Weighed { bytes, finding: finding(FindingCode::Stranded, text, actions, None) }
    })
}

/// Describes how many arenas the stranded memory is spread over: ` in 12 arenas (17 threads), 40.1 MiB of it
/// outside the main one`.
fn spread(arenas: &[Arena], threads: u64) -> String {
    let holding = arenas.iter().filter(|arena| arena.stranded_bytes > 0).count() as u64;
    let outside: u64 = arenas.iter().filter(|arena| !arena.main).map(|arena| arena.stranded_bytes).sum();
    match (holding, outside) {
        (0, _) => String::new(),
        (_, 0) => " in the main arena".to_owned(),
        (_, _) => format!(
            " in {} ({}), {} of it outside the main one",
            count(holding, "arena"),
            count(threads, "thread"),
            Iec(outside)
        ),
    }
}

fn cached(report: &ProcessReport) -> Option<Weighed> {
    let bytes = report.census.cached()?;
    worth(report, bytes).then(|| {
        let text = format!(
            "{} is cached: freed chunks that {} keep at hand for their next allocations. It is released \
             when a thread ends; fewer threads cache less.",
            Iec(bytes),
            count(report.threads, "thread")
        );
        Weighed { bytes, finding: finding(FindingCode::Cached, text, vec![], None) }
    })
}

fn ruby_free_slots(report: &ProcessReport) -> Option<Weighed> {
    let ruby = report.ruby.as_ref()?;
    let free = report.census.bytes(Category::RubyFree);
    worth(report, free).then(|| {
        let compactable = ruby.compactable_pages * ruby.page_bytes;
        let mut text = format!(
            "Ruby keeps {} of free slots ({} of its slots) for future objects. That is not bloat",
            Iec(free),
            percent(ruby.free_slots(), ruby.slots())
        );
        let compacts = worth(report, compactable);
        text.push_str(&if compacts {
            format!(
                "; but packed together, the live objects would leave {} ({}) empty.",
                count(ruby.compactable_pages, "page"),
                Iec(compactable)
            )
        } else {
            ".".to_owned()
        });
        let actions = if compacts { advice::compact(ruby, report.command.raw()) } else { vec![] };
        let gain = compacts.then_some(compactable);
        Weighed {
            bytes: gain.unwrap_or(0),
            finding: finding(FindingCode::RubyFreeSlots, text, actions, gain),
        }
    })
}

fn other_allocator(report: &ProcessReport) -> Option<Weighed> {
    let allocator = report.allocator.as_ref()?;
    let bytes = report.census.bytes(Category::AllocatorOther);
    (allocator.kind != AllocatorKind::Glibc && worth(report, bytes)).then(|| {
        let holds = format!("{} holds {}.", allocator.kind.name(), Iec(bytes));
        let (text, actions) = match allocator.kind.descriptor().map(|descriptor| &descriptor.release) {
            Some(Release::Call(_)) => (
                format!("{holds} It can be asked to return its free memory."),
                vec![Action::Trim(report.pid)],
            ),
            Some(Release::Never(_)) => (holds, vec![]),
            None => (format!("An unknown allocator holds {}.", Iec(bytes)), vec![]),
        };
        Weighed { bytes, finding: finding(FindingCode::AllocatorNotWalked, text, actions, None) }
    })
}

fn unsettled(report: &ProcessReport) -> Option<Finding> {
    let bytes = report.census.bytes(Category::Unsettled);
    (bytes > 0).then(|| {
        let text = format!(
            "{} of heap kept changing while it was read and is not broken down. Try again at a quieter \
             moment, or stop the process meanwhile with --stop.",
            Iec(bytes)
        );
        finding(FindingCode::Unsettled, text, vec![Action::Stop(report.pid)], None)
    })
}

fn swapped(report: &ProcessReport) -> Option<Finding> {
    let bytes = report.swap_bytes.filter(|&bytes| bytes >= WORTH_BYTES)?;
    let text = format!("{} more are swapped out: not resident, not in these figures, not read.", Iec(bytes));
    Some(finding(FindingCode::Swapped, text, vec![], None))
}

#[cfg(test)]
mod tests;
