//! Output of `unbloat unshared`: what un-shared the pages that a worker inherited, and what helps.

use crate::ruby_look;
use crate::style::{Ink, Style, clip, percent, wrap};
use serde::Serialize;
use std::collections::BTreeMap;
use unbloat_heap::Iec;
use unbloat_heap::model::{Cause, CauseKind, CauseRow, ClassKind, CodePart, Remedy, RubyLook, Unshared};
use unbloat_untrusted::Untrusted;

/// Names below a kind.
const NAMES: usize = 5;
/// Factor from inherited to private bytes from which on a worker has loaded by itself what it needs.
const BY_ITSELF: u64 = 4;

/// Renders looks as one JSON document (docs/reference/unshared.schema.json).
#[must_use]
pub fn json(looks: &[RubyLook<Unshared>]) -> String {
    ruby_look::json(looks, Found::of)
}

#[derive(Serialize)]
struct Found<'a> {
    parent: i32,
    private_bytes: Option<u64>,
    shared_bytes: u64,
    unshared_bytes: u64,
    unread_bytes: u64,
    causes: Vec<Row<'a>>,
    remedies: Vec<Helps>,
}

#[derive(Serialize)]
struct Row<'a> {
    cause: &'static str,
    class_kind: Option<&'static str>,
    name: &'a Untrusted,
    old: Option<bool>,
    part: Option<&'static str>,
    bytes: u64,
    alone_bytes: u64,
}

/// A way to keep pages shared.
#[derive(Debug, Serialize)]
struct Helps {
    remedy: &'static str,
    /// Bytes that it would have kept shared, at least; `None` if that cannot be told.
    gain_bytes: Option<u64>,
    text: String,
}

impl<'a> Found<'a> {
    fn of(found: &'a Unshared) -> Self {
        let row = |row: &'a CauseRow| Row {
            cause: row.cause.kind.name(),
            class_kind: row.cause.class.map(ClassKind::name),
            name: &row.cause.name,
            old: row.cause.old,
            part: row.cause.part.map(CodePart::name),
            bytes: row.bytes,
            alone_bytes: row.alone_bytes,
        };
        Found {
            parent: found.parent.0,
            private_bytes: found.private_bytes,
            shared_bytes: found.shared_bytes,
            unshared_bytes: found.unshared_bytes,
            unread_bytes: found.unread_bytes,
            causes: found.causes.iter().map(row).collect(),
            remedies: remedies(found),
        }
    }
}

/// Returns what helps, the largest gain first.
fn remedies(found: &Unshared) -> Vec<Helps> {
    let mut remedies = Vec::new();
    let inherited = found.shared_bytes + found.unshared_bytes;
    if found.private_bytes.is_some_and(|private| private / BY_ITSELF > inherited) {
        remedies.push(Helps {
            remedy: Remedy::Preload.name(),
            gain_bytes: None,
            text: "Most of this worker's memory was made after the fork. Load the application before it: preload_app! \
                   in config/puma.rb, with eager loading."
                .to_owned(),
        });
    }
    for &(remedy, gain) in &found.by_remedy {
        // That of a refork is told below: it includes the others.
        if let Some(text) = text_of(remedy).filter(|_| remedy != Remedy::Refork && gain > 0) {
            remedies.push(Helps { remedy: remedy.name(), gain_bytes: Some(gain), text: text.to_owned() });
        }
    }
    if let Some(text) = text_of(Remedy::Refork).filter(|_| found.unshared_bytes > 0) {
        let gain_bytes = Some(found.unshared_bytes);
        remedies.push(Helps { remedy: Remedy::Refork.name(), gain_bytes, text: text.to_owned() });
    }
    remedies
}

fn text_of(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::Preload | Remedy::Nothing => return None,
        Remedy::FillPages => {
            "New objects lie in slots that were free at the fork, between old ones. Collect and compact before the fork, so that \
             they get pages of their own: before_fork { GC.start; GC.compact }, or Process.warmup from Ruby 3.3 on."
        }
        Remedy::Age => {
            "The collector marks objects that survive as older. Let them grow old before the fork: before_fork { 4.times { \
             GC.start } }, or Process.warmup from Ruby 3.3 on."
        }
        Remedy::WarmUp => {
            "Code and strings are written when they are first used. Use them before the fork: eager loading and some requests in the \
             master (preload_app!); `# frozen_string_literal: true` spares copies of literals."
        }
        Remedy::Refork => {
            "A refork from a worker that has warmed up shares all of this again, until it is written anew (Puma's fork_worker; \
             docs/guide/refork.md)."
        }
    })
}

/// Renders the look at one worker as text.
#[must_use]
pub fn text(look: &RubyLook<Unshared>, style: &Style) -> String {
    ruby_look::text(look, style, |text, found| {
        let inherited = found.shared_bytes + found.unshared_bytes;
        let private = found.private_bytes.map_or_else(String::new, |private| {
            format!("; all that only this process has is {}", Iec(private))
        });
        let sentence = format!(
            "Of {} that this process has in common with {}, which forked it, {} ({}) are still on common pages, and {} \
             are not{private}.",
            Iec(inherited),
            found.parent,
            Iec(found.shared_bytes),
            Some(percent(found.shared_bytes, inherited))
                .filter(|s| !s.is_empty())
                .unwrap_or_else(|| "0 %".to_owned()),
            Iec(found.unshared_bytes)
        );
        *text += &wrap(&sentence, style.width, 2);
        if found.unshared_bytes > 0 {
            push_causes(text, found, style);
            push_remedies(text, found, style);
        }
        if found.unread_bytes > 0 {
            *text += &wrap(&format!("{} could not be read.", Iec(found.unread_bytes)), style.width, 2);
        }
    })
}

fn push_causes(text: &mut String, found: &Unshared, style: &Style) {
    let mut kinds: BTreeMap<CauseKind, (u64, u64, Vec<&CauseRow>)> = BTreeMap::new();
    for row in &found.causes {
        let (bytes, alone, rows) = kinds.entry(row.cause.kind).or_default();
        *bytes += row.bytes;
        *alone += row.alone_bytes;
        rows.push(row);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (bytes, ..))| std::cmp::Reverse(*bytes));
    let head = format!("{:>12}{:>12}   written since the fork, by either", "bytes", "alone");
    *text += &format!("{}\n", style.paint(Ink::Dim, &head));
    for (kind, (bytes, alone, rows)) in kinds {
        *text += &format!("{:>12}{:>12}   {}\n", Iec(bytes).to_string(), Iec(alone).to_string(), words(kind));
        let named: Vec<String> =
            rows.iter().filter(|row| !row.cause.name.is_empty()).take(NAMES).map(|row| part(row)).collect();
        if !named.is_empty() {
            let names = wrap(&named.join(", "), style.width, 29);
            *text += &style.paint(Ink::Dim, names.trim_end_matches('\n'));
            text.push('\n');
        }
    }
}

fn words(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::NewObjects => "new objects in slots that were free",
        CauseKind::FreedSlots => "slots that became free, and the list of free slots",
        CauseKind::AgedObjects => "objects that the collector marked as older",
        CauseKind::WrittenObjects => "objects that were written",
        CauseKind::HeapPages => "the collector's words in pages of the heap",
        CauseKind::Code => "loaded code: caches, sequences, tables",
        CauseKind::MallocBlocks => "malloc memory of objects",
        CauseKind::OtherBlocks => "malloc memory of C code",
        CauseKind::Allocator => "the allocator's own words, and freed memory",
        CauseKind::OtherMemory => "stacks and other memory",
        CauseKind::Same => "nothing: written and written back",
    }
}

fn part(row: &CauseRow) -> String {
    let Cause { class, name, old, part, .. } = &row.cause;
    let name = clip(name.raw(), 40);
    let name = match (class, part) {
        (Some(ClassKind::Class), _) => name,
        (Some(ClassKind::Anonymous), _) => format!("below {name}"),
        (Some(_), _) => format!("<{name}>"),
        (None, Some(CodePart::InlineCaches)) => format!("{name} (inline caches)"),
        (None, Some(CodePart::Sequences)) => format!("{name} (sequences)"),
        (None, Some(CodePart::Methods)) => format!("{name} (methods)"),
        (None, Some(CodePart::Tables)) => format!("{name} (tables)"),
        (None, None) => name,
    };
    let old = if *old == Some(true) { " (old)" } else { "" };
    format!("{name}{old} {}", Iec(row.bytes))
}

fn push_remedies(text: &mut String, found: &Unshared, style: &Style) {
    for (n, helps) in remedies(found).into_iter().enumerate() {
        let gain = match (helps.gain_bytes, helps.remedy == Remedy::Refork.name()) {
            (Some(gain), true) => format!(" Gain: up to {}.", Iec(gain)),
            (Some(gain), false) => format!(" Gain: at least {}.", Iec(gain)),
            (None, _) => String::new(),
        };
        *text += &wrap(&format!("{}. {}{gain}", n + 1, helps.text), style.width, 2);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;
    use unbloat_process::Pid;

    fn row(kind: CauseKind, name: &str, bytes: u64) -> CauseRow {
        let (class, old, part) = match kind {
            CauseKind::Code => (None, None, Some(CodePart::InlineCaches)),
            CauseKind::NewObjects | CauseKind::AgedObjects | CauseKind::WrittenObjects => {
                (Some(ClassKind::Class), Some(kind == CauseKind::AgedObjects), None)
            }
            _ => (None, None, None),
        };
        CauseRow {
            cause: Cause { kind, class, name: name.into(), old, part },
            bytes: bytes << 20,
            alone_bytes: bytes << 19,
        }
    }

    fn look(private: u64) -> RubyLook<Unshared> {
        RubyLook {
            pid: Pid(2310),
            parent: Some(Pid(2300)),
            command: "puma: cluster worker 0: 2300 [shop]".into(),
            rss_bytes: 229 << 20,
            malloc_live_bytes: Some(106 << 20),
            version: Some("3.1.2".to_owned()),
            found: Some(Unshared {
                parent: Pid(2300),
                private_bytes: Some(private << 20),
                shared_bytes: 70 << 20,
                unshared_bytes: 50 << 20,
                causes: vec![
                    row(CauseKind::NewObjects, "String", 14),
                    row(CauseKind::AgedObjects, "Hash", 9),
                    row(CauseKind::Code, "activerecord 7.1.3", 8),
                    row(CauseKind::Allocator, "", 7),
                    row(CauseKind::NewObjects, "Evil\u{1b}[2J", 6),
                    row(CauseKind::WrittenObjects, "String", 4),
                    row(CauseKind::Same, "", 2),
                ],
                by_remedy: vec![
                    (Remedy::FillPages, 11 << 20),
                    (Remedy::Age, 6 << 20),
                    (Remedy::Refork, 5 << 20),
                    (Remedy::WarmUp, 4 << 20),
                    (Remedy::Nothing, 2 << 20),
                ],
                unread_bytes: 4096,
            }),
            notes: vec![],
            stopped: Duration::ZERO,
            elapsed: Duration::from_millis(420),
        }
    }

    #[test]
    fn text_of_a_worker() {
        let text = text(&look(80), &Style::PLAIN);
        assert!(!text.contains('\u{1b}'));
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "Of 120 MiB that this process has in common with 2300",
            "new objects in slots that were free",
            "String 14.0 MiB",
            "Hash (old) 9.00 MiB",
            "activerecord 7.1.3 (inline caches) 8.00 MiB",
            "Gain: at least 11.0 MiB.",
            "Gain: up to 50.0 MiB.",
            "4.00 KiB could not be read",
        ] {
            assert!(flat.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_worker_that_loads_by_itself_is_told_to_preload() {
        let text = text(&look(700), &Style::PLAIN);
        assert!(text.contains("1. Most of this worker's memory"), "{text}");
    }

    #[test]
    fn json_follows_the_schema() {
        let text = json(&[look(80), RubyLook { found: None, ..look(80) }]);
        unbloat_test_support::assert_follows(&serde_json::from_str(&text).unwrap(), "unshared.schema.json");
    }
}
