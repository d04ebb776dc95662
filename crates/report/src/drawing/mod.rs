//! The SVG kit behind every chart, on pages and in files.
//!
//! A drawing needs no script and no font. Colors are classes of the [`crate::palette`], shapes classes of
//! `assets/drawing.css`.

mod axis;

pub(crate) use axis::{Scale, Tick, axes, axis_name, range};

use crate::palette;
use maud::{Markup, PreEscaped, html};
use unbloat_untrusted::visible;

/// Shared by drawings on pages and in files.
pub(crate) const STYLE: &str = include_str!("../../assets/drawing.css");

/// Pixels from the left and from the top.
pub(crate) type Point = (f64, f64);

/// Width of a letter at the usual size in pixels. Fonts differ, so this is a generous estimate.
pub(crate) const LETTER: f64 = 6.9;

/// Returns an upper bound on the width of a text in pixels.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// Returns as much of a text as fits into a width, with its end replaced by `…` if there is more.
pub(crate) fn fitting(text: &str, width: f64) -> String {
    crate::style::clip(text, (width / LETTER) as usize)
}

/// A drawing to which elements are added, each on top of the previous ones.
#[derive(Debug)]
pub(crate) struct Drawing {
    width: f64,
    height: f64,
    label: String,
    elements: String,
}

/// The colors of a drawing in a separate file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// Light or dark, as the viewer prefers.
    Adapting,
    /// Always light, for programs without custom properties.
    Light,
}

impl Drawing {
    /// Creates an empty drawing. `label` describes it for readers who cannot see it.
    pub(crate) fn new(width: f64, height: f64, label: &str) -> Self {
        Drawing { width, height, label: visible(label), elements: String::new() }
    }

    fn add(&mut self, element: Markup) {
        self.elements.push_str(&element.into_string());
    }

    /// Adds a text whose base line starts at a point, or ends or is centered there with the class `end` or
    /// `middle`.
    pub(crate) fn text(&mut self, (x, y): Point, class: &str, text: &str) {
        let text = visible(text);
        self.add(html! { text x=(pixels(x)) y=(pixels(y)) class=(class) { (text) } });
    }

    /// Adds a straight line.
    pub(crate) fn line(&mut self, from: Point, to: Point, class: &str) {
        self.path(&[from, to], class);
    }

    /// Adds straight lines from point to point. A point that is not finite is a gap.
    pub(crate) fn path(&mut self, points: &[Point], class: &str) {
        let d = path(points);
        self.add(html! { path d=(d) class=(class) {} });
    }

    /// Adds the area between an upper and a lower edge.
    pub(crate) fn area(&mut self, upper: &[Point], lower: &[Point], class: &str) {
        let outline: Vec<Point> = upper.iter().chain(lower.iter().rev()).copied().collect();
        let outline: Vec<Point> = outline.into_iter().filter(|(_, y)| y.is_finite()).collect();
        if !outline.is_empty() {
            let d = path(&outline) + "Z";
            self.add(html! { path d=(d) class=(class) {} });
        }
    }

    /// Adds a rectangle by its upper left corner, width and height.
    pub(crate) fn rectangle(&mut self, (x, y): Point, (width, height): (f64, f64), class: &str) {
        let [x, y, width, height] = [x, y, width, height].map(pixels);
        self.add(html! { rect x=(x) y=(y) width=(width) height=(height) class=(class) {} });
    }

    /// Adds a dot with a tooltip.
    pub(crate) fn dot(&mut self, (x, y): Point, radius: f64, class: &str, title: &str) {
        let title = visible(title);
        self.add(html! {
            circle cx=(pixels(x)) cy=(pixels(y)) r=(radius) class=(class) {
                @if !title.is_empty() { title { (title) } }
            }
        });
    }

    /// Returns the drawing as part of a page. On a narrow page it keeps a legible size and scrolls.
    pub(crate) fn figure(self) -> Markup {
        let view = format!("0 0 {} {}", self.width, self.height);
        html! {
            div.chart {
                svg viewBox=(view) role="img" aria-label=(self.label) { (PreEscaped(self.elements)) }
            }
        }
    }

    /// Returns the drawing as a separate file.
    pub(crate) fn document(self, theme: Theme) -> String {
        let Drawing { width, height, label, elements } = self;
        let style = match theme {
            Theme::Adapting => palette::style() + STYLE,
            Theme::Light => palette::spelled_out(STYLE),
        };
        let document = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}")) width=(width) height=(height)
                role="img" aria-label=(label) {
                style { (PreEscaped(style)) }
                rect width=(width) height=(height) class="card" {}
                (PreEscaped(elements))
            }
        };
        document.into_string() + "\n"
    }
}

/// Rounds a coordinate to a tenth of a pixel.
fn pixels(value: f64) -> String {
    format!("{value:.1}")
}

fn path(points: &[Point]) -> String {
    use std::fmt::Write as _;
    let mut d = String::new();
    let mut pen_down = false;
    for &(x, y) in points {
        if y.is_finite() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if pen_down { 'L' } else { 'M' });
        }
        pen_down = y.is_finite();
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing() -> Drawing {
        let mut drawing = Drawing::new(100.0, 50.0, "<label>");
        drawing.text((1.0, 2.0), "tick", "</svg>\u{1b}");
        drawing.dot((3.0, 4.0), 2.5, "dot", "a & b");
        drawing.path(&[(0.0, 0.0), (1.0, f64::NAN), (2.0, 2.0), (3.0, 3.0)], "line");
        drawing.area(&[(0.0, 1.0), (9.0, 1.0)], &[(0.0, 5.0), (9.0, 5.0)], "area");
        drawing
    }

    #[test]
    fn text_stays_text_and_gaps_stay_gaps() {
        let svg = drawing().figure().into_string();
        assert!(svg.contains("&lt;/svg&gt;\u{fffd}</text>") && svg.contains("a &amp; b"), "{svg}");
        assert!(
            svg.contains("M0.0 0.0M2.0 2.0L3.0 3.0") && svg.contains("M0.0 1.0L9.0 1.0L9.0 5.0L0.0 5.0Z"),
            "{svg}"
        );
    }

    #[test]
    fn a_file_is_xml_and_spells_its_colors_out_when_it_is_asked_to() {
        for theme in [Theme::Adapting, Theme::Light] {
            let file = drawing().document(theme);
            assert_eq!(file.matches("<svg").count(), 1);
            assert_eq!(file.contains("var("), theme == Theme::Adapting, "{file}");
        }
    }
}
