//! The classes and the code that grow steadily, with the holder of each class: text, JSON, and curves for a page.

use super::label::{name, path};
use crate::chart::page::figure;
use crate::chart::scale::Unit;
use crate::chart::{Chart, Color, Panel, Series, Shape};
use crate::page::section;
use crate::style::{Ink, Style, clip, percent, thousands, wrap};
use maud::{Markup, html};
use serde_json::{Value, json};
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_recording::growth::Findings;
use unbloat_recording::rising::Rising;
use unbloat_recording::rubies::ClassHolder;

/// Seconds per hour, the unit in which growth is reported.
const HOUR: f64 = 3600.0;
/// Looks that an analysis needs, spread over time.
const NEEDED: usize = 24;
/// Maximum number of characters of a name in a table.
const CELL: usize = 40;
/// Width of the columns before a name.
const FIGURES: usize = 39;

/// Renders what grows as text; empty if there were no looks at Rubies.
pub(super) fn text(findings: &Findings, style: &Style) -> String {
    let rising = &findings.rising;
    if rising.looks == 0 {
        return String::new();
    }
    if rising.classes.is_empty() && rising.code.is_empty() {
        return format!("\n{}", wrap(&nothing(rising.looks), style.width, 0));
    }
    let mut out = String::new();
    if !rising.classes.is_empty() {
        out += &head("objects", "class that grows steadily", style);
        for (class, holder) in rising.classes.iter().zip(&findings.holders) {
            out += &line(class, style);
            let holder = wrap(&held(holder.as_ref()), style.width, FIGURES);
            let _ = writeln!(out, "{}", style.paint(Ink::Dim, holder.trim_end_matches('\n')));
        }
    }
    if !rising.code.is_empty() {
        out += &head("sequences", "code that grows steadily", style);
        rising.code.iter().for_each(|code| out += &line(code, style));
    }
    out
}

fn nothing(looks: usize) -> String {
    if looks < NEEDED {
        return format!(
            "No class is named: there were {looks} looks at Rubies, and about {NEEDED} are needed. Record for longer, \
             or with a larger --budget."
        );
    }
    format!("No class of objects and no gem's code grows steadily over {looks} looks.")
}

fn head(count: &str, name: &str, style: &Style) -> String {
    let head = format!("{:>12}{:>12}{count:>12}   {name}", "an hour", "now");
    format!("\n{}\n", style.paint(Ink::Dim, &head))
}

fn line(rising: &Rising, style: &Style) -> String {
    let room = style.width.saturating_sub(FIGURES).max(16);
    format!(
        "{:>12}{:>12}{:>12}   {}\n",
        an_hour(rising),
        Iec(rising.last.bytes).to_string(),
        thousands(rising.last.objects),
        style.paint(Ink::Bold, &clip(&name(&rising.label), room))
    )
}

fn an_hour(rising: &Rising) -> String {
    format!("+{}", Iec((rising.rate * HOUR).max(0.0) as u64))
}

/// Says who holds the objects of a class.
fn held(holder: Option<&ClassHolder>) -> String {
    let Some(found) = holder else {
        return "its holder was not looked for, or the references of this Ruby are not known".to_owned();
    };
    let Some(by) = &found.holder else {
        return match found.objects {
            0 => "no root reaches one: they wait for a collection".to_owned(),
            _ => "no single object holds a large part of them".to_owned(),
        };
    };
    format!(
        "{} of the {} that were reached: {}",
        Some(percent(by.bytes, found.bytes))
            .filter(|share| !share.is_empty())
            .unwrap_or_else(|| "0 %".to_owned()),
        thousands(found.objects),
        path(&by.path)
    )
}

/// A sentence that names the fastest class, for a conclusion.
pub(super) fn sentence(findings: &Findings) -> Option<String> {
    let (first, holder) = (findings.rising.classes.first()?, findings.holders.first()?);
    let by = holder.as_ref().and_then(|holder| holder.holder.as_ref());
    let by = by.map_or_else(String::new, |by| format!(", held by {}", path(&by.path)));
    Some(format!(" {} grows most, by {} an hour{by}.", name(&first.label), &an_hour(first)[1..]))
}

/// Renders what grows according to `docs/reference/growth.schema.json`.
pub(super) fn json(findings: &Findings) -> Value {
    let row = |rising: &Rising| {
        json!({
            "kind": rising.label.kind,
            "name": rising.label.name,
            "version": rising.label.version,
            "bytes_per_s": rising.rate,
            "first": rising.first,
            "last": rising.last,
            "growth": rising.growth,
        })
    };
    let class = |(rising, holder): (&Rising, &Option<ClassHolder>)| {
        let mut document = row(rising);
        document["held"] = holder.as_ref().map_or(
            Value::Null,
            |held| json!({ "objects": held.objects, "bytes": held.bytes, "holder": held.holder }),
        );
        document
    };
    json!({
        "looks": findings.rising.looks,
        "classes": findings.rising.classes.iter().zip(&findings.holders).map(class).collect::<Vec<_>>(),
        "code": findings.rising.code.iter().map(row).collect::<Vec<_>>(),
    })
}

/// Renders what grows, with a curve of each, for a page.
pub(super) fn html(findings: &Findings) -> Markup {
    let rising = &findings.rising;
    let nobody = std::iter::repeat(&None);
    html! {
        @if rising.looks > 0 && rising.classes.is_empty() && rising.code.is_empty() {
            (section("Classes", "", &html! { p { (nothing(rising.looks)) } }))
        }
        @if !rising.classes.is_empty() {
            (section("Classes that grow steadily", NOTE, &curves(&rising.classes, &findings.holders, "objects")))
        }
        @if !rising.code.is_empty() {
            (section("Code that grows steadily", "", &curves(&rising.code, nobody, "sequences")))
        }
    }
}

const NOTE: &str = "Slots and malloc memory of live objects, each process in full. Garbage that waits for a collection is \
                    among them; steady growth is told from its saw-teeth.";

fn curves<'a>(
    all: &'a [Rising],
    holders: impl IntoIterator<Item = &'a Option<ClassHolder>>,
    count: &str,
) -> Markup {
    let is_class = count == "objects";
    html! {
        div.wide {
            table {
                thead { tr { th { (if is_class { "class" } else { "gem" }) } th { "an hour" } th { "now" } th { (count) } } }
                tbody {
                    @for one in all {
                        tr {
                            td { (clip(&name(&one.label), CELL)) }
                            td data-value=(one.rate) { (an_hour(one)) }
                            td data-value=(one.last.bytes) { (Iec(one.last.bytes)) }
                            td data-value=(one.last.objects) { (thousands(one.last.objects)) }
                        }
                    }
                }
            }
        }
        @for (n, (one, holder)) in all.iter().zip(holders).enumerate() {
            p { b { (name(&one.label)) } }
            @if is_class { p.quiet { (held(holder.as_ref())) } }
            (figure(&curve(n, one)))
        }
    }
}

fn curve(n: usize, rising: &Rising) -> Chart {
    let title = name(&rising.label);
    let series = Series {
        name: title.clone(),
        shape: Shape::Line,
        color: Color::Nth(n),
        points: rising.points.clone(),
    };
    Chart {
        title: format!("Bytes of {title} over time"),
        subtitle: String::new(),
        x: Unit::Seconds,
        panels: vec![Panel { title: String::new(), y: Unit::Bytes, weight: 1.0, series: vec![series] }],
        marks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unbloat_recording::growth::Holding;
    use unbloat_recording::rubies::{Amount, HeldBy, PathStep, RubyMoment};
    use unbloat_recording::{Label, ProcessId, Rubies};

    fn label(kind: &str, text: &str, version: Option<&str>) -> Label {
        Label { kind: kind.into(), name: text.into(), version: version.map(Into::into) }
    }

    fn step(by: &str, what: &str) -> PathStep {
        PathStep { by: by.into(), what: what.into() }
    }

    fn holder(text: &str, holder: Option<HeldBy>) -> ClassHolder {
        let label = label("class", text, None);
        ClassHolder { time_ns: 9, process: ProcessId(1), label, objects: 8000, bytes: 5_000_000, holder }
    }

    /// Two hours in which three classes and a gem grow.
    fn findings() -> Findings {
        let moment = |i: u32| {
            let t = f64::from(i) / 60.0;
            let noise = f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 8.0;
            let amount = |from: f64, rise: f64| {
                let bytes = (from + rise * t + noise) as u64;
                Amount { objects: bytes / 400, bytes }
            };
            let sums = [
                (label("class", "Leak", None), amount(1e6, 5e6)),
                (label("class", "Evil\u{1b}[2J<img>", None), amount(1e6, 2e6)),
                (label("internal", "iseq", None), amount(4e6, 3e6)),
                (label("class", "Steady", None), amount(1e6, 0.0)),
            ];
            RubyMoment { time_s: f64::from(i) * 120.0, sums: sums.into() }
        };
        let gem = |i: u32| RubyMoment {
            time_s: f64::from(i) * 120.0,
            sums: [(
                label("gem", "activemodel", Some("7.1.3")),
                Amount {
                    objects: 100 + u64::from(i),
                    bytes: 1_000_000 + u64::from(i) * 40_000 + u64::from(i % 3) * 900,
                },
            )]
            .into(),
        };
        let by = HeldBy {
            what: "Array[7900]".into(),
            objects: 7900,
            bytes: 4_900_000,
            retained_bytes: 6_000_000,
            retained_objects: 16_000,
            path: vec![
                step("", "Ruby's own variables"),
                step("", "class Object"),
                step("::Shop", "class Shop"),
                step("@@journal", "Array[7900]"),
            ],
        };
        let rubies = Rubies {
            classes: (0..60).map(moment).collect(),
            code: (0..60).map(gem).collect(),
            holders: vec![holder("Leak", Some(by)), holder("Evil\u{1b}[2J<img>", None)],
            with_malloc: true,
        };
        let recording = crate::recording::fixture::of_rubies(rubies);
        Findings::of(&recording, |_| Holding::Neither)
    }

    #[test]
    fn text_names_the_class_and_the_path() {
        let text = text(&findings(), &Style::PLAIN);
        assert!(!text.contains('\u{1b}'));
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "class that grows steadily",
            "98 % of the 8,000 that were reached",
            "class Object → ::Shop class Shop → @@journal Array[7900]",
            "no single object holds a large part of them",
            "<iseq>",
            "its holder was not looked for",
            "activemodel 7.1.3",
        ] {
            assert!(flat.contains(part), "{part}: {text}");
        }
        assert!(!flat.contains("Steady"), "{text}");
    }

    #[test]
    fn a_page_has_a_curve_of_each() {
        let page = html(&findings()).into_string();
        assert_eq!(page.matches("<figure").count(), 4);
        assert!(page.contains("@@journal") && !page.contains("<img"));
    }

    #[test]
    fn few_looks_name_nothing_and_say_so() {
        let mut few = findings();
        few.rising = unbloat_recording::rising::RisingAll { looks: 7, ..Default::default() };
        assert!(text(&few, &Style::PLAIN).contains("there were 7 looks"));
        assert_eq!(sentence(&few), None);
    }

    #[test]
    fn a_conclusion_names_the_fastest() {
        let sentence = sentence(&findings()).unwrap_or_default();
        assert!(
            sentence.starts_with(" Leak grows most, by ") && sentence.contains("@@journal"),
            "{sentence}"
        );
    }
}
