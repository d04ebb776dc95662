//! A chart as a separate SVG file, or as a figure that needs no script.

use super::{Chart, Panel, Series, Shape, thin};
use crate::drawing::{Drawing, LETTER, Point, Scale, width_of};
use maud::Markup;

pub use crate::drawing::Theme;

/// Size of the drawing in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Size {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Default for Size {
    fn default() -> Self {
        Size { width: 1100.0, height: 620.0 }
    }
}

const LEFT: f64 = 78.0;
const RIGHT: f64 = 22.0;
/// Space above the legend: title and subtitle.
const TITLES: f64 = 64.0;
const LEGEND_LINE: f64 = 20.0;
/// Space above each panel: its title.
const PANEL_GAP: f64 = 44.0;
/// Space below the last panel: its ticks.
const AXIS: f64 = 30.0;

/// Draws a chart as a file.
#[must_use]
pub fn draw(chart: &Chart, size: Size, theme: Theme) -> String {
    let mut drawing = Drawing::new(size.width, size.height, &chart.title);
    drawing.text((LEFT, 28.0), "title", &chart.title);
    drawing.text((LEFT, 47.0), "sub", &chart.subtitle);
    panels(&mut drawing, chart, size, TITLES);
    drawing.document(theme)
}

/// Draws a chart without its titles, for a page that has them.
#[must_use]
pub(crate) fn figure(chart: &Chart, size: Size) -> Markup {
    let mut drawing = Drawing::new(size.width, size.height, &chart.title);
    panels(&mut drawing, chart, size, 8.0);
    drawing.figure()
}

/// Draws everything below the titles.
fn panels(drawing: &mut Drawing, chart: &Chart, Size { width, height }: Size, top: f64) {
    let Some(x) = chart.x_range() else {
        drawing.text((LEFT, top + 26.0), "sub", "There are no samples to show.");
        return;
    };
    let x = Scale { from: x, to: (LEFT, width - RIGHT) };
    let entries = legend(chart, width - LEFT - RIGHT);
    let legend_height = entries.last().map_or(0.0, |entry| entry.row as f64 + 1.0) * LEGEND_LINE;
    draw_legend(drawing, &entries, top);
    let panels_height = height - top - legend_height - AXIS - PANEL_GAP * chart.panels.len() as f64 + 14.0;
    let weights: f64 = chart.panels.iter().map(|panel| panel.weight).sum();
    let mut panel_top = top + legend_height + PANEL_GAP - 14.0;
    for (index, panel) in chart.panels.iter().enumerate() {
        let bottom = panel_top + panels_height * panel.weight / weights.max(f64::MIN_POSITIVE);
        let frame = Frame { x, y: Scale { from: (0.0, panel.top()), to: (bottom, panel_top) } };
        draw_panel(drawing, panel, &frame);
        draw_marks(drawing, chart, &frame, index == 0);
        if index + 1 == chart.panels.len() {
            draw_time_axis(drawing, chart, &frame);
        }
        panel_top = bottom + PANEL_GAP;
    }
}

/// The coordinates of one panel.
struct Frame {
    x: Scale,
    y: Scale,
}

impl Frame {
    fn left(&self) -> f64 {
        self.x.to.0
    }

    fn right(&self) -> f64 {
        self.x.to.1
    }

    fn bottom(&self) -> f64 {
        self.y.to.0
    }

    fn top(&self) -> f64 {
        self.y.to.1
    }

    fn at(&self, (x, y): (f64, f64)) -> Point {
        (self.x.at(x), self.y.at(y))
    }
}

/// A name in the legend and its place.
struct Entry<'a> {
    series: &'a Series,
    x: f64,
    row: usize,
}

/// Places each name in the legend. A name shared by several panels appears once.
fn legend(chart: &Chart, width: f64) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut x, mut row) = (0.0, 0);
    for series in chart.panels.iter().flat_map(|panel| &panel.series) {
        if entries.iter().any(|entry| entry.series.name == series.name) {
            continue;
        }
        let needed = width_of(&series.name) + 34.0;
        if x > 0.0 && x + needed > width {
            (x, row) = (0.0, row + 1);
        }
        entries.push(Entry { series, x, row });
        x += needed;
    }
    entries
}

fn draw_legend(drawing: &mut Drawing, entries: &[Entry<'_>], top: f64) {
    for entry in entries {
        let (x, y) = (LEFT + entry.x, top + entry.row as f64 * LEGEND_LINE + 8.0);
        drawing.rectangle((x, y - 9.5), (11.0, 11.0), &format!("key {}", entry.series.color.class()));
        drawing.text((x + 17.0, y), "", &entry.series.name);
    }
}

fn draw_panel(drawing: &mut Drawing, panel: &Panel, frame: &Frame) {
    drawing.text((frame.left(), frame.top() - 9.0), "panel", &panel.title);
    let rows = ((frame.bottom() - frame.top()) / 55.0).round().max(2.0) as usize;
    for (tick, words) in frame.y.ticks(panel.y, rows) {
        let y = frame.y.at(tick);
        drawing.line((frame.left(), y), (frame.right(), y), "grid");
        drawing.text((frame.left() - 8.0, y + 4.0), "tick end", &words);
    }
    for (series, edges) in panel.series.iter().zip(panel.drawn()) {
        draw_series(drawing, series, &edges, frame);
    }
    drawing.line((frame.left(), frame.bottom()), (frame.right(), frame.bottom()), "axis");
}

fn draw_time_axis(drawing: &mut Drawing, chart: &Chart, frame: &Frame) {
    let columns = ((frame.right() - frame.left()) / 110.0).round().max(2.0) as usize;
    for (tick, words) in frame.x.ticks(chart.x, columns) {
        let x = frame.x.at(tick);
        drawing.line((x, frame.bottom()), (x, frame.bottom() + 5.0), "axis");
        drawing.text((x, frame.bottom() + 19.0), "tick middle", &words);
    }
}

/// Draws a line through the panel at each mark, and its name unless that would overlap another; the
/// interactive figure shows them all.
fn draw_marks(drawing: &mut Drawing, chart: &Chart, frame: &Frame, named: bool) {
    let (from, to) = frame.x.from;
    let mut free_from = f64::NEG_INFINITY;
    for mark in chart.marks.iter().filter(|mark| (from..=to).contains(&mark.x)) {
        let x = frame.x.at(mark.x);
        drawing.line((x, frame.top()), (x, frame.bottom()), "mark");
        if !named || x <= free_from {
            continue;
        }
        let length = width_of(&mark.name);
        let (class, at) = if x + length > frame.right() { ("tick end", x - 4.0) } else { ("tick", x + 4.0) };
        drawing.text((at, frame.top() + 12.0), class, &mark.name);
        free_from = x + length + LETTER;
    }
}

fn draw_series(drawing: &mut Drawing, series: &Series, edges: &[(f64, f64, f64)], frame: &Frame) {
    let columns = (frame.right() - frame.left()) as usize;
    let class = |shape: &str| format!("{shape} {}", series.color.class());
    let line = |drawing: &mut Drawing| {
        let points: Vec<Point> = thin(&series.points, columns).into_iter().map(|p| frame.at(p)).collect();
        drawing.path(&points, &class("line"));
    };
    let area = |drawing: &mut Drawing, shape| {
        let upper: Vec<Point> = edges.iter().map(|&(x, _, high)| frame.at((x, high))).collect();
        let lower: Vec<Point> = edges.iter().map(|&(x, low, _)| frame.at((x, low))).collect();
        drawing.area(&upper, &lower, &class(shape));
    };
    match &series.shape {
        Shape::Line => line(drawing),
        Shape::Band(_) => {
            area(drawing, "band");
            line(drawing);
        }
        Shape::Stacked => area(drawing, "area"),
        Shape::Dots => {
            for &point in series.points.iter().filter(|(_, y)| y.is_finite()) {
                drawing.dot(frame.at(point), 3.0, &class("dot"), "");
            }
        }
    }
}
