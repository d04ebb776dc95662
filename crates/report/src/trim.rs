//! Output of `unbloat trim`: the memory that each process returned, and the cost.

use crate::style::{Ink, Style, clip, wrap};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;
use unbloat_heap::Iec;
use unbloat_heap::trim::{Outcome, Trim};
use unbloat_untrusted::{Untrusted, visible};

/// Renders trims as one JSON document (docs/reference/trim.schema.json).
#[must_use]
pub fn json(trims: &[Trim]) -> String {
    let document = Document { schema: 1, processes: trims.iter().map(Process::of).collect() };
    crate::json::pretty(&document)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: i32,
    command: &'a Untrusted,
    allocator: &'static str,
    predicted_bytes: Option<u64>,
    returned_bytes: Option<u64>,
    rss_before_bytes: u64,
    rss_after_bytes: Option<u64>,
    paused_s: Option<f64>,
    borrowed_s: Option<f64>,
    borrowed_thread: Option<i32>,
    borrowed_from: Option<&'static str>,
    retries: u32,
    outcome: Option<&'static str>,
    reason: Option<&'a str>,
}

impl<'a> Process<'a> {
    fn of(trim: &'a Trim) -> Self {
        Process {
            pid: trim.pid.0,
            command: &trim.command,
            allocator: trim.allocator.name(),
            predicted_bytes: trim.predicted_bytes,
            returned_bytes: trim.returned_bytes(),
            rss_before_bytes: trim.rss_before_bytes,
            rss_after_bytes: trim.rss_after_bytes,
            paused_s: trim.paused.map(|time| time.as_secs_f64()),
            borrowed_s: trim.borrowed.map(|time| time.as_secs_f64()),
            borrowed_thread: trim.thread.map(|(tid, _)| tid.0),
            borrowed_from: trim.thread.map(|(_, wait)| wait),
            retries: trim.retries,
            outcome: trim.outcome.map(word),
            reason: trim.reason.as_deref(),
        }
    }
}

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Trimmed => "trimmed",
        Outcome::LeftAlone => "left_alone",
        Outcome::NothingToTrim => "nothing_to_trim",
        Outcome::Refused => "refused",
        Outcome::Unsupported => "unsupported",
    }
}

/// Renders one process's trim as text.
#[must_use]
pub fn text(trim: &Trim, style: &Style) -> String {
    let mut text = String::new();
    let command = clip(&trim.command.shown(), style.width.saturating_sub(24));
    let title = format!("{} {command}", trim.pid);
    let _ =
        writeln!(text, "{} {}", style.paint(Ink::Bold, &title), style.paint(Ink::Dim, trim.allocator.name()));
    let rss = Iec(trim.rss_before_bytes);
    let sentence = match trim.outcome {
        Some(Outcome::Trimmed) => done(trim, style),
        Some(Outcome::NothingToTrim) => {
            format!("  nothing to trim: no freed page can be returned. RSS {rss}\n")
        }
        Some(Outcome::LeftAlone) => {
            wrap(&format!("{}: {}", style.paint(Ink::Yellow, "left alone"), why(trim)), style.width, 2)
        }
        Some(Outcome::Refused) => {
            wrap(&format!("{}: {}", style.paint(Ink::Red, "refused"), why(trim)), style.width, 2)
        }
        Some(Outcome::Unsupported) => {
            wrap(&format!("{}: {}", style.paint(Ink::Yellow, "unsupported"), why(trim)), style.width, 2)
        }
        None => match trim.predicted_bytes {
            Some(bytes) => {
                let bytes = style.paint(Ink::Green, &Iec(bytes).to_string());
                format!("  would return {bytes} of RSS {rss}\n")
            }
            None => wrap(&format!("could be trimmed; {}. RSS {rss}", why(trim)), style.width, 2),
        },
    };
    text + &sentence
}

fn done(trim: &Trim, style: &Style) -> String {
    let returned = Iec(trim.returned_bytes().unwrap_or(0)).to_string();
    let (before, after) = (Iec(trim.rss_before_bytes), Iec(trim.rss_after_bytes.unwrap_or(0)));
    let predicted = match trim.predicted_bytes {
        Some(bytes) => format!("predicted {}", Iec(bytes)),
        None => "not predicted".to_owned(),
    };
    let mut text =
        format!("  returned {}   RSS {before} → {after}   {predicted}\n", style.paint(Ink::Green, &returned));
    if let (Some((tid, wait)), Some(paused), Some(borrowed)) = (trim.thread, trim.paused, trim.borrowed) {
        let retries = match trim.retries {
            0 => String::new(),
            1 => ", after 1 retry".to_owned(),
            n => format!(", after {n} retries"),
        };
        let line = format!(
            "thread {tid} was held for {} and borrowed from {wait} for {}{retries}; no other thread was stopped",
            milliseconds(paused),
            milliseconds(borrowed)
        );
        text += &style.paint(Ink::Dim, wrap(&line, style.width, 2).trim_end_matches('\n'));
        text.push('\n');
    }
    text
}

fn why(trim: &Trim) -> String {
    visible(trim.reason.as_deref().unwrap_or("no reason is known"))
}

/// Formats as `0.18 ms`, `23 ms`.
fn milliseconds(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 9.95 { format!("{ms:.2} ms") } else { format!("{ms:.0} ms") }
}

/// Formats a final line for several processes.
#[must_use]
pub fn total(trims: &[Trim], style: &Style) -> String {
    let returned: u64 = trims.iter().filter_map(Trim::returned_bytes).sum();
    let predicted: u64 = trims.iter().filter_map(|trim| trim.predicted_bytes).sum();
    let done = trims.iter().any(|trim| trim.outcome == Some(Outcome::Trimmed));
    let sum = style.paint(Ink::Bold, &Iec(if done { returned } else { predicted }).to_string());
    let verb = if done { "returned" } else { "would be returned" };
    format!("{sum} {verb} by {} processes\n", trims.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use unbloat_heap::model::AllocatorKind;
    use unbloat_process::Pid;

    fn trimmed() -> Trim {
        Trim {
            pid: Pid(1234),
            command: "puma 6.4.2 (tcp://0.0.0.0:3000) [shop]".into(),
            allocator: AllocatorKind::Glibc,
            predicted_bytes: Some(291_504_128),
            rss_before_bytes: 529_530_880,
            rss_after_bytes: Some(238_030_848),
            paused: Some(Duration::from_micros(184)),
            borrowed: Some(Duration::from_micros(23_410)),
            thread: Some((Pid(1240), "poll")),
            retries: 2,
            outcome: Some(Outcome::Trimmed),
            reason: None,
        }
    }

    fn untouched(outcome: Outcome, reason: &str) -> Trim {
        Trim {
            predicted_bytes: None,
            rss_after_bytes: None,
            paused: None,
            borrowed: None,
            thread: None,
            retries: 0,
            outcome: Some(outcome),
            reason: Some(reason.to_owned()),
            ..trimmed()
        }
    }

    fn every_outcome() -> Vec<Trim> {
        let dry = Trim { rss_after_bytes: None, paused: None, borrowed: None, outcome: None, ..trimmed() };
        vec![
            trimmed(),
            Trim { thread: None, retries: 0, ..dry },
            Trim { predicted_bytes: Some(0), reason: None, ..untouched(Outcome::NothingToTrim, "") },
            untouched(
                Outcome::Refused,
                "it is traced by process 77 (a debugger, strace), and only one tracer is possible. Detach \
                it first",
            ),
            Trim {
                allocator: AllocatorKind::Musl,
                ..untouched(Outcome::Unsupported, "musl's malloc has no call that returns memory")
            },
        ]
    }

    #[test]
    fn text_of_every_outcome() {
        let trims = every_outcome();
        let shown: String = trims.iter().map(|trim| text(trim, &Style::PLAIN)).collect();
        insta::assert_snapshot!(shown + &total(&trims, &Style::PLAIN));
    }

    #[test]
    fn json_of_every_outcome_follows_the_schema() {
        let document: serde_json::Value = serde_json::from_str(&json(&every_outcome())).unwrap();
        unbloat_test_support::assert_follows(&document, "trim.schema.json");
        insta::assert_snapshot!(json(&every_outcome()[..1]));
    }
}
