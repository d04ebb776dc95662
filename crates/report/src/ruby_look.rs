//! The frame of every closer look at a Ruby: the process above, the notes below.

use crate::style::{Style, title, wrap};
use serde::Serialize;
use unbloat_heap::model::{Held, RubyLook};
use unbloat_untrusted::{Untrusted, visible};

#[derive(Serialize)]
struct Document<'a, T> {
    schema: u32,
    processes: Vec<Process<'a, T>>,
}

#[derive(Serialize)]
struct Process<'a, T> {
    pid: i32,
    command: &'a Untrusted,
    rss_bytes: u64,
    malloc_live_bytes: Option<u64>,
    version: Option<&'a str>,
    ruby: Option<T>,
    notes: Vec<Note<'a>>,
    stopped_s: f64,
    elapsed_s: f64,
}

#[derive(Serialize)]
struct Note<'a> {
    code: &'static str,
    text: &'a str,
}

/// Objects and their memory, as JSON.
#[derive(Serialize)]
pub(crate) struct HeldBytes {
    objects: u64,
    slot_bytes: u64,
    malloc_bytes: Option<u64>,
}

impl HeldBytes {
    pub(crate) fn of(held: Held) -> Self {
        HeldBytes { objects: held.objects, slot_bytes: held.slot_bytes, malloc_bytes: held.malloc_bytes }
    }
}

/// Renders looks as one JSON document; `ruby` converts the findings of each.
pub(crate) fn json<'a, T, J: Serialize>(looks: &'a [RubyLook<T>], ruby: impl Fn(&'a T) -> J) -> String {
    let process = |look: &'a RubyLook<T>| Process {
        pid: look.pid.0,
        command: &look.command,
        rss_bytes: look.rss_bytes,
        malloc_live_bytes: look.malloc_live_bytes,
        version: look.version.as_deref(),
        ruby: look.found.as_ref().map(&ruby),
        notes: look.notes.iter().map(|note| Note { code: note.code.name(), text: &note.text }).collect(),
        stopped_s: look.stopped.as_secs_f64(),
        elapsed_s: look.elapsed.as_secs_f64(),
    };
    crate::json::pretty(&Document { schema: 1, processes: looks.iter().map(process).collect() })
}

/// Renders a look as text; `ruby` writes the findings.
pub(crate) fn text<T>(look: &RubyLook<T>, style: &Style, ruby: impl FnOnce(&mut String, &T)) -> String {
    let mut text = title(look.pid.0, &look.command, style);
    if let Some(found) = &look.found {
        ruby(&mut text, found);
    }
    for note in &look.notes {
        text += &wrap(&visible(&note.text), style.width, 2);
    }
    text
}
