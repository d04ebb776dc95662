//! The objects of one class: sizes and the largest.

use super::{head, line};
use crate::ruby_look::HeldBytes;
use crate::style::{Ink, Style, clip, thousands, wrap};
use serde::Serialize;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{LargeObject, OfClass};
use unbloat_untrusted::Untrusted;

#[derive(Serialize)]
pub(super) struct Class<'a> {
    name: &'a Untrusted,
    #[serde(flatten)]
    held: HeldBytes,
    sizes: Vec<Size>,
    largest: Vec<Large<'a>>,
}

#[derive(Serialize)]
struct Size {
    up_to_bytes: u64,
    #[serde(flatten)]
    held: HeldBytes,
}

#[derive(Serialize)]
struct Large<'a> {
    address: String,
    slot_bytes: u64,
    malloc_bytes: Option<u64>,
    length: Option<u64>,
    encoding: Option<&'static str>,
    contents: Option<&'a Untrusted>,
}

impl<'a> Class<'a> {
    pub(super) fn of(class: &'a OfClass) -> Self {
        let large = |object: &'a LargeObject| Large {
            address: format!("{:#x}", object.address),
            slot_bytes: object.held.slot_bytes,
            malloc_bytes: object.held.malloc_bytes,
            length: object.length,
            encoding: object.encoding.map(unbloat_heap::model::Encoding::name),
            contents: object.contents.as_ref(),
        };
        let size = |size: &unbloat_heap::model::SizeGroup| Size {
            up_to_bytes: size.up_to_bytes,
            held: HeldBytes::of(size.held),
        };
        Class {
            name: &class.name,
            held: HeldBytes::of(class.held),
            sizes: class.sizes.iter().map(size).collect(),
            largest: class.largest.iter().map(large).collect(),
        }
    }
}

/// Writes the section.
pub(super) fn push(text: &mut String, class: &OfClass, style: &Style) {
    if class.held.objects == 0 {
        let sentence = format!("no live object of a class named {}; --all lists every name", class.name);
        *text += &wrap(&sentence, style.width, 2);
        return;
    }
    *text += &head(&format!("{} by size", class.name), style);
    for size in &class.sizes {
        *text += &line(size.held, &format!("up to {}", Iec(size.up_to_bytes)), style);
    }
    *text += &line(class.held, "all", style);
    let head = format!("{:>18}{:>12}{:>12}   the largest", "address", "bytes", "length");
    let _ = writeln!(text, "{}", style.paint(Ink::Dim, &head));
    for object in &class.largest {
        let address = format!("{:#x}", object.address);
        let bytes = Iec(object.held.bytes()).to_string();
        let length = object.length.map(thousands).unwrap_or_default();
        let encoding = object.encoding.map(unbloat_heap::model::Encoding::name);
        let contents = object.contents.as_ref().map(|contents| quoted(contents, 62, style));
        let what = [encoding.map(str::to_owned), contents].into_iter().flatten().collect::<Vec<_>>();
        let row = format!("{address:>18}{bytes:>12}{length:>12}   {}", what.join(" "));
        let _ = writeln!(text, "{}", row.trim_end());
    }
}

/// Returns as much of a text in quotation marks as fits beside `taken` columns.
pub(super) fn quoted(text: &Untrusted, taken: usize, style: &Style) -> String {
    let room = style.width.saturating_sub(taken).max(16);
    format!("“{}”", clip(&text.shown(), room))
}
