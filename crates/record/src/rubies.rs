//! Looks at the Rubies of recordings: objects by class and code by origin, and the holders of classes that grow.

use crate::ops::Op;
use crate::reading::{Reading, Request};
use unbloat_heap::model::{ClassKind, ClassLabel, Held, HeldClass, Makeup, Origin, OriginRow};
use unbloat_process::Error;
use unbloat_recording::rubies::REST;
use unbloat_recording::{ClassBytes, ClassHolder, CodeBytes, HeldBy, Label, PathStep, ProcessId};
use unbloat_untrusted::Untrusted;

/// Maximum number of characters of a recorded name or step of a path.
const NAME: usize = 200;

/// Counts objects and code of all Rubies among the processes. Nothing is stopped and nothing runs in them.
pub(crate) fn take(request: &Request, reading: &mut Reading) {
    for &(id, pid) in &request.processes {
        match unbloat_heap::makeup(pid) {
            Ok(look) => {
                let Some(makeup) = look.found else { continue };
                reading.inspected += 1;
                reading.ops.push(Op::Classes(classes(id, reading.time_ns, &makeup)));
                reading.ops.push(Op::Code(code(id, reading.time_ns, &makeup)));
            }
            Err(Error::Gone { .. }) => {}
            Err(error) => reading.ops.push(Op::Note(id, error.to_string())),
        }
    }
}

/// Finds the holders of the requested classes.
pub(crate) fn holders(request: &Request, reading: &mut Reading) {
    let wanted: Vec<ClassLabel> = request.classes.iter().filter_map(wanted).collect();
    for &(id, pid) in &request.processes {
        match unbloat_heap::held(pid, &wanted) {
            Ok(look) => {
                let rows: Vec<ClassHolder> =
                    look.found.into_iter().flatten().map(|held| holder(id, reading.time_ns, &held)).collect();
                reading.inspected += usize::from(!rows.is_empty());
                reading.ops.push(Op::Holders(rows));
            }
            Err(Error::Gone { .. }) => {}
            Err(error) => reading.ops.push(Op::Note(id, error.to_string())),
        }
    }
}

fn classes(process: ProcessId, time_ns: i64, makeup: &Makeup) -> Vec<ClassBytes> {
    let row = |label, held: Held| ClassBytes {
        time_ns,
        process,
        label,
        objects: held.objects,
        slot_bytes: held.slot_bytes,
        malloc_bytes: held.malloc_bytes,
    };
    let mut rows: Vec<ClassBytes> =
        makeup.classes.iter().map(|class| row(class_label(class.kind, &class.name), class.held)).collect();
    if makeup.other_classes.objects > 0 {
        rows.push(row(Label { kind: REST.into(), ..Label::default() }, makeup.other_classes));
    }
    rows
}

fn code(process: ProcessId, time_ns: i64, makeup: &Makeup) -> Vec<CodeBytes> {
    let row = |label, origin: &OriginRow| CodeBytes {
        time_ns,
        process,
        label,
        sequences: origin.sequences,
        slot_bytes: origin.held.slot_bytes,
        malloc_bytes: origin.held.malloc_bytes,
    };
    let mut rows: Vec<CodeBytes> =
        makeup.origins.iter().map(|origin| row(origin_label(&origin.origin), origin)).collect();
    if makeup.other_origins.held.objects > 0 {
        rows.push(row(Label { kind: REST.into(), ..Label::default() }, &makeup.other_origins));
    }
    rows
}

fn class_label(kind: ClassKind, name: &Untrusted) -> Label {
    Label { kind: kind.name().into(), name: cut(name), version: None }
}

fn origin_label(origin: &Origin) -> Label {
    let (name, version) = match origin {
        Origin::Gem { name, version } => (cut(name), version.as_ref().map(cut)),
        Origin::Directory(name) => (cut(name), None),
        Origin::Application
        | Origin::StandardLibrary
        | Origin::Ruby
        | Origin::Evaluated
        | Origin::Unknown => (Untrusted::default(), None),
    };
    Label { kind: origin.kind().into(), name, version }
}

fn wanted(label: &Label) -> Option<ClassLabel> {
    Some(ClassLabel { kind: ClassKind::named(label.kind.raw())?, name: label.name.clone() })
}

fn holder(process: ProcessId, time_ns: i64, found: &HeldClass) -> ClassHolder {
    ClassHolder {
        time_ns,
        process,
        label: class_label(found.class.kind, &found.class.name),
        objects: found.reached.objects,
        bytes: found.reached.bytes(),
        holder: found.holder.as_ref().map(|(holder, held)| HeldBy {
            what: cut(&holder.what),
            objects: held.objects,
            bytes: held.bytes(),
            retained_bytes: holder.retained_bytes,
            retained_objects: holder.retained_objects,
            path: holder
                .path
                .iter()
                .map(|step| PathStep { by: cut(&step.by), what: cut(&step.what) })
                .collect(),
        }),
    }
}

/// Cuts off what no real name has.
fn cut(name: &Untrusted) -> Untrusted {
    match name.raw().char_indices().nth(NAME) {
        Some((end, _)) => Untrusted::from(&name.raw()[..end]),
        None => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters() {
        let long = Untrusted::from("é".repeat(NAME + 5));
        assert_eq!(cut(&long).raw().chars().count(), NAME);
        assert_eq!(cut(&"Leak".into()), "Leak");
    }

    #[test]
    fn a_class_is_found_again_by_its_label() {
        for kind in ClassKind::ALL {
            let label = class_label(kind, &"Leak".into());
            assert_eq!(wanted(&label), Some(ClassLabel { kind, name: "Leak".into() }));
        }
        assert_eq!(wanted(&Label { kind: REST.into(), ..Label::default() }), None);
    }
}
