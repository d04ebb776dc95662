//! Output of `unbloat objects`: live objects by class.

use crate::ruby_look::{self, HeldBytes};
use crate::style::{Ink, Style, clip, percent, thousands, wrap};
use serde::Serialize;
use unbloat_heap::Iec;
use unbloat_heap::model::{ByClass, ClassKind, ClassRow, DataRow, Held, RubyLook, StringPlace};
use unbloat_untrusted::Untrusted;

/// Width of the columns before a name.
const FIGURES: usize = 39;

/// Renders looks as one JSON document (docs/reference/objects.schema.json).
#[must_use]
pub fn json(looks: &[RubyLook<ByClass>]) -> String {
    ruby_look::json(looks, Ruby::of)
}

#[derive(Serialize)]
struct Ruby<'a> {
    total: HeldBytes,
    classes: Vec<Class<'a>>,
    strings: Vec<Place>,
    data: Vec<Data<'a>>,
}

#[derive(Serialize)]
struct Class<'a> {
    name: &'a Untrusted,
    kind: &'static str,
    classes: u64,
    #[serde(flatten)]
    held: HeldBytes,
}

#[derive(Serialize)]
struct Place {
    place: &'static str,
    #[serde(flatten)]
    held: HeldBytes,
}

#[derive(Serialize)]
struct Data<'a> {
    r#type: Option<&'a Untrusted>,
    class: &'a Untrusted,
    #[serde(flatten)]
    held: HeldBytes,
}

impl<'a> Ruby<'a> {
    fn of(by_class: &'a ByClass) -> Self {
        let class = |row: &'a ClassRow| Class {
            name: &row.name,
            kind: row.kind.name(),
            classes: row.classes,
            held: HeldBytes::of(row.held),
        };
        let data = |row: &'a DataRow| Data {
            r#type: row.data_type.as_ref(),
            class: &row.class,
            held: HeldBytes::of(row.held),
        };
        Ruby {
            total: HeldBytes::of(by_class.total()),
            classes: by_class.classes.iter().map(class).collect(),
            strings: by_class
                .strings
                .iter()
                .map(|&(place, held)| Place { place: place.name(), held: HeldBytes::of(held) })
                .collect(),
            data: by_class.data.iter().map(data).collect(),
        }
    }
}

/// Renders the look at one process as text, with at most `rows` classes.
#[must_use]
pub fn text(look: &RubyLook<ByClass>, rows: usize, style: &Style) -> String {
    ruby_look::text(look, style, |text, by_class| {
        push_total(text, look, by_class, style);
        push_classes(text, by_class, rows, style);
        push_strings(text, by_class, style);
        push_data(text, by_class, rows / 2, style);
    })
}

fn push_total(text: &mut String, look: &RubyLook<ByClass>, by_class: &ByClass, style: &Style) {
    let total = by_class.total();
    let owned = match (total.malloc_bytes, look.malloc_live_bytes) {
        (Some(owned), Some(live)) => {
            format!(" and {} of malloc memory ({} of all that is live)", Iec(owned), percent(owned, live))
        }
        _ => String::new(),
    };
    let sentence = format!(
        "Ruby {}: {} objects in {} of slots{owned}",
        look.version.as_deref().unwrap_or("?"),
        thousands(total.objects),
        Iec(total.slot_bytes)
    );
    *text += &wrap(&sentence, style.width, 2);
}

fn head(name: &str, style: &Style) -> String {
    let head = format!("{:>12}{:>12}{:>12}   {name}", "objects", "slots", "malloc");
    format!("{}\n", style.paint(Ink::Dim, &head))
}

fn line(held: Held, name: &str, style: &Style) -> String {
    let malloc = held.malloc_bytes.map(|bytes| Iec(bytes).to_string()).unwrap_or_default();
    let name = clip(name, style.width.saturating_sub(FIGURES).max(16));
    let slots = Iec(held.slot_bytes).to_string();
    format!("{:>12}{slots:>12}{malloc:>12}   {name}\n", thousands(held.objects))
}

fn push_classes(text: &mut String, by_class: &ByClass, rows: usize, style: &Style) {
    *text += &head("class", style);
    for row in by_class.classes.iter().take(rows) {
        *text += &line(row.held, &class_name(row), style);
    }
    let mut rest = Held::default();
    by_class.classes.iter().skip(rows).for_each(|row| rest += row.held);
    if rest.objects > 0 {
        let name = format!("{} more (--all)", thousands((by_class.classes.len() - rows) as u64));
        *text += &line(rest, &name, style);
    }
}

/// Returns a row's readable name: Ruby's own kinds are in angle brackets.
pub(crate) fn class_name(row: &ClassRow) -> String {
    let several = if row.classes > 1 { format!(" ({} classes)", row.classes) } else { String::new() };
    match row.kind {
        ClassKind::Class => format!("{}{several}", row.name),
        ClassKind::Anonymous => format!("without a name, below {}{several}", row.name),
        ClassKind::Hidden => format!("<hidden {}>", row.name),
        ClassKind::Singleton | ClassKind::Internal | ClassKind::Unknown => format!("<{}>", row.name),
    }
}

fn push_strings(text: &mut String, by_class: &ByClass, style: &Style) {
    *text += &head("strings by where their text is", style);
    for &(place, held) in &by_class.strings {
        let name = match place {
            StringPlace::Embedded => "in the slot",
            StringPlace::Own => "in malloc memory of its own",
            StringPlace::Shared => "in another string's",
            StringPlace::Static => "in a file (literals of C)",
        };
        *text += &line(held, name, style);
    }
}

fn push_data(text: &mut String, by_class: &ByClass, rows: usize, style: &Style) {
    if by_class.data.is_empty() {
        return;
    }
    *text += &head("wrapped data by type (T_DATA)", style);
    for row in by_class.data.iter().take(rows) {
        let kind = row.data_type.as_ref().map_or_else(|| "no type".to_owned(), Untrusted::shown);
        let name = if row.class == *kind { kind } else { format!("{kind}, {}", row.class) };
        *text += &line(row.held, &name, style);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;
    use unbloat_heap::model::{Note, NoteCode};
    use unbloat_process::Pid;

    fn held(objects: u64, slot_bytes: u64, malloc_bytes: u64) -> Held {
        Held { objects, slot_bytes, malloc_bytes: Some(malloc_bytes) }
    }

    fn class(name: &str, kind: ClassKind, classes: u64, held: Held) -> ClassRow {
        ClassRow { name: name.into(), kind, classes, held }
    }

    fn look() -> RubyLook<ByClass> {
        RubyLook {
            pid: Pid(1234),
            parent: None,
            command: "puma 6.4.2 (tcp://0.0.0.0:3000) [shop]".into(),
            rss_bytes: 229 << 20,
            malloc_live_bytes: Some(106 << 20),
            version: Some("3.1.2".to_owned()),
            found: Some(ByClass {
                classes: vec![
                    class("iseq", ClassKind::Internal, 0, held(50_964, 2_038_560, 51_537_510)),
                    class("String", ClassKind::Class, 1, held(249_977, 9_999_080, 5_043_650)),
                    class("Product", ClassKind::Class, 3, held(12_000, 480_000, 1_000_000)),
                    class("Struct", ClassKind::Anonymous, 7, held(70, 2800, 9000)),
                    class("Hash", ClassKind::Hidden, 0, held(12, 480, 100)),
                    class("singleton classes", ClassKind::Singleton, 0, held(2_000, 80_000, 900_000)),
                ],
                strings: vec![
                    (StringPlace::Embedded, held(180_000, 7_200_000, 0)),
                    (StringPlace::Own, held(60_000, 2_400_000, 5_043_650)),
                ],
                data: vec![
                    DataRow {
                        data_type: Some("mutex".into()),
                        class: "Thread::Mutex".into(),
                        held: held(90, 3600, 5760),
                    },
                    DataRow { data_type: None, class: "Evil\u{1b}[2J".into(), held: held(1, 40, 0) },
                ],
            }),
            notes: vec![],
            stopped: Duration::ZERO,
            elapsed: Duration::from_millis(420),
        }
    }

    fn not_ruby() -> RubyLook<ByClass> {
        let note = Note::new(NoteCode::NoRuby, "No Ruby was found in this process.");
        RubyLook { version: None, found: None, malloc_live_bytes: None, notes: vec![note], ..look() }
    }

    #[test]
    fn text_of_a_look() {
        insta::assert_snapshot!(text(&look(), 4, &Style::PLAIN) + &text(&not_ruby(), 4, &Style::PLAIN));
    }

    #[test]
    fn json_follows_the_schema() {
        let text = json(&[look(), not_ruby()]);
        unbloat_test_support::assert_follows(&serde_json::from_str(&text).unwrap(), "objects.schema.json");
    }
}
