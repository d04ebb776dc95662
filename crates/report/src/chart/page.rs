//! A chart as one HTML file that needs nothing else: hover for values, drag to zoom, click names to hide them.

use super::svg::escape;
use super::{Chart, Series, Shape, thin};
use crate::chart::scale::Unit;
use serde_json::{Value, json};

/// Points a series has at most: enough for the finest zoom that still shows something new on a wide screen.
const POINTS: usize = 6000;

/// Draws a chart.
#[must_use]
pub fn draw(chart: &Chart) -> String {
    // `</script>` within the data would end it.
    let data = data(chart).to_string().replace("</", "<\\/");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n\
         <style>\n{}</style>\n</head>\n<body>\n<div id=\"chart\"></div>\n\
         <script type=\"application/json\" id=\"data\">{data}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
        escape(&chart.title),
        include_str!("page.css"),
        include_str!("page.js"),
    )
}

fn data(chart: &Chart) -> Value {
    let panels: Vec<Value> = chart
        .panels
        .iter()
        .map(|panel| {
            let series: Vec<Value> = panel.series.iter().map(series).collect();
            json!({"title": panel.title, "unit": unit(panel.y), "weight": panel.weight, "series": series})
        })
        .collect();
    let marks: Vec<Value> = chart.marks.iter().map(|mark| json!({"x": mark.x, "name": mark.name})).collect();
    json!({
        "title": chart.title,
        "subtitle": chart.subtitle,
        "unit": unit(chart.x),
        "panels": panels,
        "marks": marks,
    })
}

fn series(series: &Series) -> Value {
    let (shape, edges) = match &series.shape {
        Shape::Line => ("line", None),
        Shape::Dots => ("dots", None),
        Shape::Stacked => ("stacked", None),
        Shape::Band(edges) => ("band", Some(edges)),
    };
    // Areas that are stacked must keep the same points.
    let points = if shape == "line" { thin(&series.points, POINTS / 4) } else { series.points.clone() };
    let finite = |y: f64| if y.is_finite() { json!(significant(y)) } else { Value::Null };
    json!({
        "name": series.name,
        "shape": shape,
        "light": series.color.on_light(),
        "dark": series.color.on_dark(),
        "x": points.iter().map(|p| json!(significant(p.0))).collect::<Vec<_>>(),
        "y": points.iter().map(|p| finite(p.1)).collect::<Vec<_>>(),
        "low": edges.map(|edges| edges.iter().map(|e| finite(e.0)).collect::<Vec<_>>()),
        "high": edges.map(|edges| edges.iter().map(|e| finite(e.1)).collect::<Vec<_>>()),
    })
}

/// Whole numbers from a thousand on, else to a ten-thousandth: the page stays small.
fn significant(value: f64) -> f64 {
    if value.abs() >= 1000.0 { value.round() } else { (value * 1e4).round() / 1e4 }
}

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
            marks: vec![super::super::VerticalMark { x: 1.0, name: "</script><b>".into() }],
        };
        let page = draw(&chart);
        assert!(!page.contains("alert(1)</script>") && !page.contains("</script><b>"));
        for outside in ["http://", "https://", "src=", "@import"] {
            assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
        }
    }
}
