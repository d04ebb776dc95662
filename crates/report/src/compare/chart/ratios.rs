//! Each variant's ratio to the control, block by block and altogether.

use super::super::Experiment;
use super::{LEFT, RIGHT, Scale, WIDTH, dot, line, open, range, text};
use std::fmt::Write as _;
use unbloat_lab::analysis::{Comparison, VariantAnalysis};
use unbloat_lab::metric::Metric;

/// The ratios of one variant's runs to the control of their block.
fn block_ratios(control: &Comparison, other: &Comparison) -> Vec<f64> {
    let of_block = |block: usize| {
        let logs: Vec<f64> = control.values.iter().filter(|v| v.0 == block).map(|v| v.1.ln()).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    other.values.iter().filter_map(|&(block, value)| Some(value / of_block(block)?)).collect()
}

/// Ratios to the control: a dot a block, the estimate and its interval, the margin as a band around 1.
pub(in crate::compare) fn ratios(experiment: &Experiment, metric: Metric) -> Option<String> {
    struct Row {
        index: usize,
        name: String,
        dots: Vec<f64>,
        ratio: f64,
        interval: Option<(f64, f64)>,
    }
    let variants = &experiment.analysis.variants;
    let control = variants.first()?.metrics.get(&metric)?;
    let row = |(index, variant): (usize, &VariantAnalysis)| {
        let comparison = variant.metrics.get(&metric)?;
        let contrast = comparison.contrast?;
        let dots = block_ratios(control, comparison);
        Some(Row {
            index,
            name: variant.name.clone(),
            dots,
            ratio: contrast.ratio,
            interval: contrast.interval,
        })
    };
    let mut rows: Vec<Row> = variants.iter().enumerate().skip(1).filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    if let Some(aa) = experiment.analysis.aa.get(&metric) {
        let name = "control to itself".to_owned();
        rows.push(Row {
            index: 0,
            name,
            dots: vec![],
            ratio: aa.contrast.ratio,
            interval: aa.contrast.interval,
        });
    }
    let margin = 1.0 + experiment.plan.rule.margin;
    let shown = rows.iter().flat_map(|row| {
        let ends = row.interval.map_or(vec![], |(low, high)| vec![low, high]);
        // An interval may be far wider than what was measured; the dots decide the scale, up to a factor.
        let widest = row.dots.iter().copied().fold(1.0, f64::max) * 1.5;
        row.dots.iter().copied().chain(ends.into_iter().map(move |e| e.clamp(0.2, widest))).chain([row.ratio])
    });
    let x = Scale { from: range(shown.chain([1.0 / margin, margin])), to: (LEFT, WIDTH - RIGHT) };
    let height = 34.0 + 30.0 * rows.len() as f64;
    let bottom = height - 24.0;
    let mut out = String::new();
    open(&mut out, height, &format!("{} of each variant as a ratio to the control", metric.name()));
    let _ = write!(
        out,
        "<rect x=\"{:.1}\" y=\"4\" width=\"{:.1}\" height=\"{:.1}\" class=\"margin\"/>",
        x.at(1.0 / margin),
        x.at(margin) - x.at(1.0 / margin),
        bottom - 4.0
    );
    for tick in x.ticks(8) {
        line(
            &mut out,
            (x.at(tick), 4.0),
            (x.at(tick), bottom),
            if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" },
        );
        text(&mut out, x.at(tick), bottom + 16.0, "tick middle", &format!("{tick:.2}×"));
    }
    for (i, row) in rows.iter().enumerate() {
        let y = 20.0 + 30.0 * i as f64;
        let class = format!("v{}", row.index % 10);
        text(&mut out, LEFT - 12.0, y + 4.0, "end", &row.name);
        for ratio in &row.dots {
            dot(
                &mut out,
                (x.at(*ratio), y + 7.0),
                2.6,
                &format!("run {class}"),
                &format!("{}: {ratio:.3}×", row.name),
            );
        }
        if let Some((low, high)) = row.interval {
            let (low, high) = (x.at(low).max(LEFT), x.at(high).min(WIDTH - RIGHT));
            line(&mut out, (low, y), (high, y), &format!("interval {class}"));
        }
        let interval = row.interval.map_or(String::new(), |(low, high)| format!(", {low:.3}–{high:.3}"));
        dot(
            &mut out,
            (x.at(row.ratio), y),
            4.5,
            &class,
            &format!("{}: {:.3}×{interval}", row.name, row.ratio),
        );
    }
    out.push_str("</svg></div>");
    Some(out)
}
