//! The owners of the live memory of a Ruby.

use serde::Serialize;
use unbloat_heap::model::{Held, HolderSum, Origin, Ownership, ProcessReport};
use unbloat_untrusted::Untrusted;

#[derive(Serialize)]
pub(super) struct Owners<'a> {
    waiting: Option<Sum>,
    floor_without_waiting_bytes: Option<u64>,
    code_bytes: u64,
    code: Vec<Code<'a>>,
    strings: Sum,
    string_holders: Vec<Holder<'a>>,
}

#[derive(Serialize)]
struct Sum {
    objects: u64,
    slot_bytes: u64,
    malloc_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Code<'a> {
    kind: &'static str,
    name: Option<&'a Untrusted>,
    version: Option<&'a Untrusted>,
    bytes: u64,
}

#[derive(Serialize)]
struct Holder<'a> {
    what: &'a Untrusted,
    #[serde(flatten)]
    held: Sum,
}

impl Sum {
    fn of(held: Held) -> Self {
        Sum { objects: held.objects, slot_bytes: held.slot_bytes, malloc_bytes: held.malloc_bytes }
    }
}

impl<'a> Owners<'a> {
    pub(super) fn of(report: &ProcessReport, ownership: &'a Ownership) -> Self {
        let code = |(origin, bytes): &'a (Origin, u64)| {
            let (name, version) = origin.name();
            Code { kind: origin.kind(), name, version, bytes: *bytes }
        };
        let holder = |holder: &'a HolderSum| Holder { what: &holder.what, held: Sum::of(holder.held) };
        Owners {
            waiting: ownership.waiting.map(Sum::of),
            floor_without_waiting_bytes: report.floor_without_waiting_bytes(),
            code_bytes: ownership.code_bytes,
            code: ownership.code.iter().map(code).collect(),
            strings: Sum::of(ownership.strings),
            string_holders: ownership.string_holders.iter().map(holder).collect(),
        }
    }
}
