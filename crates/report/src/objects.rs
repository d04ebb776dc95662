//! Output of `unbloat objects`: live objects by class.
//!
//! | module | concept |
//! |---|---|
//! | [`mod@self`] | the table of classes |
//! | `of_class` | the objects of one class |
//! | `duplicates` | strings with equal contents, and holders |

mod duplicates;
mod of_class;

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
    class: Option<of_class::Class<'a>>,
    duplicates: Option<duplicates::Strings<'a>>,
}

#[derive(Serialize)]
struct Class<'a> {
    name: &'a Untrusted,
    kind: &'static str,
    classes: u64,
    #[serde(flatten)]
    held: HeldBytes,
    holders: Option<Vec<duplicates::Holder<'a>>>,
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
        let holders = |i: usize| Some(duplicates::Holder::all(by_class.holders.as_ref()?.get(i)?));
        let class = |(i, row): (usize, &'a ClassRow)| Class {
            name: &row.name,
            kind: row.kind.name(),
            classes: row.classes,
            held: HeldBytes::of(row.held),
            holders: holders(i),
        };
        let data = |row: &'a DataRow| Data {
            r#type: row.data_type.as_ref(),
            class: &row.class,
            held: HeldBytes::of(row.held),
        };
        Ruby {
            total: HeldBytes::of(by_class.total()),
            classes: by_class.classes.iter().enumerate().map(class).collect(),
            strings: by_class
                .strings
                .iter()
                .map(|&(place, held)| Place { place: place.name(), held: HeldBytes::of(held) })
                .collect(),
            data: by_class.data.iter().map(data).collect(),
            class: by_class.of_class.as_ref().map(of_class::Class::of),
            duplicates: by_class.duplicates.as_ref().map(duplicates::Strings::of),
        }
    }
}

/// Renders the look at one process as text, with at most `rows` classes.
#[must_use]
pub fn text(look: &RubyLook<ByClass>, rows: usize, style: &Style) -> String {
    ruby_look::text(look, style, |text, by_class| {
        push_total(text, look, by_class, style);
        if by_class.of_class.is_some() || by_class.duplicates.is_some() {
            // The answer to a question is not lost below the tables.
            by_class.of_class.iter().for_each(|class| of_class::push(text, class, style));
            by_class.duplicates.iter().for_each(|found| duplicates::push(text, found, style));
            return;
        }
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
    for (i, row) in by_class.classes.iter().take(rows).enumerate() {
        *text += &line(row.held, &class_name(row), style);
        let holders = by_class.holders.as_ref().and_then(|holders| holders.get(i));
        duplicates::push_holders(text, holders.map_or(&[], Vec::as_slice), style);
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
    use unbloat_heap::model::{
        DuplicateText, Duplicates, Encoding, HolderSum, LargeObject, Note, NoteCode, OfClass, SizeGroup,
    };
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
                ..ByClass::default()
            }),
            notes: vec![],
            stopped: Duration::ZERO,
            elapsed: Duration::from_millis(420),
        }
    }

    fn sum(what: &str, held: Held) -> HolderSum {
        HolderSum { what: what.into(), held }
    }

    /// The answers to every question.
    fn answered() -> RubyLook<ByClass> {
        let mut look = look();
        let by_class = look.found.as_mut().unwrap();
        by_class.holders = Some(vec![
            vec![sum("code (literals and caches)", held(50_000, 2_000_000, 51_000_000))],
            vec![
                sum("I18n::Backend::Simple @translations", held(40_000, 1_600_000, 900_000)),
                sum("nothing: waits for a collection", held(30_000, 1_200_000, 800_000)),
            ],
            vec![],
            vec![],
            vec![],
            vec![],
        ]);
        let large = |address, length, encoding, contents: Option<&str>| LargeObject {
            address,
            held: held(1, 40, 70_000),
            length: Some(length),
            encoding: Some(Encoding(encoding)),
            contents: contents.map(Into::into),
        };
        by_class.of_class = Some(OfClass {
            name: "String".into(),
            held: held(249_977, 9_999_080, 5_043_650),
            sizes: vec![
                SizeGroup { up_to_bytes: 64, held: held(180_000, 7_200_000, 0) },
                SizeGroup { up_to_bytes: 131_072, held: held(2, 80, 140_000) },
            ],
            largest: vec![
                large(0x7f00_1234_0000, 69_980, 1, Some("<html>\u{1b}[2J … and so on and on and on and on")),
                large(0x7f00_1234_0028, 69_980, 0, None),
            ],
        });
        by_class.duplicates = Some(Duplicates {
            compared: held(249_000, 9_960_000, 5_000_000),
            unread: 12,
            one_in: 1,
            contents: 18_000,
            copies: held(90_000, 3_600_000, 1_000_000),
            largest: vec![DuplicateText {
                length: 42,
                encoding: Encoding(1),
                copies: held(1_999, 79_960, 95_952),
                contents: Some("SELECT \"shops\".* FROM \"shops\"".into()),
                holders: vec![sum("Product @name", held(2_000, 80_000, 96_000))],
            }],
            holders: Some(vec![sum("Product @name", held(60_000, 2_400_000, 700_000))]),
        });
        look
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
    fn text_of_answers() {
        let mut holders = answered();
        let by_class = holders.found.as_mut().unwrap();
        (by_class.of_class, by_class.duplicates) = (None, None);
        let text = |look: &RubyLook<ByClass>| super::text(look, 4, &Style::PLAIN);
        let (answers, holders) = (text(&answered()), text(&holders));
        for part in [
            "String by size",
            "up to 64 B",
            "0x7f0012340000",
            "ASCII-8BIT",
            "42 B, UTF-8",
            "copies by holder",
        ] {
            assert!(answers.contains(part), "{part}: {answers}");
        }
        assert!(!answers.contains('\u{1b}'), "{answers}");
        assert!(holders.contains("held by") && holders.contains("nothing: waits"), "{holders}");
    }

    #[test]
    fn text_of_questions_without_an_answer() {
        let mut look = answered();
        let by_class = look.found.as_mut().unwrap();
        by_class.of_class = Some(OfClass { name: "Nobody\u{1b}".into(), ..OfClass::default() });
        by_class.duplicates =
            Some(Duplicates { one_in: 4, compared: held(8, 320, 0), ..Duplicates::default() });
        let text = text(&look, 4, &Style::PLAIN);
        assert!(text.contains("no live object of a class named Nobody\u{fffd};"), "{text}");
        assert!(text.contains("equal strings: none among 8; an estimate from one in 4"), "{text}");
    }

    #[test]
    fn json_follows_the_schema() {
        let text = json(&[look(), answered(), not_ruby()]);
        unbloat_test_support::assert_follows(&serde_json::from_str(&text).unwrap(), "objects.schema.json");
    }
}
