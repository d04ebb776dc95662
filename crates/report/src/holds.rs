//! Output of `unbloat holds`: the holders of a Ruby's memory.

use crate::objects::class_name;
use crate::ruby_look::{self, HeldBytes};
use crate::style::{Ink, Style, clip, percent, thousands, wrap};
use serde::Serialize;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{ClassRow, Coverage, HeapDump, Holder, Holds, RubyLook, Step};
use unbloat_untrusted::Untrusted;

/// Maximum number of named classes of garbage.
const WAITING: usize = 5;

/// Renders looks as one JSON document (docs/reference/holds.schema.json).
#[must_use]
pub fn json(looks: &[RubyLook<Holds>]) -> String {
    ruby_look::json(looks, Ruby::of)
}

#[derive(Serialize)]
struct Ruby<'a> {
    reached: HeldBytes,
    waiting: HeldBytes,
    foreign_bytes: u64,
    references: u64,
    coverage: &'a Coverage,
    holders: Vec<HolderRow<'a>>,
    waiting_classes: Vec<Class<'a>>,
    asked: Vec<HolderRow<'a>>,
}

#[derive(Serialize)]
struct HolderRow<'a> {
    what: &'a Untrusted,
    address: Option<String>,
    retained_bytes: u64,
    retained_objects: u64,
    path: &'a [Step],
}

#[derive(Serialize)]
struct Class<'a> {
    name: &'a Untrusted,
    kind: &'static str,
    #[serde(flatten)]
    held: HeldBytes,
}

impl<'a> HolderRow<'a> {
    fn of(holder: &'a Holder) -> Self {
        HolderRow {
            what: &holder.what,
            address: holder.address.map(|address| format!("{address:#x}")),
            retained_bytes: holder.retained_bytes,
            retained_objects: holder.retained_objects,
            path: &holder.path,
        }
    }
}

impl<'a> Ruby<'a> {
    fn of(holds: &'a Holds) -> Self {
        let class = |row: &'a ClassRow| Class {
            name: &row.name,
            kind: row.kind.name(),
            held: HeldBytes::of(row.held),
        };
        Ruby {
            reached: HeldBytes::of(holds.reached),
            waiting: HeldBytes::of(holds.waiting),
            foreign_bytes: holds.foreign_bytes,
            references: holds.references,
            coverage: &holds.coverage,
            holders: holds.holders.iter().map(HolderRow::of).collect(),
            waiting_classes: holds.waiting_classes.iter().map(class).collect(),
            asked: holds.asked.iter().map(HolderRow::of).collect(),
        }
    }
}

/// Renders the look at one process as text, with at most `rows` holders.
#[must_use]
pub fn text(look: &RubyLook<Holds>, rows: usize, style: &Style) -> String {
    ruby_look::text(look, style, |text, holds| {
        *text += &wrap(&reached(look, holds), style.width, 2);
        *text += &wrap(&waiting(holds), style.width, 2);
        *text += &wrap(&coverage(look, holds), style.width, 2);
        push_holders(text, "holds", holds.holders.iter().take(rows), style);
        if !holds.asked.is_empty() {
            push_holders(text, "asked for", holds.asked.iter(), style);
        }
    })
}

fn reached(look: &RubyLook<Holds>, holds: &Holds) -> String {
    format!(
        "Ruby {}: roots reach {} objects, {}",
        look.version.as_deref().unwrap_or("?"),
        thousands(holds.reached.objects),
        Iec(holds.reached.bytes())
    )
}

fn waiting(holds: &Holds) -> String {
    let all = holds.reached.bytes() + holds.waiting.bytes();
    let classes: Vec<String> = holds
        .waiting_classes
        .iter()
        .take(WAITING)
        .map(|row| format!("{} {}", class_name(row), Iec(row.held.bytes())))
        .collect();
    let classes = if classes.is_empty() { String::new() } else { format!(": {}", classes.join(", ")) };
    format!(
        "{} objects, {} ({} of the live bytes), are held by nothing and wait for a collection{classes}",
        thousands(holds.waiting.objects),
        Iec(holds.waiting.bytes()),
        Some(percent(holds.waiting.bytes(), all))
            .filter(|share| !share.is_empty())
            .unwrap_or_else(|| "0 %".to_owned())
    )
}

fn coverage(look: &RubyLook<Holds>, holds: &Holds) -> String {
    let Coverage { structures, unread, dangling, dropped, explained_bytes } = holds.coverage;
    let mut text = format!(
        "read: {} references; {} of {} structures could not be read, {} references led to free slots",
        thousands(holds.references),
        thousands(unread),
        thousands(structures + unread),
        thousands(dangling)
    );
    if dropped > 0 {
        let _ = write!(text, ", {} were left out because there are too many", thousands(dropped));
    }
    if let (Some(explained), Some(live)) = (explained_bytes, look.malloc_live_bytes) {
        let _ = write!(text, "; {} of malloc's live bytes are explained", percent(explained, live));
    }
    text
}

fn push_holders<'a>(text: &mut String, name: &str, holders: impl Iterator<Item = &'a Holder>, style: &Style) {
    let head = format!("{:>11}{:>12}   {name}", "retained", "objects");
    let _ = writeln!(text, "{}", style.paint(Ink::Dim, &head));
    for holder in holders {
        let retained = Iec(holder.retained_bytes).to_string();
        let columns = style.width.saturating_sub(26).max(16);
        let what = clip(&holder.what.shown(), columns);
        let _ = writeln!(text, "{retained:>11}{:>12}   {what}", thousands(holder.retained_objects));
        *text += &style.paint(Ink::Dim, wrap(&path(&holder.path), style.width, 26).trim_end_matches('\n'));
        text.push('\n');
    }
}

fn path(steps: &[Step]) -> String {
    let step = |step: &Step| match step.by.is_empty() {
        true => step.what.shown(),
        false => format!("{} {}", step.by, step.what),
    };
    steps.iter().map(step).collect::<Vec<_>>().join(" → ")
}

/// Renders a heap dump in the lines of `ObjectSpace.dump_all`.
#[must_use]
pub fn heap_dump(dump: &HeapDump) -> String {
    let mut text = String::new();
    for (name, references) in &dump.roots {
        let root = DumpedRoot { r#type: "ROOT", root: name, references: addresses(references) };
        text += &crate::json::line(&root);
        text.push('\n');
    }
    for object in &dump.objects {
        let is_class = matches!(object.code, 0x02 | 0x03);
        let line = DumpedLine {
            address: format!("{:#x}", object.address),
            r#type: type_name(object.code),
            class: (object.class != 0 && object.code != 0x1a).then(|| format!("{:#x}", object.class)),
            name: object.name.as_ref().filter(|_| is_class),
            imemo_type: object.name.as_ref().filter(|_| object.code == 0x1a),
            r#struct: object.name.as_ref().filter(|_| object.code == 0x0c),
            references: addresses(&object.references),
            memsize: object.bytes,
        };
        text += &crate::json::line(&line);
        text.push('\n');
    }
    text
}

#[derive(Serialize)]
struct DumpedRoot<'a> {
    r#type: &'static str,
    root: &'a Untrusted,
    references: Vec<String>,
}

#[derive(Serialize)]
struct DumpedLine<'a> {
    address: String,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imemo_type: Option<&'a Untrusted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#struct: Option<&'a Untrusted>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<String>,
    memsize: u64,
}

fn addresses(all: &[u64]) -> Vec<String> {
    all.iter().map(|address| format!("{address:#x}")).collect()
}

fn type_name(code: u8) -> String {
    unbloat_heap::model::RubyType::of_code(code).name().to_uppercase()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;
    use unbloat_heap::model::{ClassKind, DumpedObject, Held};
    use unbloat_process::Pid;

    fn look() -> RubyLook<Holds> {
        let held = |objects, slot_bytes, malloc_bytes| Held {
            objects,
            slot_bytes,
            malloc_bytes: Some(malloc_bytes),
        };
        let step = |by: &str, what: &str| Step { by: by.into(), what: what.into() };
        let holder = Holder {
            what: "Hash{49}".into(),
            address: Some(0x7f00_1234_0000),
            retained_bytes: 5_893_018,
            retained_objects: 42_940,
            path: vec![
                step("", "Ruby's own variables"),
                step("", "class Object"),
                step("::I18n", "module I18n"),
                step("::Config", "class I18n::Config"),
                step("@@backend", "I18n::Backend::Simple"),
                step("@translations", "Hash{49}"),
            ],
        };
        let waiting = ClassRow {
            name: "String".into(),
            kind: ClassKind::Class,
            classes: 1,
            held: held(200_000, 8_000_000, 3_000_000),
        };
        let found = Holds {
            reached: held(457_895, 18_315_800, 90_000_000),
            waiting: held(247_594, 9_903_760, 5_000_000),
            foreign_bytes: 1_000_000,
            references: 3_300_000,
            coverage: Coverage {
                structures: 500_000,
                unread: 3,
                dangling: 5,
                dropped: 0,
                explained_bytes: Some(104 << 20),
            },
            holders: vec![holder.clone()],
            waiting_classes: vec![waiting],
            asked: vec![Holder { what: "I18n::Backend::Simple".into(), ..holder }],
        };
        RubyLook {
            pid: Pid(1234),
            parent: None,
            command: "puma 6.4.2 (tcp://0.0.0.0:3000) [shop]".into(),
            rss_bytes: 229 << 20,
            malloc_live_bytes: Some(110 << 20),
            version: Some("3.1.2".to_owned()),
            found: Some(found),
            notes: vec![],
            stopped: Duration::ZERO,
            elapsed: Duration::from_millis(420),
        }
    }

    #[test]
    fn text_of_a_look() {
        insta::assert_snapshot!(text(&look(), 5, &Style::PLAIN));
    }

    #[test]
    fn json_follows_the_schema() {
        let text = json(&[look(), RubyLook { found: None, version: None, ..look() }]);
        unbloat_test_support::assert_follows(&serde_json::from_str(&text).unwrap(), "holds.schema.json");
        insta::assert_snapshot!(json(&[look()]));
    }

    #[test]
    fn a_heap_dump_has_a_line_for_each_root_and_object() {
        let object = |code, class, name: Option<&str>| DumpedObject {
            address: 0x7f00_0000_0028,
            code,
            class,
            bytes: 80,
            references: vec![0x7f00_0000_0050],
            reached: true,
            name: name.map(Into::into),
        };
        let dump = HeapDump {
            roots: vec![("the VM".into(), vec![0x7f00_0000_0028])],
            objects: vec![
                object(0x08, 0x1000, None),
                object(0x02, 0x2000, Some("Shop")),
                object(0x1a, 0x3000, Some("iseq")),
            ],
        };
        insta::assert_snapshot!(heap_dump(&dump));
    }
}
