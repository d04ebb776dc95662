//! Output of `unbloat code`: the memory of loaded code by gem and file.

use crate::ruby_look::{self, HeldBytes};
use crate::style::{Ink, Style, clip, percent, thousands, wrap};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_heap::model::{Code, CodeFile, CodeOfOrigin, CodePart, CodeParts, Origin, RubyLook};
use unbloat_untrusted::Untrusted;

/// Renders looks as one JSON document (docs/reference/code.schema.json).
#[must_use]
pub fn json(looks: &[RubyLook<Code>]) -> String {
    ruby_look::json(looks, Ruby::of)
}

#[derive(Serialize)]
struct Ruby<'a> {
    total: Sum,
    origins: Vec<OriginRow<'a>>,
    files: Vec<File<'a>>,
    sequences_without_path: u64,
}

#[derive(Serialize)]
struct Sum {
    sequences: u64,
    bytes: u64,
    shared_bytes: Option<u64>,
    parts: BTreeMap<&'static str, HeldBytes>,
}

#[derive(Serialize)]
struct OriginRow<'a> {
    #[serde(flatten)]
    origin: OriginName<'a>,
    files: u64,
    #[serde(flatten)]
    sum: Sum,
}

#[derive(Serialize)]
struct OriginName<'a> {
    kind: &'static str,
    name: Option<&'a Untrusted>,
    version: Option<&'a Untrusted>,
}

#[derive(Serialize)]
struct File<'a> {
    path: Option<&'a Untrusted>,
    #[serde(flatten)]
    origin: OriginName<'a>,
    #[serde(flatten)]
    sum: Sum,
}

impl Sum {
    fn of(parts: &CodeParts, shared_bytes: Option<u64>) -> Self {
        Sum {
            sequences: parts.sequences(),
            bytes: parts.bytes(),
            shared_bytes,
            parts: parts.iter().map(|(part, held)| (part.name(), HeldBytes::of(held))).collect(),
        }
    }
}

impl<'a> OriginName<'a> {
    fn of(origin: &'a Origin) -> Self {
        let (name, version) = match origin {
            Origin::Gem { name, version } => (Some(name), version.as_ref()),
            Origin::Directory(name) => (Some(name), None),
            _ => (None, None),
        };
        OriginName { kind: origin.kind(), name, version }
    }
}

impl<'a> Ruby<'a> {
    fn of(code: &'a Code) -> Self {
        let total = code.total();
        let origin = |(origin, code): (&'a Origin, CodeOfOrigin)| OriginRow {
            origin: OriginName::of(origin),
            files: code.files,
            sum: Sum::of(&code.parts, code.shared_bytes),
        };
        let file = |file: &'a CodeFile| File {
            path: file.path.as_ref(),
            origin: OriginName::of(&file.origin),
            sum: Sum::of(&file.parts, file.shared_bytes),
        };
        Ruby {
            total: Sum::of(&total.parts, total.shared_bytes),
            origins: code.origins().into_iter().map(origin).collect(),
            files: code.files.iter().map(file).collect(),
            sequences_without_path: code.sequences_without_path,
        }
    }
}

/// Renders the look at one process as text, with at most `rows` origins and half as many files.
#[must_use]
pub fn text(look: &RubyLook<Code>, rows: usize, style: &Style) -> String {
    ruby_look::text(look, style, |text, code| {
        let total = code.total();
        *text += &wrap(&sentence(look, &total), style.width, 2);
        let shared = total.shared_bytes.is_some();
        *text += &head("by gem", shared, style);
        let origins = code.origins();
        for (origin, sum) in origins.iter().take(rows) {
            *text += &line(&sum.parts, sum.shared_bytes, &name(origin), style);
        }
        push_omitted(text, origins.iter().skip(rows).map(|(_, sum)| (&sum.parts, sum.shared_bytes)), style);
        *text += &head("by file", shared, style);
        let files: Vec<&CodeFile> = code.files.iter().filter(|file| file.path.is_some()).collect();
        for file in files.iter().take(rows.div_ceil(2)) {
            let path = file.path.as_ref().map(Untrusted::shown).unwrap_or_default();
            *text += &line(&file.parts, file.shared_bytes, &end_of(&path, style), style);
        }
        let omitted = files.iter().skip(rows.div_ceil(2));
        push_omitted(text, omitted.map(|file| (&file.parts, file.shared_bytes)), style);
        if code.sequences_without_path > 0 {
            let count = thousands(code.sequences_without_path);
            *text += &wrap(
                &format!("{count} instruction sequences have no path that can be read"),
                style.width,
                2,
            );
        }
    })
}

fn sentence(look: &RubyLook<Code>, total: &CodeOfOrigin) -> String {
    let parts = CodePart::ALL.into_iter().filter_map(|part| {
        let bytes = total.parts.get(part)?.bytes();
        let name = match part {
            CodePart::Sequences => "instruction sequences",
            CodePart::InlineCaches => "inline caches",
            CodePart::Methods => "methods",
            CodePart::Tables => "classes and their tables",
        };
        Some(format!("{} {name}", Iec(bytes)))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let shared = total.shared_bytes.map(|bytes| {
        format!(
            ". Of it {} ({}) is still shared with the process that forked this one",
            Iec(bytes),
            percent(bytes, total.parts.bytes())
        )
    });
    let version = look.version.as_deref().unwrap_or("?");
    format!(
        "Ruby {version}: loaded code takes {}: {parts}{}",
        Iec(total.parts.bytes()),
        shared.unwrap_or_default()
    )
}

fn head(name: &str, shared: bool, style: &Style) -> String {
    let shared = if shared { format!("{:>11}", "shared") } else { String::new() };
    let head = format!("{:>9}{:>11}{:>11}{:>11}{shared}   {name}", "sequences", "code", "caches", "classes");
    format!("{}\n", style.paint(Ink::Dim, &head))
}

/// Sequences and methods are code; tables are classes.
fn line(parts: &CodeParts, shared: Option<u64>, name: &str, style: &Style) -> String {
    let bytes = |part| parts.get(part).map_or(0, |held| held.bytes());
    let mut line = format!(
        "{:>9}{:>11}{:>11}{:>11}",
        thousands(parts.sequences()),
        Iec(bytes(CodePart::Sequences) + bytes(CodePart::Methods)).to_string(),
        Iec(bytes(CodePart::InlineCaches)).to_string(),
        Iec(bytes(CodePart::Tables)).to_string(),
    );
    if let Some(shared) = shared {
        let _ = write!(line, "{:>11}", Iec(shared).to_string());
    }
    let columns = style.width.saturating_sub(line.chars().count() + 3).max(16);
    format!("{line}   {}\n", clip(name, columns))
}

fn push_omitted<'a>(
    text: &mut String,
    omitted: impl Iterator<Item = (&'a CodeParts, Option<u64>)>,
    style: &Style,
) {
    let (mut count, mut sums, mut shared) = (0, CodeParts::default(), None);
    for (parts, bytes) in omitted {
        count += 1;
        sums.add_all(parts);
        shared = bytes.map(|bytes| bytes + shared.unwrap_or(0));
    }
    if count > 0 {
        *text += &line(&sums, shared, &format!("{} more (--all)", thousands(count)), style);
    }
}

/// Returns the readable name of an origin.
pub(crate) fn name(origin: &Origin) -> String {
    match origin {
        Origin::Gem { name, version: Some(version) } => format!("{name} {version}"),
        Origin::Gem { name, version: None } => name.shown(),
        Origin::Application => "the application".to_owned(),
        Origin::StandardLibrary => "the standard library".to_owned(),
        Origin::Ruby => "Ruby itself".to_owned(),
        Origin::Evaluated => "evaluated code".to_owned(),
        Origin::Directory(directory) => directory.shown(),
        Origin::Unknown => "no file (classes and methods in C, shared caches)".to_owned(),
    }
}

/// Returns the end of a path, which is more informative than its start.
fn end_of(path: &str, style: &Style) -> String {
    let columns = style.width.saturating_sub(56).max(24);
    let count = path.chars().count();
    if count <= columns {
        return path.to_owned();
    }
    ['…'].into_iter().chain(path.chars().skip(count - columns + 1)).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::time::Duration;
    use unbloat_heap::model::Held;
    use unbloat_process::Pid;

    fn file(path: Option<&str>, origin: Origin, sequences: u64, caches: u64, tables: u64) -> CodeFile {
        let held = |objects, slot_bytes, malloc_bytes| Held {
            objects,
            slot_bytes,
            malloc_bytes: Some(malloc_bytes),
        };
        let parts = [
            (CodePart::Sequences, held(sequences, sequences * 40, sequences * 1000)),
            (CodePart::InlineCaches, held(0, 0, caches)),
            (CodePart::Methods, held(sequences / 2, sequences * 20, sequences * 30)),
            (CodePart::Tables, held(3, 120, tables)),
        ];
        CodeFile {
            path: path.map(Into::into),
            origin,
            parts: parts.into_iter().collect(),
            shared_bytes: Some(caches),
        }
    }

    fn look() -> RubyLook<Code> {
        let gem = |name: &str, version: Option<&str>| Origin::Gem {
            name: name.into(),
            version: version.map(Into::into),
        };
        let files = vec![
            file(
                Some("/var/lib/gems/3.1.0/gems/activerecord-6.1.7.10/lib/active_record/associations.rb"),
                gem("activerecord", Some("6.1.7.10")),
                8653,
                1 << 20,
                400_000,
            ),
            file(Some("/srv/shop/app/models/product.rb"), Origin::Application, 677, 30_000, 4000),
            file(Some("/usr/lib/ruby/vendor_ruby/rack/utils.rb"), gem("rack", None), 200, 9000, 4000),
            file(Some("/usr/lib/ruby/3.1.0/set.rb"), Origin::StandardLibrary, 90, 3000, 0),
            file(Some("<internal:kernel>"), Origin::Ruby, 20, 0, 0),
            file(Some("(eval)"), Origin::Evaluated, 10, 0, 0),
            file(None, Origin::Unknown, 0, 500_000, 900_000),
        ];
        RubyLook {
            pid: Pid(1234),
            parent: Some(Pid(1200)),
            command: "puma: cluster worker 0: 1200 [shop]".into(),
            rss_bytes: 229 << 20,
            malloc_live_bytes: Some(106 << 20),
            version: Some("3.1.2".to_owned()),
            found: Some(Code { files, sequences_without_path: 3 }),
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
        unbloat_test_support::assert_follows(&serde_json::from_str(&text).unwrap(), "code.schema.json");
    }
}
