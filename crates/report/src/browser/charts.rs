//! Charts that respond to the pointer.

use super::samples;
use super::tab::{Scheme, Tab, WIDE};
use crate::chart::page::draw;
use crate::chart::scale::Unit;
use crate::chart::svg::{self, Size};
use serde_json::json;

/// Returns the texts of a drawing that match a selector.
fn texts(tab: &mut Tab, selector: &str) -> Vec<String> {
    let script =
        format!("JSON.stringify([...document.querySelectorAll({selector:?})].map((e) => e.textContent))");
    serde_json::from_str(&tab.text(&script)).unwrap_or_else(|error| panic!("{selector}: {error}"))
}

/// Returns the labels of the horizontal axis.
fn time_axis(tab: &mut Tab) -> Vec<String> {
    texts(tab, ".interactive svg text.middle")
}

/// Returns a point above a moment in the minute covered by the sample.
fn moment(tab: &mut Tab, second: f64) -> (f64, f64) {
    let (left, y) = tab.point_in(".interactive svg", 0.0, 0.3);
    let width = tab.number("document.querySelector('.interactive svg').clientWidth");
    (left + 76.0 + (width - 92.0) * second / 60.0, y)
}

fn open() -> Tab {
    Tab::open(&draw(&samples::by_process()), WIDE, Scheme::Light)
}

fn tip(tab: &mut Tab) -> String {
    tab.text("document.getElementById('tip').innerText")
}

#[test]
fn the_pointer_is_told_the_values_beside_it() {
    let mut tab = open();
    assert!(tab.holds("document.getElementById('tip').hidden"));
    let place = moment(&mut tab, 30.02);
    tab.hover(place);
    let told = tip(&mut tab);
    // 10 MiB plus 1, 2, 3 MiB per second.
    for part in [
        "0:00:30.0",
        "1 master\t40.0 MiB",
        "2 worker\t70.0 MiB",
        "\t100.0 MiB",
        "Memory by process (PSS)\t210.0 MiB",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(tab.text("document.querySelector('.cross').getAttribute('visibility')"), "visible");
    let place = moment(&mut tab, 20.25);
    tab.hover(place);
    let told = tip(&mut tab);
    assert!(told.contains("load </script> begins") && told.contains("too close to be written"), "{told}");
    tab.hover((5.0, 5.0));
    assert!(tab.holds("document.getElementById('tip').hidden"));
}

#[test]
fn dragging_shows_a_range_and_a_double_click_everything() {
    let mut tab = open();
    let whole = time_axis(&mut tab);
    assert_eq!(whole.first().map(String::as_str), Some("0"), "{whole:?}");
    assert!(tab.holds("document.querySelector('.reset').disabled"));
    let (from, to) = (moment(&mut tab, 30.0), moment(&mut tab, 36.0));
    tab.drag(from, to);
    assert_eq!(time_axis(&mut tab), ["30 s", "31 s", "32 s", "33 s", "34 s", "35 s", "36 s"]);
    let place = moment(&mut tab, 30.0);
    tab.hover(place);
    assert!(tip(&mut tab).contains("0:00:33.0"), "the middle of the range");
    tab.press(".reset");
    assert_eq!(time_axis(&mut tab), whole, "the button");
    let (from, to) = (moment(&mut tab, 10.0), moment(&mut tab, 50.0));
    tab.drag(from, to);
    assert_ne!(time_axis(&mut tab), whole);
    let place = moment(&mut tab, 10.0);
    tab.click(place, 2);
    assert_eq!(time_axis(&mut tab), whole, "the double click");
}

#[test]
fn a_name_hides_what_it_names_and_twice_shows_it_alone() {
    let mut tab = open();
    let areas = "document.querySelectorAll('.interactive svg .area').length";
    let highest = |tab: &mut Tab| {
        texts(tab, ".interactive svg text.end.tick").into_iter().filter(|t| t.ends_with("MiB")).count()
    };
    assert_eq!(tab.number(areas), 3.0);
    let before = highest(&mut tab);
    tab.press(".legend button:nth-child(3)");
    assert_eq!(tab.number(areas), 2.0);
    assert_eq!(
        tab.text("document.querySelector('.legend button:nth-child(3)').getAttribute('aria-pressed')"),
        "false"
    );
    let place = moment(&mut tab, 30.02);
    tab.hover(place);
    assert!(tip(&mut tab).contains("Memory by process (PSS)\t110.0 MiB"), "the sum of what is shown");
    assert!(before > 0 && highest(&mut tab) > 0);
    tab.press(".legend button:nth-child(3)");
    assert_eq!(tab.number(areas), 3.0);
    let place = tab.point_in(".legend button:nth-child(2)", 0.5, 0.5);
    tab.click(place, 2);
    assert_eq!(tab.number(areas), 1.0);
    assert_eq!(tab.number("document.querySelectorAll('.area.s1').length"), 1.0, "2 worker");
    tab.click(place, 2);
    assert_eq!(tab.number(areas), 3.0);
}

#[test]
fn a_chart_is_as_high_as_what_it_shows() {
    let mut tab = open();
    for window in [WIDE, super::tab::NARROW] {
        tab.resize(window);
        tab.settle();
        let height = tab.number("document.querySelector('.interactive svg').getBoundingClientRect().height");
        let width = tab.number("document.querySelector('.interactive svg').clientWidth");
        assert!(height <= 560.0 && height <= width, "{window:?}: {height}");
        let below = "(() => {
            const svg = document.querySelector('.interactive svg'), ticks = [...svg.querySelectorAll('text.middle')];
            return svg.getBoundingClientRect().bottom - Math.max(...ticks.map((t) => t.getBoundingClientRect().bottom));
        })()";
        let below = tab.number(below);
        assert!((0.0..15.0).contains(&below), "{window:?}: {below} pixels of nothing below the axis");
    }
}

/// The script draws the same charts as Rust; this compares their axes.
#[test]
fn the_script_writes_ticks_as_rust_does() {
    let mut tab = open();
    let units = [
        (Unit::Bytes, "bytes"),
        (Unit::Seconds, "seconds"),
        (Unit::Cores, "cores"),
        (Unit::Milliseconds, "ms"),
        (Unit::Number, "number"),
    ];
    let spans = (0..240).map(|i| 0.013 * 1.23f64.powi(i / 2) * if i % 2 == 0 { 1.0 } else { 1.07 });
    for (span, (unit, name)) in spans.flat_map(|span| units.map(|unit| (span, unit))) {
        let step = unit.step(span, 6);
        let ours: Vec<String> = unit.ticks(0.0, span, 6).iter().map(|&tick| unit.write(tick, step)).collect();
        let script = format!(
            "(() => {{ const by = unbloat.axis.step({name:?}, {span:?}, 6), ticks = [];
             for (let n = 0; n * by <= {span:?} + by * 1e-6; n++) ticks.push(unbloat.axis.write({name:?}, n * by, by));
             return ticks; }})()"
        );
        assert_eq!(tab.evaluate(&script), json!(ours), "{span} {name}");
    }
}

#[test]
fn without_scripts_a_chart_is_a_drawing_with_the_same_names() {
    let chart = samples::by_process();
    let mut tab = open();
    let drawn = svg::figure(&chart, Size { width: 1100.0, height: 520.0 }).into_string();
    assert!(draw(&chart).contains(&format!("<noscript>{drawn}</noscript>")));
    for text in texts(&mut tab, ".interactive svg text.panel, .interactive .legend button") {
        let escaped = maud::html! { (text) }.into_string();
        assert!(drawn.contains(&escaped), "{text}");
    }
}
