//! Charts: a description of panels over a common horizontal axis, drawn as SVG ([`svg`]), as a picture (`png`, a
//! feature) or as an interactive page ([`page`]).
//!
//! A [`Chart`] has [`Panel`]s one above the other. A panel has [`Series`], each drawn as a line, a band (line with an
//! interval), dots or a stacked area.

pub mod page;
#[cfg(feature = "png")]
pub mod png;
pub mod scale;
pub mod svg;

use scale::Unit;

pub use crate::palette::Color;

/// A whole figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title above everything.
    pub title: String,
    /// Small print below the title.
    pub subtitle: String,
    /// Quantity on the horizontal axis.
    pub x: Unit,
    /// The panels from top to bottom.
    pub panels: Vec<Panel>,
    /// Vertical lines through all panels.
    pub marks: Vec<VerticalMark>,
}

/// One coordinate system.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Quantity on the vertical axis, which starts at zero.
    pub y: Unit,
    /// Height relative to the other panels.
    pub weight: f64,
    /// The series, from bottom to top.
    pub series: Vec<Series>,
}

/// Named values.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// Shape of the series.
    pub shape: Shape,
    /// The color.
    pub color: Color,
    /// x and y, ascending in x. A NaN in y is a gap.
    pub points: Vec<(f64, f64)>,
}

/// Shape of a series.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A line through the points.
    Line,
    /// A line, and around it an area from the lower to the upper value at each point.
    Band(Vec<(f64, f64)>),
    /// A dot at each point.
    Dots,
    /// An area on top of the preceding stacked areas in the panel. Such series share their x values.
    Stacked,
}

/// A named moment.
#[derive(Debug, Clone, PartialEq)]
pub struct VerticalMark {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Name.
    pub name: String,
}

impl Chart {
    /// Returns the range of x over all series and marks, since a mark may lie before the first sample to name
    /// the start. `None` for an empty chart.
    #[must_use]
    pub fn x_range(&self) -> Option<(f64, f64)> {
        let xs = self.panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.points).map(|&(x, _)| x);
        let marks = self.marks.iter().map(|mark| mark.x);
        let range = xs.fold(None, |range, x| {
            range.map_or(Some((x, x)), |(low, high): (f64, f64)| Some((low.min(x), high.max(x))))
        });
        range.map(|range| marks.fold(range, |(low, high), x| (low.min(x), high.max(x))))
    }
}

impl Panel {
    /// Returns the series as drawn: (lower edge, upper edge) at each point, with stacked areas on top of each
    /// other.
    #[must_use]
    pub fn drawn(&self) -> Vec<Vec<(f64, f64, f64)>> {
        let mut base: Vec<f64> = Vec::new();
        let mut drawn = Vec::with_capacity(self.series.len());
        for series in &self.series {
            drawn.push(match &series.shape {
                Shape::Stacked => {
                    base.resize(series.points.len(), 0.0);
                    let stack = |(&(x, y), base): (&(f64, f64), &mut f64)| {
                        let low = *base;
                        *base += if y.is_nan() { 0.0 } else { y };
                        (x, low, *base)
                    };
                    series.points.iter().zip(&mut base).map(stack).collect()
                }
                Shape::Band(edges) => {
                    series.points.iter().zip(edges).map(|(&(x, _), &(low, high))| (x, low, high)).collect()
                }
                Shape::Line | Shape::Dots => series.points.iter().map(|&(x, y)| (x, y, y)).collect(),
            });
        }
        drawn
    }

    /// Returns the upper end of the vertical axis: a little above the largest value.
    pub(crate) fn top(&self) -> f64 {
        let most = self.most();
        if most > 0.0 { most * 1.04 } else { 1.0 }
    }

    /// Returns the largest value drawn.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.drawn().iter().flatten().map(|&(_, _, high)| high).filter(|y| y.is_finite()).fold(0.0, f64::max)
    }
}

/// Reduces the number of points without changing the appearance: each of `columns` equal parts of x keeps its
/// minimum, its maximum, and any gap.
#[must_use]
pub fn thin(points: &[(f64, f64)], columns: usize) -> Vec<(f64, f64)> {
    let (Some(&(from, _)), Some(&(to, _))) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= columns * 2 || to <= from {
        return points.to_vec();
    }
    let column = |x: f64| ((x - from) / (to - from) * columns as f64) as usize;
    let mut kept: Vec<(f64, f64)> = Vec::with_capacity(columns * 4);
    for part in points.chunk_by(|a, b| column(a.0) == column(b.0)) {
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut chosen: Vec<&(f64, f64)> = part.iter().filter(|p| p.1.is_nan()).take(1).collect();
        chosen.extend(part.iter().filter(|p| !p.1.is_nan()).min_by(by_y));
        chosen.extend(part.iter().filter(|p| !p.1.is_nan()).max_by(by_y));
        chosen.extend(part.first());
        chosen.extend(part.last());
        chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
        chosen.dedup();
        kept.extend(chosen);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_peaks_ends_and_gaps() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[31_415].1 = 1e9;
        points[50_000].1 = f64::NAN;
        let kept = thin(&points, 500);
        assert!(kept.len() <= 2600, "{}", kept.len());
        assert!(kept.contains(&(31_415.0, 1e9)));
        assert!(kept.iter().any(|p| p.1.is_nan()));
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0.0, 99_999.0));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn areas_stand_on_each_other() {
        let series = |y| Series {
            name: "a".into(),
            shape: Shape::Stacked,
            color: Color::Nth(0),
            points: vec![(0.0, y), (1.0, y)],
        };
        let panel =
            Panel { title: "t".into(), y: Unit::Bytes, weight: 1.0, series: vec![series(2.0), series(3.0)] };
        assert_eq!(panel.drawn()[1], [(0.0, 2.0, 5.0), (1.0, 2.0, 5.0)]);
        assert_eq!(panel.most(), 5.0);
    }
}
