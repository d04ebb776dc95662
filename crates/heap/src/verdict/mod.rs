//! The verdict: what the figures of a report mean, in plain words, and what to do, the largest gain first.
//!
//! A pure function of the report: every sentence rests on figures that the same output shows. One look cannot tell
//! growth from size, so nothing here speaks of growth. The `code` of a finding is stable; its wording is not.
//!
//! | module | concept |
//! |---|---|
//! | [`mod@self`] | which findings a process gets, and their order |
//! | `advice` | the exact lines to put where |
//! | `tree` | findings about several processes together |

mod advice;
mod tree;

pub use tree::of_tree;

use crate::allocators::{Release, jemalloc};
use crate::iec::Iec;
use crate::model::{Action, AllocatorKind, Arena, Category, Finding, ProcessReport, RubyHeap, Server};

/// Below this many bytes a finding about something other than the whole is not worth a line.
const WORTH_BYTES: u64 = 1 << 20;

/// Below this share of the resident bytes, neither.
const WORTH_SHARE: f64 = 0.01;

/// Below this share of bloat a process counts as lean.
const LEAN_SHARE: f64 = 0.05;

/// A finding with the bytes that it is about, by which findings are ordered.
struct Weighed {
    bytes: u64,
    finding: Finding,
}

/// The verdict on one process: the summary, then what can be done by gain, then what the rest is. Empty for a process
/// without memory (a thread of the kernel, a zombie).
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
    findings.extend([live(report), unsettled(report), swapped(report)].into_iter().flatten());
    findings
}

fn finding(code: &'static str, text: String, actions: Vec<Action>, gain_bytes: Option<u64>) -> Finding {
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
        let text = format!(
            "What the {} resident are used for cannot be told: we may not read the process.",
            Iec(hidden)
        );
        return finding("not-readable", text, vec![Action::InspectAsRoot(report.pid)], None);
    }
    let live = census.live();
    let total = Iec(report.rss_bytes);
    let Some(bloat) = census.bloat() else {
        let text = format!(
            "Of {total} resident, {} are live objects of the Ruby heap and chunks that can be told; how much of the \
             rest is freed memory cannot be told, because the allocator's inside is not read.",
            Iec(live)
        );
        return finding("summary", text, vec![], None);
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
        return finding("lean", text, vec![], None);
    }
    let text = format!(
        "Of {total} resident, the application holds {} and {} ({}) is bloat: memory that it has freed and the process \
         keeps. The other {} are {others}.",
        Iec(live),
        Iec(bloat),
        percent(bloat, report.rss_bytes),
        Iec(rest)
    );
    finding("bloat", text, vec![], None)
}

/// What `unbloat run` does here already.
fn runtime(report: &ProcessReport) -> Option<Finding> {
    let runtime = report.runtime.as_ref()?;
    let done = match runtime.trims {
        0 => "it has not had to give anything back yet".to_owned(),
        trims => {
            format!("it has given back {} in {} so far", Iec(runtime.returned_bytes), count(trims, "trim"))
        }
    };
    let mut text = format!("The process runs under unbloat run with the policy {}: {done}.", runtime.policy);
    let problem = runtime.problem.as_ref();
    problem.iter().for_each(|problem| text.push_str(&format!(" It does not work as it should: {problem}.")));
    let actions = problem.map(|_| Action::Status(report.pid)).into_iter().collect();
    Some(finding("runtime", text, actions, None))
}

fn trimmable(report: &ProcessReport) -> Option<Weighed> {
    let bytes = report.trimmable_bytes()?;
    worth(report, bytes).then(|| {
        let text = format!(
            "{} would come back at once: freed memory in whole pages, which the allocator keeps for later.",
            Iec(bytes)
        );
        Weighed { bytes, finding: finding("trimmable", text, vec![Action::Trim(report.pid)], Some(bytes)) }
    })
}

fn stranded(report: &ProcessReport) -> Option<Weighed> {
    let bytes = report.census.stranded()?;
    worth(report, bytes).then(|| {
        let arenas = report.allocator.as_ref().map_or(&[][..], |allocator| &allocator.arenas);
        let (cure, actions) = match report.allocator.as_ref().map(|allocator| allocator.kind) {
            Some(AllocatorKind::Jemalloc) => keeps_slabs_full(report),
            _ => keeps_arenas_full(report, arenas.len()),
        };
        let holes = report.census.bytes(Category::MallocHoles);
        let holes = if worth(report, holes) { format!(" ({} of it in whole pages)", Iec(holes)) } else { String::new() };
        let text = format!(
            "{} is stranded{}{holes}: freed, but on pages that something live shares, so nothing can return it without \
             moving data. {cure}",
            Iec(bytes),
            spread(arenas, report.threads)
        );
        Weighed { bytes, finding: finding("stranded", text, actions, None) }
    })
}

/// What keeps memory from being stranded in glibc's arenas.
fn keeps_arenas_full(report: &ProcessReport, arenas: usize) -> (&'static str, Vec<Action>) {
    let few = arenas <= advice::FEW_ARENAS;
    let cure = if few {
        "A restart clears it; an allocator that packs chunks of one size together strands less."
    } else {
        "A restart clears it; fewer arenas keep it from coming back, because threads then reuse each other's holes."
    };
    let actions = match &report.runtime {
        Some(runtime) => advice::other_policy(runtime, report.pid, report.command.raw()),
        None if few => advice::other_allocator(report.command.raw()),
        None => advice::fewer_arenas(report.command.raw()),
    };
    (cure, actions)
}

/// What keeps memory from being stranded in jemalloc's slabs.
fn keeps_slabs_full(report: &ProcessReport) -> (&'static str, Vec<Action>) {
    let cure = "A restart clears it; one arena and smaller slabs, as unbloat run sets them, strand less.";
    let server = Server::of_title(report.command.raw());
    let actions = match report.runtime {
        Some(_) => vec![],
        None => vec![Action::Run { server, name_policy: false }],
    };
    (cure, actions)
}

/// Over how many arenas stranded memory is spread: ` in 12 arenas (17 threads), 40.1 MiB of it outside the main one`.
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
            "{} is cached: freed chunks that {} keep at hand for their next allocations. It goes when a thread \
             ends; fewer threads cache less.",
            Iec(bytes),
            count(report.threads, "thread")
        );
        Weighed { bytes, finding: finding("cached", text, vec![], None) }
    })
}

fn ruby_free_slots(report: &ProcessReport) -> Option<Weighed> {
    let ruby = report.ruby.as_ref()?;
    let free = report.census.bytes(Category::RubyFree);
    worth(report, free).then(|| {
        let compactable = ruby.compactable_pages * ruby.page_bytes;
        let mut text = format!(
            "Ruby keeps {} of free slots ({} of its slots) for the objects to come. That is not bloat",
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
        Weighed { bytes: gain.unwrap_or(0), finding: finding("ruby-free-slots", text, actions, gain) }
    })
}

fn other_allocator(report: &ProcessReport) -> Option<Weighed> {
    let allocator = report.allocator.as_ref()?;
    let bytes = report.census.bytes(Category::AllocatorOther);
    (allocator.kind != AllocatorKind::Glibc && worth(report, bytes)).then(|| {
        let holds = format!("{} holds {}.", allocator.kind.name(), Iec(bytes));
        let (text, actions) = match allocator.kind.descriptor().map(|descriptor| &descriptor.release) {
            Some(Release::Call(_)) => (
                format!("{holds} What it has free inside can be asked back."),
                vec![Action::Trim(report.pid)],
            ),
            Some(Release::Never(_)) => (holds, vec![]),
            None => (format!("An allocator that is not known holds {}.", Iec(bytes)), vec![]),
        };
        Weighed { bytes, finding: finding("allocator-not-walked", text, actions, None) }
    })
}

fn live(report: &ProcessReport) -> Option<Finding> {
    let live = report.census.live();
    let ruby = report.ruby.as_ref()?;
    worth(report, live).then(|| {
        let text = format!(
            "The {} that are live are the application's own{}. One look cannot tell whether they grow; two can.",
            Iec(live),
            largest_owners(ruby)
        );
        finding("live", text, vec![Action::Watch(report.pid)], None)
    })
}

/// The types that own most malloc memory: `: Strings own 98.0 MiB of malloc memory, Arrays 4.1 MiB`.
fn largest_owners(ruby: &RubyHeap) -> String {
    let mut owners = ruby.malloc_owned.clone().unwrap_or_default();
    owners.retain(|&(_, bytes)| bytes >= WORTH_BYTES);
    owners.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let names: Vec<_> =
        owners.iter().take(3).map(|(owner, bytes)| format!("{} {}", owner.name(), Iec(*bytes))).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("; most malloc memory belongs to {}", names.join(", "))
}

fn unsettled(report: &ProcessReport) -> Option<Finding> {
    let bytes = report.census.bytes(Category::Unsettled);
    (bytes > 0).then(|| {
        let text = format!(
            "{} of heap kept changing while it was read and is not told apart. Look again at a quieter moment, or \
             stop the process for the look.",
            Iec(bytes)
        );
        finding("unsettled", text, vec![Action::Stop(report.pid)], None)
    })
}

fn swapped(report: &ProcessReport) -> Option<Finding> {
    let bytes = report.swap_bytes.filter(|&bytes| bytes >= WORTH_BYTES)?;
    let text = format!("{} more are swapped out: not resident, not in these figures, not read.", Iec(bytes));
    Some(finding("swapped", text, vec![], None))
}

#[cfg(test)]
mod tests;
