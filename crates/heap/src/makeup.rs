//! A look at objects by class and code by origin, with a bounded number of rows, for recordings.

use crate::closer::{self, Scene};
use crate::model::{ByClass, Code, Held, Makeup, OriginRow, RubyLook};
use crate::ruby::{by_class, code};
use std::path::Path;
use unbloat_process::{Pid, Result, status};

/// Maximum number of classes, and of origins. The largest Rails applications have some thousand classes, of which
/// these have all but a few percent of the bytes.
const ROWS: usize = 200;
/// A class or origin with fewer bytes has no row of its own.
const LEAST_BYTES: u64 = 4096;

/// Counts the live objects of a Ruby by class, and its code by origin. Nothing is stopped.
///
/// # Errors
/// As [`crate::inspect::inspect`].
pub fn makeup(pid: Pid) -> Result<RubyLook<Makeup>> {
    closer::look(pid, false, |scene, _| of(scene, status::directory(pid).ok().as_deref()))
}

fn of(scene: &Scene<'_>, directory: Option<&Path>) -> Result<Makeup> {
    Ok(condensed(by_class::count(scene)?, &code::count(scene, directory, None)?, ROWS))
}

/// Keeps at most `rows` classes and origins, and sums up the others.
fn condensed(by_class: ByClass, code: &Code, rows: usize) -> Makeup {
    let mut makeup = Makeup { classes: by_class.classes, ..Makeup::default() };
    let large = makeup.classes.iter().take(rows).filter(|row| row.held.bytes() >= LEAST_BYTES).count();
    makeup.classes.split_off(large).iter().for_each(|row| makeup.other_classes += row.held);
    for (origin, sum) in code.origins() {
        let mut held = Held::default();
        sum.parts.iter().for_each(|(_, part)| held += part);
        let row = OriginRow { origin: origin.clone(), sequences: sum.parts.sequences(), held };
        if makeup.origins.len() < rows && held.bytes() >= LEAST_BYTES {
            makeup.origins.push(row);
        } else {
            makeup.other_origins.sequences += row.sequences;
            makeup.other_origins.held += held;
        }
    }
    makeup
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ClassKind, ClassRow, CodeFile, CodePart, Origin};

    #[test]
    fn the_rest_is_summed_up_and_nothing_is_lost() {
        let held = |objects| Held { objects, slot_bytes: objects * 40, malloc_bytes: Some(objects * 100) };
        let class = |n: u64| ClassRow {
            name: format!("C{n}").into(),
            kind: ClassKind::Class,
            classes: 1,
            held: held(1000 - n),
        };
        let mut classes: Vec<ClassRow> = (0..10).map(class).collect();
        classes.push(ClassRow { held: held(1), ..class(10) });
        let file = |n: u64| CodeFile {
            origin: Origin::Gem { name: format!("gem{n}").into(), version: None },
            parts: [(CodePart::Sequences, held(100 - n)), (CodePart::Methods, held(5))].into_iter().collect(),
            ..CodeFile::default()
        };
        let code = Code { files: (0..5).map(file).collect(), ..Code::default() };
        let by_class = ByClass { classes, ..ByClass::default() };
        let (all_objects, all_code) = (by_class.total(), code.total().parts.bytes());
        let makeup = condensed(by_class, &code, 3);
        assert_eq!((makeup.classes.len(), makeup.origins.len()), (3, 3));
        let mut sum = makeup.other_classes;
        makeup.classes.iter().for_each(|row| sum += row.held);
        assert_eq!(sum, all_objects);
        let rows = makeup.origins.iter().chain([&makeup.other_origins]);
        assert_eq!(rows.clone().map(|row| row.held.bytes()).sum::<u64>(), all_code);
        assert_eq!(rows.map(|row| row.sequences).sum::<u64>(), 100 + 99 + 98 + 97 + 96);
        let many = condensed(
            ByClass { classes: vec![class(1), ClassRow { held: held(1), ..class(2) }], ..ByClass::default() },
            &Code::default(),
            200,
        );
        assert_eq!((many.classes.len(), many.other_classes.objects), (1, 1), "small ones have no row");
    }
}
