//! Rules that hold on every page.

use super::samples;
use super::tab::{NARROW, Scheme, Tab, WIDE};

/// The color of a page's background.
const BACKGROUND: &str = "getComputedStyle(document.body).backgroundColor";
const LIGHT: &str = "rgb(251, 251, 249)";
const DARK: &str = "rgb(20, 22, 27)";

#[test]
fn no_page_complains_or_asks_the_network_for_anything() {
    for (name, page) in samples::all() {
        for (scheme, suffix) in [(Scheme::Light, "light"), (Scheme::Dark, "dark")] {
            let mut tab = Tab::open(&page, WIDE, scheme);
            tab.picture(&format!("{name}-{suffix}"));
            assert_eq!(tab.complaints(), [""; 0], "{name}");
            assert_eq!(tab.requests(), [""; 0], "{name}");
        }
    }
}

#[test]
fn a_page_cannot_ask_the_network_for_anything() {
    let mut tab = Tab::open(&samples::inspected_one(), WIDE, Scheme::Light);
    let attempt = "new Promise(done => {
        addEventListener('securitypolicyviolation', (event) => done(event.violatedDirective), { once: true });
        document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x' }));
    })";
    assert_eq!(tab.text(attempt), "img-src");
    assert_eq!(tab.blocked(), ["csp"], "the browser has not sent it");
}

#[test]
fn pages_are_as_light_or_dark_as_the_system_until_the_reader_chooses() {
    for (name, page) in samples::all() {
        let mut tab = Tab::open(&page, WIDE, Scheme::Dark);
        assert_eq!(tab.text(BACKGROUND), DARK, "{name}");
        tab.prefer(Scheme::Light);
        assert_eq!(tab.text(BACKGROUND), LIGHT, "{name}: the system has changed");
        tab.press("#theme");
        assert_eq!(tab.text(BACKGROUND), DARK, "{name}: the button was pressed");
        tab.press("#theme");
        assert_eq!(tab.text(BACKGROUND), LIGHT, "{name}: and again");
    }
}

#[test]
fn what_a_title_says_is_text() {
    for (name, page) in samples::all() {
        let mut tab = Tab::open(&page, WIDE, Scheme::Light);
        assert!(tab.holds("!document.querySelector('img')"), "{name}");
        assert!(tab.holds("document.querySelector('h1').children.length === 0"), "{name}");
        assert!(tab.holds("!document.body.innerText.includes('\\u001b')"), "{name}");
    }
}

#[test]
fn the_switch_never_lies_over_the_heading() {
    for (name, page) in samples::all() {
        let mut tab = Tab::open(&page, WIDE, Scheme::Light);
        for window in [WIDE, NARROW] {
            tab.resize(window);
            tab.settle();
            let apart = "(() => {
                const [a, b] = ['h1', '#theme'].map((name) => document.querySelector(name).getBoundingClientRect());
                return a.right <= b.left || a.bottom <= b.top || b.bottom <= a.top;
            })()";
            assert!(tab.holds(apart), "{name} {window:?}");
        }
    }
}

#[test]
fn nothing_scrolls_sideways_on_a_phone() {
    for (name, page) in samples::all() {
        let mut tab = Tab::open(&page, NARROW, Scheme::Light);
        tab.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
        tab.settle();
        tab.picture(&format!("{name}-390"));
        let width = tab.number("document.documentElement.scrollWidth");
        let widest = "[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > 390.5
            && !e.closest('.wide, .chart, .columns > div, .plan')).map((e) => e.outerHTML.slice(0, 120)).join('\\n')";
        assert!(width <= 390.0, "{name} is {width} wide:\n{}", tab.text(widest));
        // Elements that may scroll by themselves are no wider than the page.
        let inside = "[...document.querySelectorAll('.wide, .chart, .columns > div, .plan, .view')]
            .every((e) => e.getBoundingClientRect().right <= 390.5)";
        assert!(tab.holds(inside), "{name}");
    }
}

/// Nothing that fits on a page is split: Chromium honors `break-inside` for anything no higher than a page.
#[test]
fn print_keeps_whole_rows() {
    for (name, page) in samples::all() {
        let mut tab = Tab::open(&page, WIDE, Scheme::Dark);
        let pdf = tab.print();
        assert!(pdf.starts_with(b"%PDF-"), "{name}");
        tab.print_layout();
        assert_eq!(tab.text(BACKGROUND), "rgba(0, 0, 0, 0)", "{name}: paper is white");
        assert_eq!(
            tab.text("getComputedStyle(document.body).color"),
            "rgb(29, 33, 41)",
            "{name}: and ink dark"
        );
        // A4 minus its margins, in CSS pixels: 182 × 269 mm.
        let cut =
            "[...document.querySelectorAll('tr, svg, .bar, .slices canvas, .verdict li')].filter((e) => {
            const style = getComputedStyle(e), { height } = e.getBoundingClientRect();
            return height && (style.breakInside !== 'avoid' || height > 1016);
        }).map((e) => e.outerHTML.slice(0, 120)).join('\\n')";
        assert_eq!(tab.text(cut), "", "{name}");
        let cropped = "[...document.querySelectorAll('main *')].filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1
            && getComputedStyle(e).overflowX !== 'visible').map((e) => e.outerHTML.slice(0, 120)).join('\\n')";
        assert_eq!(tab.text(cropped), "", "{name}: paper does not scroll");
        assert_eq!(tab.complaints(), [""; 0], "{name}");
    }
}
