//! Strings with equal contents, and the holders of objects.

use super::of_class::quoted;
use super::{head, line};
use crate::ruby_look::HeldBytes;
use crate::style::{Ink, Style, clip, thousands, wrap};
use serde::Serialize;
use unbloat_heap::Iec;
use unbloat_heap::model::{DuplicateText, Duplicates, Held, HolderSum};
use unbloat_untrusted::Untrusted;

/// Holders that are shown of a row of a table.
const HOLDERS: usize = 3;
/// Texts that are shown.
const TEXTS: usize = 10;

#[derive(Serialize)]
pub(super) struct Holder<'a> {
    what: &'a Untrusted,
    #[serde(flatten)]
    held: HeldBytes,
}

impl<'a> Holder<'a> {
    pub(super) fn all(holders: &'a [HolderSum]) -> Vec<Self> {
        holders.iter().map(|holder| Holder { what: &holder.what, held: HeldBytes::of(holder.held) }).collect()
    }
}

#[derive(Serialize)]
pub(super) struct Strings<'a> {
    compared: HeldBytes,
    unread: u64,
    one_in: u64,
    contents: u64,
    copies: HeldBytes,
    largest: Vec<Text<'a>>,
    holders: Option<Vec<Holder<'a>>>,
}

#[derive(Serialize)]
struct Text<'a> {
    length: u64,
    encoding: &'static str,
    copies: HeldBytes,
    contents: Option<&'a Untrusted>,
    holders: Vec<Holder<'a>>,
}

impl<'a> Strings<'a> {
    pub(super) fn of(found: &'a Duplicates) -> Self {
        let text = |text: &'a DuplicateText| Text {
            length: text.length,
            encoding: text.encoding.name(),
            copies: HeldBytes::of(text.copies),
            contents: text.contents.as_ref(),
            holders: Holder::all(&text.holders),
        };
        Strings {
            compared: HeldBytes::of(found.compared),
            unread: found.unread,
            one_in: found.one_in,
            contents: found.contents,
            copies: HeldBytes::of(found.copies),
            largest: found.largest.iter().map(text).collect(),
            holders: found.holders.as_deref().map(Holder::all),
        }
    }
}

/// Writes the section.
pub(super) fn push(text: &mut String, found: &Duplicates, style: &Style) {
    *text += &wrap(&sentence(found), style.width, 2);
    if found.copies.objects == 0 {
        return;
    }
    *text += &head("copies of one text", style);
    for row in found.largest.iter().take(TEXTS) {
        let size = format!("{}, {}", Iec(row.length), row.encoding.name());
        let name = match &row.contents {
            Some(contents) => format!("{size} {}", quoted(contents, 64, style)),
            None => size,
        };
        *text += &line(row.copies, &name, style);
        push_holders(text, &row.holders, style);
    }
    if let Some(holders) = &found.holders {
        *text += &head("copies by holder", style);
        for holder in holders {
            *text += &line(holder.held, &holder.what.shown(), style);
        }
    }
}

pub(super) fn sentence(found: &Duplicates) -> String {
    let unread = match found.unread {
        0 => String::new(),
        unread => format!(" ({} could not be read)", thousands(unread)),
    };
    let sampled = match found.one_in {
        0 | 1 => String::new(),
        n => format!("; an estimate from one in {n} contents"),
    };
    if found.copies.objects == 0 {
        return format!("equal strings: none among {}{unread}{sampled}", thousands(found.compared.objects));
    }
    format!(
        "equal strings: {} of {} strings{unread} are copies of {} contents. With one string for each, {} less{sampled}",
        thousands(found.copies.objects),
        thousands(found.compared.objects),
        thousands(found.contents),
        memory(found.copies)
    )
}

fn memory(held: Held) -> String {
    match held.malloc_bytes {
        Some(bytes) => format!("{} of slots and {} of malloc memory", Iec(held.slot_bytes), Iec(bytes)),
        None => format!("{} of slots", Iec(held.slot_bytes)),
    }
}

/// Writes the largest holders below a row.
pub(super) fn push_holders(text: &mut String, holders: &[HolderSum], style: &Style) {
    for holder in holders.iter().take(HOLDERS) {
        let room = style.width.saturating_sub(56).max(16);
        let what = clip(&holder.what.shown(), room);
        let line = format!("{:>38} {:>12}   {what}", "held by", Iec(holder.held.bytes()).to_string());
        *text += &style.paint(Ink::Dim, &line);
        text.push('\n');
    }
}
