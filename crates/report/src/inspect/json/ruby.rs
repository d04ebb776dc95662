//! The Ruby heap: size pools, their contents, and the malloc memory that belongs to it.

use serde::Serialize;
use unbloat_heap::model::{RubyHeap, RubyType, SizePool};

#[derive(Serialize)]
pub(super) struct Ruby<'a> {
    version: &'a str,
    page_bytes: u64,
    pages: u64,
    slots: u64,
    live_slots: u64,
    free_slots: u64,
    eden_pages: u64,
    unassigned_pages: u64,
    compactable_pages: u64,
    sorted_length: Option<u64>,
    slot_use: Option<f64>,
    page_use: Option<f64>,
    pools: Vec<Pool>,
    objects: Vec<Objects>,
    imemos: Vec<Imemos>,
    malloc_owned: Option<Vec<Owned>>,
}

impl<'a> Ruby<'a> {
    pub(super) fn of(ruby: &'a RubyHeap) -> Self {
        Ruby {
            version: &ruby.version,
            page_bytes: ruby.page_bytes,
            pages: ruby.pages(),
            slots: ruby.slots(),
            live_slots: ruby.live_slots(),
            free_slots: ruby.free_slots(),
            eden_pages: ruby.eden_pages(),
            unassigned_pages: ruby.unassigned_pages,
            compactable_pages: ruby.compactable_pages,
            sorted_length: ruby.sorted_length,
            slot_use: ruby.slot_use(),
            page_use: ruby.page_use(),
            pools: ruby.pools.iter().map(Pool::of).collect(),
            objects: ruby.objects.iter().map(Objects::of).collect(),
            imemos: ruby.imemos.iter().map(|&(kind, live_slots)| Imemos { kind, live_slots }).collect(),
            malloc_owned: ruby.malloc_owned.as_ref().map(|owned| owned.iter().map(Owned::of).collect()),
        }
    }
}

#[derive(Serialize)]
struct Pool {
    slot_bytes: u64,
    pages: u64,
    slots: u64,
    live_slots: u64,
    free_slots: u64,
    unread_slots: u64,
    empty_pages: u64,
    tomb_pages: u64,
    tomb_slots: u64,
}

impl Pool {
    fn of(pool: &SizePool) -> Self {
        Pool {
            slot_bytes: pool.slot_bytes,
            pages: pool.pages,
            slots: pool.slots,
            live_slots: pool.live_slots,
            free_slots: pool.free_slots(),
            unread_slots: pool.unread_slots,
            empty_pages: pool.empty_pages,
            tomb_pages: pool.tomb_pages,
            tomb_slots: pool.tomb_slots,
        }
    }
}

#[derive(Serialize)]
struct Objects {
    r#type: &'static str,
    live_slots: u64,
}

impl Objects {
    fn of(&(ruby_type, live_slots): &(RubyType, u64)) -> Self {
        Objects { r#type: ruby_type.name(), live_slots }
    }
}

#[derive(Serialize)]
struct Imemos {
    kind: &'static str,
    live_slots: u64,
}

#[derive(Serialize)]
struct Owned {
    r#type: &'static str,
    bytes: u64,
}

impl Owned {
    fn of(&(ruby_type, bytes): &(RubyType, u64)) -> Self {
        Owned { r#type: ruby_type.name(), bytes }
    }
}
