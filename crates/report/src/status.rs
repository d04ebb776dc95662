//! Output of `unbloat status`: the runtime's report on its work, process by process.

use serde::Serialize;
use std::fmt::Write as _;
use unbloat_contract::{Snapshot, TRIM_BUCKET_BOUNDS_NS, Text, Word};
use unbloat_untrusted::Untrusted;

/// The document of `unbloat status --json` (docs/reference/status.schema.json).
#[derive(Debug, Serialize)]
pub struct StatusReport {
    /// Version of this document's format.
    pub schema: u32,
    /// The processes, by PID.
    pub processes: Vec<ProcessStatus>,
    /// The requested process, if its policy loads no runtime and so there is no page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_runtime: Option<WithoutRuntime>,
}

/// A process whose policy loads no runtime: `off`, `arenas=N`, an allocator alone.
#[derive(Debug, Serialize)]
pub struct WithoutRuntime {
    /// Its PID, in our namespace.
    pub pid: i32,
    /// The policy it was started with.
    pub policy: Untrusted,
    /// The allocator that serves malloc there, with the evidence; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocator: Option<Untrusted>,
    /// Parts of the policy that are not live.
    pub problems: Vec<Untrusted>,
}

/// One process with the runtime loaded.
#[derive(Debug, Serialize)]
pub struct ProcessStatus {
    /// Its PID, in our namespace.
    pub pid: i32,
    /// Its command line, which servers write their titles over; absent where it is empty or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<Untrusted>,
    /// The policy in force.
    pub policy: Untrusted,
    /// The allocator found in it.
    pub allocator: Untrusted,
    /// Ruby's version; absent outside Ruby.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ruby: Option<Untrusted>,
    /// The version of the runtime library.
    pub library: Untrusted,
    /// The runtime is notified of garbage collections.
    pub hears_gc: bool,
    /// Garbage collections of either kind.
    pub gc_count: u64,
    /// Number of full collections among them.
    pub gc_major_count: u64,
    /// Trims of any kind.
    pub trims: u64,
    /// Trims made because the process had fallen idle.
    pub idle_trims: u64,
    /// Trims requested by the program.
    pub requested_trims: u64,
    /// Bytes by which the resident set shrank over all trims.
    pub trim_returned_bytes: u64,
    /// Wall time of all trims, in seconds.
    pub trim_s: f64,
    /// The longest trim, in seconds.
    pub trim_max_s: f64,
    /// Histogram of the duration of trims.
    pub trim_histogram: Vec<TrimBucket>,
    /// Page faults on memory that a trim had returned shortly before.
    pub refaults: u64,
    /// Moment at which freed pages are returned, if the runtime controls that: `at_once`, or `later`, after
    /// the allocator's delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub returning: Option<&'static str>,
    /// CPU time of the runtime's own thread, in seconds.
    pub thread_cpu_s: f64,
    /// Number of open `Unbloat.suspend` blocks.
    pub suspended: u64,
    /// Number of forks between this process and the one started with the runtime.
    pub fork_generation: u64,
    /// The reason why nothing was done at the last decision.
    pub last_reason: &'static str,
    /// Parts of the policy that are not live according to the process's mappings, and problems reported by
    /// the runtime.
    pub problems: Vec<Untrusted>,
}

/// A bucket of the histogram: trims up to this bound and above that of the previous bucket.
#[derive(Debug, Serialize)]
pub struct TrimBucket {
    /// Upper bound in seconds; absent for the last bucket, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_most_s: Option<f64>,
    /// Number of trims.
    pub count: u64,
}

impl ProcessStatus {
    /// Builds the status from a process's status page. `problems` are those found in its mappings.
    #[must_use]
    pub fn new(pid: i32, page: &Snapshot, problems: Vec<String>) -> Self {
        let text = |place| Untrusted::from(page.text(place, &mut [0; 256]));
        let seconds = |place| page.word(place) as f64 / 1e9;
        let notice = text(Text::Notice);
        let mut problems: Vec<Untrusted> = problems.into_iter().map(Untrusted::from).collect();
        problems.extend((!notice.is_empty()).then(|| notice.raw().trim().into()));
        let bounds = TRIM_BUCKET_BOUNDS_NS.iter().map(|&ns| Some(ns as f64 / 1e9)).chain([None]);
        let buckets = bounds.zip(page.trim_histogram());
        Self {
            pid,
            title: None,
            policy: text(Text::Policy),
            allocator: text(Text::Allocator),
            ruby: Some(text(Text::Ruby)).filter(|ruby| !ruby.is_empty()),
            library: text(Text::Library),
            hears_gc: page.word(Word::Hearing) != 0,
            gc_count: page.word(Word::GcCount),
            gc_major_count: page.word(Word::GcMajorCount),
            trims: page.word(Word::Trims),
            idle_trims: page.word(Word::IdleTrims),
            requested_trims: page.word(Word::RequestedTrims),
            trim_returned_bytes: page.word(Word::TrimReturnedBytes),
            trim_s: seconds(Word::TrimNs),
            trim_max_s: seconds(Word::TrimMaxNs),
            trim_histogram: buckets.map(|(at_most_s, count)| TrimBucket { at_most_s, count }).collect(),
            refaults: page.word(Word::Refaults),
            returning: page.returning(),
            thread_cpu_s: seconds(Word::ThreadCpuNs),
            suspended: page.word(Word::Suspended),
            fork_generation: page.word(Word::ForkGeneration),
            last_reason: page.last_reason().text(),
            problems,
        }
    }

    /// Returns the number of trims that took longer than a bound of the histogram, in seconds.
    fn trims_longer_than(&self, bound_s: f64) -> u64 {
        let longer = |bucket: &&TrimBucket| bucket.at_most_s.is_none_or(|at_most_s| at_most_s > bound_s);
        // The page may say anything.
        self.trim_histogram.iter().filter(longer).fold(0, |sum, bucket| sum.saturating_add(bucket.count))
    }
}

/// Formats the report for a terminal.
#[must_use]
pub fn text(report: &StatusReport) -> String {
    if let Some(process) = &report.without_runtime {
        return without_runtime(process);
    }
    if report.processes.is_empty() {
        return "no process has the runtime loaded; start one with: unbloat run -- COMMAND\n".to_owned();
    }
    let mut out = String::new();
    for process in &report.processes {
        // Writing to a string cannot fail.
        let _ = describe(&mut out, process);
    }
    out
}

fn without_runtime(process: &WithoutRuntime) -> String {
    let mut out = format!("{}  {}  (a policy without a runtime)\n", process.pid, process.policy);
    let allocator = process.allocator.iter().map(|proof| ("malloc", proof));
    let problems = process.problems.iter().map(|problem| ("problem", problem));
    for (name, text) in allocator.chain(problems) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<13}{text}");
    }
    out
}

fn describe(out: &mut String, process: &ProcessStatus) -> std::fmt::Result {
    let ruby = process.ruby.as_ref().map(|ruby| format!(", ruby {ruby}")).unwrap_or_default();
    writeln!(out, "{}  {}  ({}{ruby})", process.pid, process.policy, process.allocator)?;
    if let Some(title) = &process.title {
        writeln!(out, "  process      {title}")?;
    }
    writeln!(out, "  collections  {}, {} full", process.gc_count, process.gc_major_count)?;
    writeln!(
        out,
        "  trims        {} ({} when idle, {} asked for), {} returned",
        process.trims,
        process.idle_trims,
        process.requested_trims,
        mebibytes(process.trim_returned_bytes)
    )?;
    writeln!(
        out,
        "  cost         {:.1} ms in trims, {:.1} ms the longest, {} over 20 ms; {:.0} ms of CPU; {} pages \
        needed again",
        process.trim_s * 1e3,
        process.trim_max_s * 1e3,
        process.trims_longer_than(0.02),
        process.thread_cpu_s * 1e3,
        process.refaults
    )?;
    match process.returning {
        Some("at_once") => writeln!(out, "  freed pages  go back at once")?,
        Some(_) => writeln!(out, "  freed pages  go back after the allocator's delay")?,
        None => {}
    }
    writeln!(out, "  last         {}", process.last_reason)?;
    for problem in &process.problems {
        writeln!(out, "  problem      {problem}")?;
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_contract::{MAGIC, PAGE_BYTES, Reason, WORDS, pack, trim_bucket};

    fn page() -> Snapshot {
        let mut words = [0; WORDS];
        for (place, value) in [
            (Word::Magic, MAGIC),
            (Word::Pid, 42),
            (Word::GcCount, 120),
            (Word::GcMajorCount, 12),
            (Word::Trims, 7),
            (Word::IdleTrims, 1),
            (Word::TrimReturnedBytes, 300 << 20),
            (Word::TrimNs, 45_000_000),
            (Word::TrimMaxNs, 12_500_000),
            (Word::ThreadCpuNs, 61_000_000),
            (Word::Refaults, 1500),
            (Word::LastReason, Reason::NoGrowth as u64),
            (Word::Hearing, 1),
        ] {
            words[place as usize] = value;
        }
        words[Word::TrimHistogram as usize + trim_bucket(12_500_000)] = 7;
        for (place, text) in
            [(Text::Policy, "lean"), (Text::Allocator, "jemalloc 5.3.1"), (Text::Ruby, "3.1.2")]
        {
            for (to, from) in words[place.first_word()..].iter_mut().zip(pack(place, text)) {
                *to = from;
            }
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes.len(), PAGE_BYTES);
        Snapshot::parse(&bytes).unwrap()
    }

    fn report() -> StatusReport {
        let problems = vec!["libunbloat-jemalloc.so is not mapped: malloc is served by another".to_owned()];
        let processes = vec![ProcessStatus::new(42, &page(), problems)];
        StatusReport { schema: 1, processes, without_runtime: None }
    }

    #[test]
    fn a_terminal_sees_what_counts() {
        insta::assert_snapshot!(text(&report()));
    }

    #[test]
    fn the_document_has_the_names_that_were_promised() {
        insta::assert_json_snapshot!(report());
    }

    #[test]
    fn nobody_is_told_how_to_begin() {
        let none = StatusReport { schema: 1, processes: Vec::new(), without_runtime: None };
        assert!(text(&none).contains("unbloat run"));
    }

    #[test]
    fn a_policy_without_a_runtime_is_shown_by_its_proof() {
        let process = WithoutRuntime {
            pid: 42,
            policy: "arenas=2".into(),
            allocator: Some("libc.so.6 is mapped".into()),
            problems: vec!["glibc's limit of arenas is 5, and should be 2".into()],
        };
        let report = StatusReport { schema: 1, processes: Vec::new(), without_runtime: Some(process) };
        assert_eq!(
            text(&report),
            "42  arenas=2  (a policy without a runtime)\n  malloc       libc.so.6 is mapped\n  \
             problem      glibc's limit of arenas is 5, and should be 2\n"
        );
    }

    #[test]
    fn a_status_page_cannot_act_on_the_terminal() {
        let hostile = "\u{1b}]0;owned\u{7}\nroot# ";
        let mut process = ProcessStatus::new(42, &page(), vec![hostile.to_owned()]);
        for text in [&mut process.policy, &mut process.allocator, &mut process.library] {
            *text = hostile.into();
        }
        process.ruby = Some(hostile.into());
        let shown = text(&StatusReport { schema: 1, processes: vec![process], without_runtime: None });
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        assert!(!shown.lines().any(|line| line.starts_with("root#")), "{shown}");
    }
}
