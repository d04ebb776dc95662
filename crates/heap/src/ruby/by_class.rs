//! Live objects by class: count, slots, malloc memory.
//!
//! Objects are counted in cells, a cell for each pair of a key (class, kind of internal object) and a detail (the place of a
//! string's bytes, the type of wrapped data). A cell owns what its objects own; rows are sums of cells.

use super::chunks::Claims;
use super::names::classes::{CLASS, ClassName, Classes, ICLASS, RealClass};
use super::names::data_types::DataTypes;
use super::names::facts::NameFacts;
use super::names::text::STRING;
use super::names::user;
use super::owners::Owners;
use super::slots::{self, Slot};
use super::{RubyVersion, imemo};
use crate::closer::Scene;
use crate::model::{
    ByClass, Category, ClassKind, ClassLabel, ClassRow, DataRow, Held, RubyType, StringPlace,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use unbloat_process::Result;
use unbloat_untrusted::Untrusted;

const DATA: u8 = 0x0c;
const IMEMO: u8 = 0x1a;
/// Types invisible to programs: T_NODE, T_ZOMBIE, T_MOVED.
const INTERNAL: [u8; 3] = [0x1b, 0x1d, 0x1e];
/// Maximum number of cells: ten times the classes of the largest programs.
const MAX_CELLS: usize = 1 << 20;

/// The key under which objects are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Class(u64),
    Singleton,
    Imemo(u8),
    IncludedModule,
    Internal(u8),
    Hidden(u8),
    Unknown,
}

/// The distinction between cells of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Detail {
    None,
    Text(StringPlace),
    Data(Option<u64>),
}

/// A count, in which each object's row can be found.
pub(crate) struct Counted<'a> {
    /// The rows.
    pub(crate) by_class: ByClass,
    cells: Cells<'a>,
    /// Index in `by_class.classes` by key and, of hidden data, wrapped type.
    rows: HashMap<RowKey, usize>,
}

impl Counted<'_> {
    /// Returns the index of the class's row to which an object counts.
    pub(crate) fn row(&mut self, slot: &Slot<'_>) -> Option<usize> {
        let key = self.cells.key(slot);
        let hidden_data = matches!(key, Key::Hidden(DATA));
        let wrapped = if hidden_data { self.cells.types.of(slot) } else { None };
        self.rows.get(&(key, wrapped)).copied()
    }
}

/// Counts the objects of a space.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn count(scene: &Scene<'_>) -> Result<ByClass> {
    Ok(counted(scene)?.by_class)
}

/// Counts the objects of a space, and keeps what finds their rows.
///
/// # Errors
/// The process is gone or may not be looked at.
pub(crate) fn counted<'a>(scene: &Scene<'a>) -> Result<Counted<'a>> {
    let mut cells = Cells::new(scene);
    let claims = scene.chunks.map(|chunks| Claims::new(chunks, None));
    let mut owners = claims.and_then(|claims| Owners::of(scene.version, scene.memory, scene.maps, claims));
    for (_, slot) in scene.space().objects() {
        let cell = cells.add(&slot);
        if let Some(owners) = &mut owners {
            owners.visit(slot, cell);
        }
    }
    if let Some(owners) = owners {
        let claims = owners.finish()?;
        for (i, (_, held)) in cells.held.iter_mut().enumerate() {
            held.malloc_bytes = Some(claims.bytes.get(i).copied().unwrap_or(0));
        }
    }
    let (by_class, rows) = cells.rows(scene.version);
    Ok(Counted { by_class, cells, rows })
}

/// Counts the objects, with the malloc bytes that they own according to `malloc`, by class, largest first.
pub(crate) fn rows_of(scene: &Scene<'_>, malloc: impl Fn(u32) -> Option<u64>) -> Vec<ClassRow> {
    let mut cells = Cells::new(scene);
    for (number, slot) in scene.space().objects() {
        let Some(bytes) = malloc(number) else { continue };
        let cell = cells.add(&slot);
        if let Some((_, held)) = cells.held.get_mut(cell as usize) {
            *held.malloc_bytes.get_or_insert(0) += bytes;
        }
    }
    cells.rows(scene.version).0.classes
}

/// Returns, for each slot, the place of its object's class among `wanted`, or [`NOT_WANTED`].
pub(crate) fn members(scene: &Scene<'_>, wanted: &[ClassLabel]) -> Vec<u8> {
    let (numbers, labels) = labels(scene);
    let place = |label: &ClassLabel| {
        let at = wanted.iter().position(|class| class == label);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or(NOT_WANTED)
    };
    let places: Vec<u8> = labels.iter().map(place).collect();
    let mut members = vec![NOT_WANTED; scene.space().len() as usize];
    for (number, cell) in numbers {
        if let (Some(member), Some(&place)) = (members.get_mut(number as usize), places.get(cell as usize)) {
            *member = place;
        }
    }
    members
}

/// Returns each object's number with the place of its class among the labels, and the labels.
pub(crate) fn labels(scene: &Scene<'_>) -> (Vec<(u32, u32)>, Vec<ClassLabel>) {
    let mut cells = Cells::new(scene);
    let numbers = scene.space().objects().map(|(number, slot)| (number, cells.add(&slot))).collect();
    let label = |&((key, detail), _): &((Key, Detail), Held)| {
        let (kind, name) = cells.name(key, wrapped(key, detail), scene.version);
        ClassLabel { kind, name: Untrusted::new(name) }
    };
    let labels = cells.held.iter().map(label).collect();
    (numbers, labels)
}

/// The place of objects whose class is not wanted.
pub(crate) const NOT_WANTED: u8 = u8::MAX;

/// Returns the type of wrapped data by which hidden objects are named.
fn wrapped(key: Key, detail: Detail) -> Option<u64> {
    match (key, detail) {
        (Key::Hidden(_), Detail::Data(of)) => of,
        _ => None,
    }
}
/// A key and, of hidden data, the wrapped type: what names a row.
type RowKey = (Key, Option<u64>);

struct Cells<'a> {
    classes: &'a Classes<'a>,
    types: &'a DataTypes<'a>,
    /// Real classes by the class pointer of objects.
    known: HashMap<u64, Key>,
    index: HashMap<(Key, Detail), u32>,
    held: Vec<((Key, Detail), Held)>,
}

impl<'a> Cells<'a> {
    fn new(scene: &Scene<'a>) -> Self {
        Cells {
            classes: scene.classes,
            types: scene.types,
            known: HashMap::new(),
            index: HashMap::new(),
            held: Vec::new(),
        }
    }

    /// Counts an object and returns its cell.
    fn add(&mut self, slot: &Slot<'_>) -> u32 {
        let mut cell = (self.key(slot), self.detail(slot));
        if self.held.len() >= MAX_CELLS && !self.index.contains_key(&cell) {
            cell = (Key::Unknown, Detail::None);
        }
        let next = self.held.len() as u32;
        let index = *self.index.entry(cell).or_insert(next);
        if index == next {
            self.held.push((cell, Held::default()));
        }
        if let Some((_, held)) = self.held.get_mut(index as usize) {
            *held += Held { objects: 1, slot_bytes: slot.bytes.len() as u64, malloc_bytes: None };
        }
        index
    }

    fn key(&mut self, slot: &Slot<'_>) -> Key {
        match slot.code() {
            IMEMO => return Key::Imemo(slot.imemo_kind()),
            ICLASS => return Key::IncludedModule,
            code if INTERNAL.contains(&code) => return Key::Internal(code),
            CLASS if self.classes.is_singleton(slot) => return Key::Singleton,
            _ => {}
        }
        let class = slot.class();
        if class == 0 {
            return Key::Hidden(slot.code());
        }
        let classes = self.classes;
        *self.known.entry(class).or_insert_with(|| match classes.real(class) {
            RealClass::Of(class) => Key::Class(class),
            RealClass::Hidden | RealClass::Unknown => Key::Unknown,
        })
    }

    fn detail(&self, slot: &Slot<'_>) -> Detail {
        match slot.code() {
            STRING => Detail::Text(place(slot, self.classes.texts.facts)),
            DATA => Detail::Data(self.types.of(slot)),
            _ => Detail::None,
        }
    }

    fn rows(&self, version: RubyVersion) -> (ByClass, HashMap<RowKey, usize>) {
        let mut rows: BTreeMap<(ClassKind, String), (HashSet<u64>, Held)> = BTreeMap::new();
        let mut strings: BTreeMap<StringPlace, Held> = BTreeMap::new();
        let mut data: BTreeMap<(Option<String>, String), Held> = BTreeMap::new();
        let mut names: HashMap<RowKey, (ClassKind, String)> = HashMap::new();
        for &((key, detail), held) in &self.held {
            let wrapped = wrapped(key, detail);
            let row = names.entry((key, wrapped)).or_insert_with(|| self.name(key, wrapped, version));
            let (classes, sum) = rows.entry(row.clone()).or_default();
            *sum += held;
            if let Key::Class(class) = key {
                classes.insert(class);
            }
            match detail {
                Detail::Text(place) => *strings.entry(place).or_default() += held,
                Detail::Data(of) => {
                    let name = of.map(|of| self.types.name(of).unwrap_or_else(|| "?".to_owned()));
                    *data.entry((name, row.1.clone())).or_default() += held;
                }
                Detail::None => {}
            }
        }
        let mut by_class = ByClass {
            classes: rows
                .into_iter()
                .map(|((kind, name), (classes, held))| ClassRow {
                    name: Untrusted::new(name),
                    kind,
                    classes: classes.len() as u64,
                    held,
                })
                .collect(),
            strings: strings.into_iter().collect(),
            data: data
                .into_iter()
                .map(|((name, class), held)| DataRow {
                    data_type: name.map(Untrusted::new),
                    class: Untrusted::new(class),
                    held,
                })
                .collect(),
            ..ByClass::default()
        };
        by_class.classes.sort_by_key(|row| std::cmp::Reverse(row.held.bytes()));
        by_class.data.sort_by_key(|row| std::cmp::Reverse(row.held.bytes()));
        let sorted = by_class.classes.iter().enumerate();
        let index: HashMap<(ClassKind, &str), usize> =
            sorted.map(|(i, row)| ((row.kind, row.name.raw()), i)).collect();
        let index_of = |(kind, name): &(ClassKind, String)| index.get(&(*kind, name.as_str())).copied();
        let rows = names.iter().filter_map(|(&key, name)| Some((key, index_of(name)?))).collect();
        (by_class, rows)
    }

    fn name(&self, key: Key, wrapped: Option<u64>, version: RubyVersion) -> (ClassKind, String) {
        match key {
            Key::Class(class) => match self.classes.name(class) {
                ClassName::Named(name) => (ClassKind::Class, name),
                ClassName::Anonymous(above) => (ClassKind::Anonymous, above),
                ClassName::Unknown => (ClassKind::Unknown, "unknown".to_owned()),
            },
            Key::Singleton => (ClassKind::Singleton, "singleton classes".to_owned()),
            Key::Imemo(kind) => {
                let kinds = version.facts().map(|facts| facts.imemos);
                let name = kinds.and_then(|kinds| kinds.get(usize::from(kind)));
                (ClassKind::Internal, (*name.unwrap_or(&imemo::UNKNOWN)).to_owned())
            }
            Key::IncludedModule => (ClassKind::Internal, "included module".to_owned()),
            Key::Internal(code) => (ClassKind::Internal, type_name(code).to_lowercase()),
            Key::Hidden(_) if wrapped.is_some() => {
                let name = wrapped.and_then(|of| self.types.name(of));
                (ClassKind::Hidden, name.unwrap_or_else(|| "?".to_owned()))
            }
            Key::Hidden(code) => (ClassKind::Hidden, type_name(code).to_owned()),
            Key::Unknown => (ClassKind::Unknown, "unknown".to_owned()),
        }
    }
}

fn type_name(code: u8) -> &'static str {
    match slots::category(u64::from(code)) {
        Category::RubyLive(ruby_type) => ruby_type.name(),
        _ => RubyType::Unknown.name(),
    }
}

/// Returns the location of a string's bytes: `STR_NOEMBED` (USER1), `STR_SHARED`, `STR_NOFREE` (USER18;
/// string.c).
fn place(slot: &Slot<'_>, facts: &NameFacts) -> StringPlace {
    match slot.flags {
        flags if flags & user(1) == 0 => StringPlace::Embedded,
        flags if flags & facts.shared != 0 => StringPlace::Shared,
        flags if flags & user(18) != 0 => StringPlace::Static,
        _ => StringPlace::Own,
    }
}
