//! Output of `unbloat diff`: what was born, died and stayed between two looks, by class or by gem.

use crate::recording::label::name;
use crate::style::{Ink, Style, clip, thousands, wrap};
use serde_json::{Value, json};
use std::cmp::Ordering;
use unbloat_heap::Iec;
use unbloat_recording::difference::{Change, Difference, Look, Row};
use unbloat_untrusted::visible;

/// Width of the columns before a name.
const FIGURES: usize = 59;

/// Two looks and their difference.
#[derive(Debug)]
pub struct Diff {
    /// The look before.
    pub before: Look,
    /// The look after.
    pub after: Look,
    /// Their difference.
    pub difference: Difference,
    /// The rows are origins of code, not classes of objects.
    pub code: bool,
}

impl Diff {
    /// Compares two looks.
    #[must_use]
    pub fn of(before: Look, after: Look, code: bool) -> Self {
        let difference = Difference::of(&before, &after);
        Diff { before, after, difference, code }
    }

    fn counted(&self) -> &'static str {
        if self.code { "instruction sequences" } else { "objects" }
    }
}

/// Renders the difference as text, with at most `rows` rows that differ.
#[must_use]
pub fn text(diff: &Diff, rows: usize, style: &Style) -> String {
    let (before, after) = diff.difference.total;
    let mut out = wrap(&format!("{} → {}", source(&diff.before), source(&diff.after)), style.width, 0);
    out += &wrap(
        &format!(
            "{} → {} {}, {} → {}",
            thousands(before.objects),
            thousands(after.objects),
            diff.counted(),
            Iec(before.bytes),
            Iec(after.bytes)
        ),
        style.width,
        2,
    );
    let head = format!(
        "{:>11}{:>11}{:>11}{:>11}{:>12}   {}",
        "before",
        "after",
        "born ≥",
        "died ≥",
        "bytes",
        if diff.code { "gem" } else { "class" }
    );
    out += &format!("{}\n", style.paint(Ink::Dim, &head));
    let differs = |row: &&Row| row.change() != Change::Stayed || row.bytes() != Some(0);
    let all: Vec<&Row> = diff.difference.rows.iter().filter(differs).collect();
    for row in all.iter().take(rows) {
        out += &line(row, style);
    }
    if all.len() > rows {
        out += &format!("{:>FIGURES$}{} more (--all)\n", "", thousands((all.len() - rows) as u64));
    }
    let same = diff.difference.rows.len() - all.len();
    if same > 0 {
        out += &format!("{:>FIGURES$}{} the same\n", "", thousands(same as u64));
    }
    for note in notes(diff) {
        out += &wrap(&note, style.width, 2);
    }
    out
}

fn source(look: &Look) -> String {
    let at = look.time_s.map_or_else(String::new, |time_s| format!(" at {time_s:.0} s"));
    let processes = match look.processes {
        1 => String::new(),
        n => format!(", {n} processes"),
    };
    format!("{}{at}{processes}", visible(&look.source))
}

fn line(row: &Row, style: &Style) -> String {
    let count = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), thousands);
    let bound = |count: Option<u64>| match count {
        Some(0) => String::new(),
        count => count.map_or_else(|| "?".to_owned(), thousands),
    };
    let bytes = row.bytes().map_or_else(
        || "?".to_owned(),
        |bytes| {
            let sign = if bytes < 0 { "−" } else { "+" };
            format!("{sign}{}", Iec(bytes.unsigned_abs()))
        },
    );
    let ink = match row.bytes().unwrap_or(0).cmp(&0) {
        Ordering::Greater => Ink::Red,
        Ordering::Less => Ink::Green,
        Ordering::Equal => Ink::None,
    };
    format!(
        "{:>11}{:>11}{:>11}{:>11}{}   {}\n",
        count(row.before.map(|amount| amount.objects)),
        count(row.after.map(|amount| amount.objects)),
        bound(row.born_at_least()),
        bound(row.died_at_least()),
        style.paint(ink, &format!("{bytes:>12}")),
        clip(&name(&row.label), style.width.saturating_sub(FIGURES + 1).max(16))
    )
}

/// Says what the two looks cannot tell.
fn notes(diff: &Diff) -> Vec<String> {
    let mut notes = vec![format!(
        "Looks count: of each row at most the smaller number of {} stayed. Those that came and went in between, and \
         those that were replaced, are not seen.",
        diff.counted()
    )];
    if !(diff.before.is_complete() && diff.after.is_complete()) {
        notes.push(
            "A recording keeps the largest rows of each process and sums up the rest. A row with ? was part of that \
             once."
                .to_owned(),
        );
    }
    if !diff.difference.with_malloc {
        notes.push("Bytes are those of slots: malloc memory is not known in both.".to_owned());
    }
    if diff.before.processes != diff.after.processes {
        notes.push(
            "The number of processes differs. Each is counted in full, so a new one adds all of its objects."
                .to_owned(),
        );
    }
    notes
}

/// Renders the difference according to `docs/reference/diff.schema.json`.
#[must_use]
pub fn json(diff: &Diff) -> Value {
    let look = |look: &Look, total| {
        json!({
            "source": look.source,
            "time_s": look.time_s,
            "processes": look.processes,
            "complete": look.is_complete(),
            "total": total,
        })
    };
    let row = |row: &Row| {
        json!({
            "kind": row.label.kind,
            "name": row.label.name,
            "version": row.label.version,
            "change": row.change(),
            "before": row.before,
            "after": row.after,
            "bytes": row.bytes(),
            "born_at_least": row.born_at_least(),
            "died_at_least": row.died_at_least(),
            "stayed_at_most": row.stayed_at_most(),
        })
    };
    let (before, after) = diff.difference.total;
    json!({
        "schema": 1,
        "by": if diff.code { "gem" } else { "class" },
        "before": look(&diff.before, before),
        "after": look(&diff.after, after),
        "with_malloc": diff.difference.with_malloc,
        "rows": diff.difference.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": notes(diff),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_recording::Label;
    use unbloat_recording::difference::Sum;

    fn look(source: &str, rows: &[(&str, &str, u64)], time_s: Option<f64>) -> Look {
        let mut look = Look { source: source.into(), time_s, processes: 1, ..Look::default() };
        for &(kind, name, objects) in rows {
            let sum = Sum { objects, slot_bytes: objects * 40, malloc_bytes: Some(objects * 100) };
            look.add(Label { kind: kind.into(), name: name.into(), version: None }, sum);
        }
        look
    }

    fn diff() -> Diff {
        let before = look(
            "a\u{1b}[2J.unbloat",
            &[("class", "Leak", 2800), ("class", "Gone", 7), ("class", "Steady", 5007), ("rest", "", 900)],
            Some(60.0),
        );
        let after = look(
            "b.unbloat",
            &[
                ("class", "Leak", 29_400),
                ("class", "Evil\u{1b}[2J", 40),
                ("class", "Gone", 0),
                ("internal", "iseq", 12),
                ("class", "Steady", 5007),
                ("rest", "", 950),
            ],
            Some(3660.0),
        );
        Diff::of(before, after, false)
    }

    #[test]
    fn text_of_a_difference() {
        let text = text(&diff(), 9, &Style::PLAIN);
        assert!(!text.contains('\u{1b}'));
        for part in
            ["at 60 s → b.unbloat at 3660 s", "2,800     29,400     26,600", "Leak", "?", "everything else"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn json_follows_the_schema() {
        unbloat_test_support::assert_follows(&json(&diff()), "diff.schema.json");
        let complete = Diff::of(look("a", &[], None), look("b", &[("gem", "rack", 1)], None), true);
        unbloat_test_support::assert_follows(&json(&complete), "diff.schema.json");
    }
}
