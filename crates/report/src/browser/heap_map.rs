//! The heap map: hover, zoom, "go to", and a map of half a million pages.

use super::samples::{self, LARGE_MAP_PAGES};
use super::tab::{NARROW, Scheme, Tab, WIDE};

/// Counts the work between two animation frames: pixels put into images, rectangles filled, texts drawn.
const PROBE: &str = "
    window.work = { frames: 0, paints: 0, cells: 0, rectangles: 0, texts: 0, most: { cells: 0, rectangles: 0, texts: 0 } };
    (() => {
      const { work } = window, prototype = CanvasRenderingContext2D.prototype;
      const count = (name, key, of) => {
        const original = prototype[name];
        prototype[name] = function (...a) { work[key] += of(a); return original.apply(this, a); };
      };
      count('putImageData', 'cells', ([image]) => image.width * image.height);
      count('fillRect', 'rectangles', () => 1);
      count('fillText', 'texts', () => 1);
      count('setTransform', 'paints', () => 0);
      const frame = () => {
        work.frames++;
        for (const key of ['cells', 'rectangles', 'texts']) {
          work.most[key] = Math.max(work.most[key], work[key]);
          work[key] = 0;
        }
        requestAnimationFrame(frame);
      };
      requestAnimationFrame(frame);
    })();";

fn small() -> Tab {
    let mut tab = Tab::open(&samples::inspected_one(), WIDE, Scheme::Light);
    tab.point_in(".view", 0.5, 0.5);
    tab.settle();
    tab
}

fn large() -> Tab {
    let mut tab = Tab::with_probe(&samples::inspected_large(), WIDE, Scheme::Light, PROBE);
    tab.point_in(".view", 0.5, 0.5);
    tab.settle();
    tab
}

fn scale(tab: &mut Tab) -> String {
    tab.text("document.querySelector('.scale').textContent")
}

fn tip(tab: &mut Tab) -> String {
    tab.text("document.getElementById('tip').innerText")
}

/// Returns the point over the nth cell of the first row, with cells of a given size.
fn cell(tab: &mut Tab, n: f64, size: f64) -> (f64, f64) {
    let (left, top) = tab.point_in(".view", 0.0, 0.0);
    (left + 1.0 + 104.0 + (n + 0.5) * size, top + 1.0 + 44.0 + size / 2.0)
}

#[test]
fn the_pointer_is_told_what_a_page_holds() {
    let mut tab = small();
    // Four pages need no small cells: they start at 12 pixels.
    let expected = [
        (0.0, "0x7f0000000000", "live\t4 KiB"),
        (1.0, "0x7f0000001000", "live\t1 KiB"),
        (1.0, "0x7f0000001000", "stranded\t2.98 KiB"),
        (1.0, "0x7f0000001000", "headers, padding, other\t16 B"),
        (2.0, "0x7f0000002000", "trimmable\t4 KiB"),
        (3.0, "0x7f0000003000", "not resident"),
    ];
    for (page, address, contents) in expected {
        let place = cell(&mut tab, page, 12.0);
        tab.hover(place);
        let told = tip(&mut tab);
        assert!(told.contains(address) && told.contains(contents), "{page}: {told}");
    }
    let place = cell(&mut tab, 9.0, 12.0);
    tab.hover(place);
    assert!(tab.holds("document.getElementById('tip').hidden"), "there is no tenth page");
}

#[test]
fn a_small_map_is_as_high_as_its_rows() {
    let mut tab = small();
    // A caption, one row of 12 pixels, the margin below.
    assert_eq!(tab.number("document.querySelector('.view').clientHeight"), 78.0);
    let mut tab = large();
    assert_eq!(tab.number("document.querySelector('.view').offsetHeight"), (0.72f64 * 900.0).floor());
}

#[test]
fn colors_follow_the_switch() {
    let mut tab = small();
    let pixel = "[...document.querySelector('.view canvas').getContext('2d').getImageData(110, 50, 1, 1).data].join()";
    assert_eq!(tab.text(pixel), "31,102,201,255", "live on light: #1f66c9");
    tab.press("#theme");
    tab.point_in(".view", 0.5, 0.5);
    assert_eq!(tab.text(pixel), "74,144,240,255", "live on dark: #4a90f0");
}

#[test]
fn buttons_keys_and_the_wheel_zoom_and_the_row_under_the_pointer_stays() {
    let mut tab = large();
    let start = scale(&mut tab);
    tab.press(".zoom-tools .in");
    let closer = scale(&mut tab);
    assert_ne!(closer, start, "fewer pages a row");
    tab.press(".zoom-tools .out");
    assert_eq!(scale(&mut tab), start);
    tab.evaluate("document.querySelector('.view').focus()");
    tab.key("+");
    assert_eq!(scale(&mut tab), closer);
    tab.key("-");
    assert_eq!(scale(&mut tab), start);

    tab.evaluate("document.querySelector('.view').scrollTop = 3000");
    tab.settle();
    let place = tab.point_in(".view", 0.4, 0.4);
    tab.hover(place);
    let address = |tab: &mut Tab| {
        let told = tip(tab);
        let digits = told.lines().next().and_then(|line| line.strip_prefix("0x"));
        digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_else(|| panic!("{told}"))
    };
    let page = address(&mut tab);
    for _ in 0..4 {
        tab.wheel_with_control(place, -1);
    }
    assert_ne!(scale(&mut tab), start);
    tab.hover((place.0 + 1.0, place.1));
    let columns =
        ((tab.number("document.querySelector('.view').clientWidth") - 118.0) / 12.0 / 16.0).floor() * 16.0;
    let apart = address(&mut tab).abs_diff(page) as f64;
    assert!(apart < columns * 4096.0, "its row is still under the pointer: {apart} bytes apart");
}

#[test]
fn go_to_goes_there() {
    let mut tab = large();
    let groups = tab.number("document.querySelector('.goto').options.length");
    assert_eq!(groups, 5.0 + 16.0, "pools of slots and arenas");
    for group in [3, 7, 15] {
        let choose = format!(
            "(() => {{ const s = document.querySelector('.goto'); s.value = {group}; s.dispatchEvent(new Event('change'));
             return s.selectedOptions[0].textContent; }})()"
        );
        let name = tab.text(&choose);
        tab.settle();
        let place = cell(&mut tab, 0.0, 3.0);
        tab.hover(place);
        assert!(
            tip(&mut tab).contains(&name),
            "the first page below the caption is of {name}: {}",
            tip(&mut tab)
        );
    }
}

/// Behavior, not time: the work of a frame depends on the visible part, never on the size of the map.
#[test]
fn half_a_million_pages_cost_a_frame_no_more_than_what_is_in_view() {
    const { assert!(LARGE_MAP_PAGES >= 500_000) };
    let mut tab = large();
    tab.picture("inspect-large");
    let [width, height] = ["clientWidth", "clientHeight"]
        .map(|side| tab.number(&format!("document.querySelector('.view').{side}")));
    let scroll = "(async () => {
        const view = document.querySelector('.view'), frame = () => new Promise(requestAnimationFrame);
        Object.assign(work.most, { cells: 0, rectangles: 0, texts: 0 });
        for (const key of ['cells', 'rectangles', 'texts']) work[key] = 0;
        const bottom = view.scrollHeight - view.clientHeight, steps = 60;
        for (let i = 0; i <= steps; i++) {
            // Several scrolls and moves per frame, as with a wheel and a hand.
            for (let k = 0; k < 5; k++) view.scrollTop = bottom * (i + k / 5) / steps;
            await frame();
        }
        await frame(); await frame();
        return bottom;
    })()";
    for size in [3.0, 12.0, 32.0] {
        tab.evaluate("work.frames = 0");
        let bottom = tab.number(scroll);
        assert!(bottom > height, "there is something to scroll: {bottom}");
        let most = |tab: &mut Tab, what: &str| tab.number(&format!("work.most.{what}"));
        let in_view = (width / size + 16.0) * (height / size + 2.0);
        let cells = most(&mut tab, "cells");
        assert!(
            cells > 0.0 && cells <= in_view,
            "{cells} cells of {size} pixels in a frame; {in_view} are in view"
        );
        // Up to eight parts per cell, lines between rows and columns, and the background.
        let rectangles = most(&mut tab, "rectangles");
        assert!(rectangles <= in_view * 8.0 + width + height, "{rectangles} at {size}");
        let texts = most(&mut tab, "texts");
        assert!(texts <= height / 18.0 + 2.0 * (height / 44.0) + 4.0, "{texts} texts at {size}");
        tab.evaluate("document.querySelector('.view').scrollTop = 0");
        for _ in 0..4 {
            tab.press(".zoom-tools .in");
        }
    }
    assert_eq!(tab.complaints(), [""; 0]);
}

#[test]
fn a_map_is_unpacked_when_it_is_looked_at_and_fits_a_phone() {
    let page = samples::inspected_large();
    let mut tab = Tab::open(&page, NARROW, Scheme::Light);
    let drawn = "document.querySelector('.view canvas').style.width !== ''";
    assert!(!tab.holds(drawn), "nobody has scrolled to it yet");
    let height = "document.documentElement.scrollHeight";
    let before = tab.number(height);
    tab.point_in(".view", 0.5, 0.5);
    tab.settle();
    assert_eq!(tab.number(height), before, "nothing moves when it unfolds");
    assert!(tab.holds(drawn));
    assert!(tab.holds("document.documentElement.scrollWidth <= 390"));
}

#[test]
fn paper_gets_slices_of_whole_rows_and_all_of_them() {
    let mut tab = large();
    tab.evaluate("dispatchEvent(new Event('beforeprint'))");
    let slices = "[...document.querySelectorAll('.slices canvas')].map((c) => parseFloat(c.style.height))";
    let heights: Vec<f64> = serde_json::from_value(tab.evaluate(slices)).unwrap_or_default();
    let (size, caption, groups) = (3.0, 44.0, 21.0);
    let most = 240.0 + caption;
    assert!(
        heights.iter().all(|&height| height <= most),
        "none is higher than a part of a page: {heights:?}"
    );
    let whole = |height: &f64| height % size == 0.0 || (height - caption) % size == 0.0;
    assert!(heights.iter().all(whole), "{heights:?}");
    let rows = (heights.iter().sum::<f64>() - groups * caption) / size;
    let columns = ((tab.number("document.querySelector('.view').clientWidth") - 104.0 - 14.0) / size / 16.0)
        .floor()
        * 16.0;
    let needed = LARGE_MAP_PAGES as f64 / columns;
    assert!((needed..needed + groups).contains(&rows), "{rows} rows, of {needed}");
    tab.evaluate("dispatchEvent(new Event('afterprint'))");
    assert_eq!(tab.number("document.querySelectorAll('.slices canvas').length"), 0.0);
    let pdf = tab.print();
    let pages = pdf.windows(11).filter(|bytes| bytes == b"/Type /Page").count();
    assert!(pages >= 4, "{pages} pages of paper");
}
