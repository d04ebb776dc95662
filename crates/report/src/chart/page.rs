//! A chart as a page, or as a figure on one: hover for values, drag to zoom, click names to hide them.

use super::svg::{self, Size};
use super::{Chart, Series, Shape, thin};
use crate::chart::scale::Unit;
use crate::page::{self, Page, Part};
use maud::{Markup, html};
use serde::Serialize;
use unbloat_untrusted::visible;

/// Style and script of a page with charts.
pub(crate) const PART: Part =
    Part { style: include_str!("../../assets/chart.css"), script: include_str!("../../assets/chart.js") };

/// The drawing's style, for a page whose charts need no script.
pub(crate) const STILL: Part = Part { style: crate::drawing::STYLE, script: "" };

/// Maximum number of points in a series: enough for the finest useful zoom on a wide screen.
const POINTS: usize = 6000;

/// Draws a chart as a page.
#[must_use]
pub fn draw(chart: &Chart) -> String {
    let (title, subtitle) = (chart.title.as_str(), chart.subtitle.as_str());
    let body = html! { section { (figure(chart)) } };
    Page { command: "unbloat plot", title, subtitle, body, parts: &[STILL, PART] }.render()
}

/// Draws a chart for a page with [`STILL`] and [`PART`]. Without scripts it is a static drawing.
#[must_use]
pub(crate) fn figure(chart: &Chart) -> Markup {
    html! {
        figure.interactive aria-label=(visible(&chart.title)) {
            (page::data("data", &Data::of(chart)))
            noscript { (svg::figure(chart, Size { width: 1100.0, height: 520.0 })) }
        }
    }
}

/// Data of the script.
#[derive(Serialize)]
struct Data {
    unit: &'static str,
    panels: Vec<PanelData>,
    marks: Vec<MarkData>,
}

#[derive(Serialize)]
struct PanelData {
    title: String,
    unit: &'static str,
    weight: f64,
    series: Vec<SeriesData>,
}

#[derive(Serialize)]
struct SeriesData {
    name: String,
    shape: &'static str,
    /// Its class in the palette.
    color: &'static str,
    x: Vec<f64>,
    /// `null` is a gap.
    y: Vec<Option<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<Vec<Option<f64>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<Vec<Option<f64>>>,
}

#[derive(Serialize)]
struct MarkData {
    x: f64,
    name: String,
}

impl Data {
    fn of(chart: &Chart) -> Self {
        let panels = chart.panels.iter().map(|panel| PanelData {
            title: visible(&panel.title),
            unit: unit(panel.y),
            weight: panel.weight,
            series: panel.series.iter().map(SeriesData::of).collect(),
        });
        let marks = chart.marks.iter().map(|mark| MarkData { x: mark.x, name: visible(&mark.name) });
        Data { unit: unit(chart.x), panels: panels.collect(), marks: marks.collect() }
    }
}

impl SeriesData {
    fn of(series: &Series) -> Self {
        let finite = |value: f64| value.is_finite().then(|| significant(value));
        let edge = |edges: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| -> Option<Vec<Option<f64>>> {
            Some(edges.iter().map(|pair| finite(of(pair))).collect())
        };
        let (shape, low, high) = match &series.shape {
            Shape::Line => ("line", None, None),
            Shape::Dots => ("dots", None, None),
            Shape::Stacked => ("stacked", None, None),
            Shape::Band(edges) => ("band", edge(edges, |pair| pair.0), edge(edges, |pair| pair.1)),
        };
        // Stacked areas must keep the same points.
        let points = match series.shape {
            Shape::Line => thin(&series.points, POINTS / 4),
            Shape::Dots | Shape::Stacked | Shape::Band(_) => series.points.clone(),
        };
        SeriesData {
            name: visible(&series.name),
            shape,
            color: series.color.class(),
            x: points.iter().map(|point| significant(point.0)).collect(),
            y: points.iter().map(|point| finite(point.1)).collect(),
            low,
            high,
        }
    }
}

/// Rounds to whole numbers from a thousand on, else to a ten-thousandth, to keep the page small.
fn significant(value: f64) -> f64 {
    if value.abs() >= 1000.0 { value.round() } else { (value * 1e4).round() / 1e4 }
}

/// Returns the name of a unit in the script.
fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Bytes => "bytes",
        Unit::Seconds => "seconds",
        Unit::Cores => "cores",
        Unit::Milliseconds => "ms",
        Unit::Number => "number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_needs_nothing_else_and_hostile_names_stay_text() {
        let chart = Chart {
            title: "</title><script>alert(1)</script>".into(),
            subtitle: String::new(),
            x: Unit::Seconds,
            panels: vec![],
            marks: vec![super::super::VerticalMark { x: 1.0, name: "<!--<script>".into() }],
        };
        let page = draw(&chart);
        assert!(!page.contains("<script>alert") && !page.contains("<!--<script>"));
        assert!(page.contains("\\u003c!--\\u003cscript>"));
        for outside in ["http://", "https://", "src=", "@import"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }
}
