//! `unbloat compare`: the answer and its evidence, as JSON, as text and as a page.

mod chart;
mod figures;
#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod json;
mod sentence;
mod text;
mod versus;

pub use html::{About, html};
pub use json::document;
pub use text::text;
pub use versus::{Two, versus_document, versus_html, versus_text};

use unbloat_lab::analysis::Analysis;
use unbloat_lab::calibration::Calibration;
use unbloat_lab::plan::Plan;
use unbloat_lab::recommend::Recommendation;
use unbloat_lab::result::RunResult;
use unbloat_lab::variant::Variant;

/// All data of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct Experiment<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The variants, the control first.
    pub variants: &'a [Variant],
    /// The runs.
    pub results: &'a [RunResult],
    /// The analysis of the runs.
    pub analysis: &'a Analysis,
    /// The conclusion by the plan's rule.
    pub recommendation: &'a Recommendation,
    /// The open loop of all runs, if any.
    pub calibration: Option<&'a Calibration>,
}
