//! What memory is made of, a bar per variant.

use super::super::Experiment;
use crate::markup::escape;
use crate::segment::Segment;
use std::fmt::Write as _;
use unbloat_heap::Iec;
use unbloat_lab::trace::Trace;

/// Bars, the median of each variant's runs segment by segment, as they are at the end of the load. `None` when no run has a
/// census.
pub(super) fn made_of(experiment: &Experiment, traces: &[Trace]) -> Option<String> {
    let bars: Vec<Bar> = (0..experiment.variants.len()).map(|index| bar(index, traces)).collect();
    let longest = bars.iter().map(total).fold(0.0, f64::max);
    if longest == 0.0 {
        return None;
    }
    let mut body = String::from("<div class=\"bars\">");
    for (variant, bar) in experiment.variants.iter().zip(&bars) {
        // A variant none of whose runs counts.
        if total(bar) == 0.0 {
            continue;
        }
        let _ = write!(body, "<span>{}</span><div class=\"bar\">", escape(&variant.name));
        for (segment, bytes) in Segment::ALL.into_iter().zip(bar) {
            let (share, size) = (bytes / longest * 100.0, Iec(*bytes as u64));
            let (key, label) = (segment.key(), segment.label());
            let _ =
                write!(body, "<i class=\"{key}\" style=\"width:{share:.2}%\" title=\"{label}: {size}\"></i>");
        }
        let _ = write!(body, "</div><b>{}</b>", Iec(total(bar) as u64));
    }
    body.push_str("</div><ul class=\"legend\">");
    for segment in Segment::ALL {
        let _ = write!(body, "<li><i class=\"{}\"></i>{}</li>", segment.key(), segment.label());
    }
    body.push_str("</ul>");
    Some(body)
}

/// Bytes of each of [`Segment::ALL`].
type Bar = Vec<f64>;

fn total(bar: &Bar) -> f64 {
    bar.iter().sum()
}

fn bar(variant: usize, traces: &[Trace]) -> Bar {
    let own: Vec<&Trace> =
        traces.iter().filter(|t| t.slot.variant == variant && !t.made_of.is_empty()).collect();
    let of_run = |trace: &Trace, segment| -> f64 {
        let parts = trace.made_of.iter().filter(|(name, _)| Segment::named(name) == segment);
        parts.map(|(_, bytes)| bytes).sum()
    };
    let median = |segment| {
        let values: Vec<f64> = own.iter().map(|trace| of_run(trace, segment)).collect();
        unbloat_stats::median::median(&values).unwrap_or(0.0)
    };
    Segment::ALL.into_iter().map(median).collect()
}
