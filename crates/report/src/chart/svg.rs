//! A chart as an SVG document of its own: follows the reader's light or dark setting, needs no script and no font.

use super::{Chart, Panel, Series, Shape, thin};
use std::fmt::Write as _;

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

/// Whether the drawing decides by itself between light and dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Theme {
    /// As the viewer is set.
    Adapting,
    /// Light, also where styles are not understood (a picture).
    Light,
}

const LEFT: f64 = 78.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 64.0;
const LEGEND_LINE: f64 = 20.0;
const PANEL_GAP: f64 = 44.0;
const AXIS: f64 = 30.0;
/// Width of a letter of the legend, in pixels: fonts differ, this one is on the wide side.
const LETTER: f64 = 6.9;

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: (f64, f64),
    most: f64,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        let span = (self.x.1 - self.x.0).max(f64::MIN_POSITIVE);
        self.left + (value - self.x.0) / span * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom - value / self.most.max(f64::MIN_POSITIVE) * (self.bottom - self.top)
    }
}

/// Draws a chart.
#[must_use]
pub fn draw(chart: &Chart, size: Size, theme: Theme) -> String {
    let Size { width, height } = size;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', 'DejaVu Sans', sans-serif\" role=\"img\" \
         aria-label=\"{}\">\n",
        escape(&chart.title)
    );
    out += &style(theme);
    let _ = writeln!(out, "<rect class=\"bg\" width=\"{width}\" height=\"{height}\"/>");
    let _ = writeln!(out, "<text class=\"title\" x=\"{LEFT}\" y=\"28\">{}</text>", escape(&chart.title));
    let _ = writeln!(out, "<text class=\"sub\" x=\"{LEFT}\" y=\"47\">{}</text>", escape(&chart.subtitle));
    let Some(x) = chart.x_range() else {
        let _ = writeln!(
            out,
            "<text class=\"sub\" x=\"{LEFT}\" y=\"90\">There are no samples to show.</text>\n</svg>"
        );
        return out;
    };
    let legend = legend(chart, width - LEFT - RIGHT);
    let legend_height = legend.last().map_or(0.0, |entry| entry.row as f64 + 1.0) * LEGEND_LINE;
    let panels_height = height - TOP - legend_height - AXIS - PANEL_GAP * chart.panels.len() as f64 + 14.0;
    let weights: f64 = chart.panels.iter().map(|panel| panel.weight).sum();
    draw_legend(&mut out, &legend);
    let mut top = TOP + legend_height + PANEL_GAP - 14.0;
    for (index, panel) in chart.panels.iter().enumerate() {
        let bottom = top + panels_height * panel.weight / weights.max(f64::MIN_POSITIVE);
        let most = panel.most();
        let most = if most > 0.0 { most * 1.04 } else { 1.0 };
        let frame = Frame { left: LEFT, right: width - RIGHT, top, bottom, x, most };
        let last = index + 1 == chart.panels.len();
        draw_panel(&mut out, chart, panel, &frame, last);
        draw_marks(&mut out, chart, &frame, index == 0);
        top = bottom + PANEL_GAP;
    }
    out += "</svg>\n";
    out
}

fn style(theme: Theme) -> String {
    let colors = |dark: bool| {
        let mut css = String::new();
        for n in 0..super::PALETTE.len() {
            let color = super::Color::Nth(n);
            let _ = write!(css, ".c{n}{{--c:{}}}", if dark { color.on_dark() } else { color.on_light() });
        }
        let neutral = super::Color::Neutral;
        let _ = write!(css, ".cn{{--c:{}}}", if dark { neutral.on_dark() } else { neutral.on_light() });
        css
    };
    // Pictures are drawn by programs that know no variables: everything is spelled out for them.
    let fixed = |css: &mut String| {
        let all = (0..super::PALETTE.len()).map(|n| (format!("c{n}"), super::Color::Nth(n)));
        for (class, color) in all.chain([("cn".to_owned(), super::Color::Neutral)]) {
            let c = color.on_light();
            let _ = write!(
                css,
                ".{class} .line{{stroke:{c}}} .{class} .area,.{class} .dot,.{class} .key{{fill:{c}}} .{class} .band{{fill:{c}}}"
            );
        }
    };
    let common = ".title{font-size:17px;font-weight:600}.sub,.tick,.key-text,.mark-text{font-size:12px}\
        .panel{font-size:12.5px;font-weight:600}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}\
        .area{fill-opacity:.82;stroke:none}.band{fill-opacity:.2;stroke:none}.grid,.axis{stroke-width:1;fill:none}\
        .mark{stroke-width:1;stroke-dasharray:4 3}";
    let mut css = common.to_owned();
    match theme {
        Theme::Light => {
            css += ".bg{fill:#fff}text{fill:#1d2330}.sub,.tick,.mark-text{fill:#5b6472}.grid{stroke:#e6e9ee}\
                    .axis{stroke:#aab1bc}.mark{stroke:#5b6472}";
            fixed(&mut css);
        }
        Theme::Adapting => {
            css += ":root{--bg:#fff;--ink:#1d2330;--soft:#5b6472;--grid:#e6e9ee;--axis:#aab1bc}";
            css += &colors(false);
            css += "@media (prefers-color-scheme:dark){:root{--bg:#14171c;--ink:#e8ebf0;--soft:#9aa3b2;--grid:#262b33;\
                    --axis:#4a5260}";
            css += &colors(true);
            css += "}.bg{fill:var(--bg)}text{fill:var(--ink)}.sub,.tick,.mark-text{fill:var(--soft)}\
                    .grid{stroke:var(--grid)}.axis{stroke:var(--axis)}.mark{stroke:var(--soft)}.line{stroke:var(--c)}\
                    .area,.dot,.key,.band{fill:var(--c)}";
        }
    }
    format!("<style>{css}</style>\n")
}

struct Entry<'a> {
    series: &'a Series,
    x: f64,
    row: usize,
}

/// Where each name of the legend stands. A name that several panels have stands once.
fn legend(chart: &Chart, width: f64) -> Vec<Entry<'_>> {
    let mut entries: Vec<Entry<'_>> = Vec::new();
    let (mut x, mut row) = (0.0, 0);
    for series in chart.panels.iter().flat_map(|panel| &panel.series) {
        if entries.iter().any(|entry| entry.series.name == series.name) {
            continue;
        }
        let needed = series.name.chars().count() as f64 * LETTER + 34.0;
        if x > 0.0 && x + needed > width {
            (x, row) = (0.0, row + 1);
        }
        entries.push(Entry { series, x, row });
        x += needed;
    }
    entries
}

fn draw_legend(out: &mut String, entries: &[Entry<'_>]) {
    for entry in entries {
        let (x, y) = (LEFT + entry.x, TOP + entry.row as f64 * LEGEND_LINE + 8.0);
        let class = class(entry.series);
        let _ = writeln!(
            out,
            "<g class=\"{class}\"><rect class=\"key\" x=\"{x:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\" rx=\"2.5\"/>\
             <text class=\"key-text\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
            y - 9.5,
            x + 17.0,
            y,
            escape(&entry.series.name)
        );
    }
}

fn draw_panel(out: &mut String, chart: &Chart, panel: &Panel, frame: &Frame, last: bool) {
    let _ = writeln!(
        out,
        "<text class=\"panel\" x=\"{}\" y=\"{:.1}\">{}</text>",
        frame.left,
        frame.top - 9.0,
        escape(&panel.title)
    );
    let rows = ((frame.bottom - frame.top) / 55.0).round().max(2.0) as usize;
    let step = panel.y.step(frame.most, rows);
    for tick in panel.y.ticks(0.0, frame.most, rows) {
        let y = frame.y(tick);
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{:.1} {y:.1}H{:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            frame.left,
            frame.right,
            frame.left - 8.0,
            y + 4.0,
            panel.y.write(tick, step)
        );
    }
    for (series, drawn) in panel.series.iter().zip(panel.drawn()) {
        let _ = writeln!(out, "<g class=\"{}\">{}</g>", class(series), shape(series, &drawn, frame));
    }
    let _ = writeln!(
        out,
        "<path class=\"axis\" d=\"M{:.1} {:.1}H{:.1}\"/>",
        frame.left, frame.bottom, frame.right
    );
    if last {
        let columns = ((frame.right - frame.left) / 110.0).round().max(2.0) as usize;
        let step = chart.x.step(frame.x.1 - frame.x.0, columns);
        for tick in chart.x.ticks(frame.x.0, frame.x.1, columns) {
            let x = frame.x(tick);
            let _ = writeln!(
                out,
                "<path class=\"axis\" d=\"M{x:.1} {:.1}v5\"/><text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                frame.bottom,
                frame.bottom + 19.0,
                chart.x.write(tick, step)
            );
        }
    }
}

fn draw_marks(out: &mut String, chart: &Chart, frame: &Frame, named: bool) {
    let mut free_from = f64::NEG_INFINITY;
    for mark in chart.marks.iter().filter(|mark| (frame.x.0..=frame.x.1).contains(&mark.x)) {
        let x = frame.x(mark.x);
        let _ = writeln!(out, "<path class=\"mark\" d=\"M{x:.1} {:.1}V{:.1}\"/>", frame.top, frame.bottom);
        // Names that would lie on each other are left out; the interactive page has them all.
        let length = mark.name.chars().count() as f64 * LETTER;
        if named && x > free_from {
            let (anchor, at) = if x + length > frame.right { ("end", x - 4.0) } else { ("start", x + 4.0) };
            let _ = writeln!(
                out,
                "<text class=\"mark-text\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                frame.top + 12.0,
                escape(&mark.name)
            );
            free_from = x + length + 8.0;
        }
    }
}

fn shape(series: &Series, drawn: &[(f64, f64, f64)], frame: &Frame) -> String {
    let columns = (frame.right - frame.left) as usize;
    match &series.shape {
        Shape::Line => {
            format!("<path class=\"line\" d=\"{}\"/>", line(&thin(&series.points, columns), frame))
        }
        Shape::Dots => series
            .points
            .iter()
            .filter(|(_, y)| y.is_finite())
            .map(|&(x, y)| {
                format!("<circle class=\"dot\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", frame.x(x), frame.y(y))
            })
            .collect(),
        Shape::Band(_) => {
            let middle = line(&thin(&series.points, columns), frame);
            format!(
                "<path class=\"band\" d=\"{}\"/><path class=\"line\" d=\"{middle}\"/>",
                area(drawn, frame)
            )
        }
        Shape::Stacked => format!("<path class=\"area\" d=\"{}\"/>", area(drawn, frame)),
    }
}

fn line(points: &[(f64, f64)], frame: &Frame) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for &(x, y) in points {
        if y.is_finite() {
            let _ = write!(path, "{}{:.1} {:.1}", if pen_down { 'L' } else { 'M' }, frame.x(x), frame.y(y));
        }
        pen_down = y.is_finite();
    }
    path
}

fn area(edges: &[(f64, f64, f64)], frame: &Frame) -> String {
    let upper: Vec<_> = edges.iter().map(|&(x, _, high)| (x, high)).collect();
    let lower: Vec<_> = edges.iter().rev().map(|&(x, low, _)| (x, low)).collect();
    let path = line(&upper, frame) + &line(&lower, frame).replacen('M', "L", 1);
    if path.is_empty() { path } else { path + "Z" }
}

fn class(series: &Series) -> String {
    match series.color {
        super::Color::Nth(n) => format!("c{}", n % super::PALETTE.len()),
        super::Color::Neutral => "cn".to_owned(),
    }
}

/// Text in XML. Control characters are not allowed there at all.
pub(crate) fn escape(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
