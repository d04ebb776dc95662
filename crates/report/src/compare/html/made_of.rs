//! Memory by segment, a bar per variant.

use super::super::Experiment;
use crate::segment::Segment;
use maud::{Markup, html};
use unbloat_heap::Iec;
use unbloat_lab::trace::Trace;
use unbloat_untrusted::visible;

/// Draws bars with the median of each variant's runs, by segment, at the end of the load. `None` if no run
/// has a census.
pub(super) fn made_of(experiment: &Experiment, traces: &[Trace]) -> Option<Markup> {
    let bars: Vec<Bar> = (0..experiment.variants.len()).map(|index| bar(index, traces)).collect();
    let longest = bars.iter().map(total).fold(0.0, f64::max);
    if longest == 0.0 {
        return None;
    }
    // Except variants without a run that counts.
    let shown = || experiment.variants.iter().zip(&bars).filter(|(_, bar)| total(bar) > 0.0);
    Some(html! {
        div.bars {
            @for (variant, bar) in shown() {
                span { (visible(&variant.name)) }
                div.bar { @for (segment, &bytes) in Segment::ALL.into_iter().zip(bar).filter(|(_, bytes)| **bytes > 0.0) { (part(segment, bytes, longest)) } }
                b { (Iec(total(bar) as u64)) }
            }
        }
        ul.legend { @for segment in Segment::ALL { li { i class=(segment.key()) {} (segment.label()) } } }
    })
}

fn part(segment: Segment, bytes: f64, longest: f64) -> Markup {
    let width = format!("width:{:.2}%", bytes / longest * 100.0);
    html! { i class=(segment.key()) style=(width) title={ (segment.label()) ": " (Iec(bytes as u64)) } {} }
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
