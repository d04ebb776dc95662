//! The seam between an experiment and whatever makes its runs: real servers
//! ([`ServerExecutor`](crate::servers::ServerExecutor)), or a stand-in in tests.

use crate::calibration::{Calibration, CalibrationError};
use crate::file::{ExperimentFile, FileError};
use crate::result::{Exclusion, RunResult};
use crate::schedule::Slot;
use crate::variant::Variant;
use unbloat_recording::RunId;

/// Makes single runs. The experiment decides which, keeps the results and draws the conclusions.
pub trait Executor {
    /// Makes a run.
    ///
    /// # Errors
    /// The file cannot be written, or the user wants to stop. A failure of the server or its load is not an
    /// error but a result: an excluded run with the reason.
    fn execute(&mut self, file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError>;

    /// Finds the rate for all variants, using the control; `None` if the plan's load needs none.
    ///
    /// # Errors
    /// The control does not run, or sustains no rate.
    fn calibrate(&mut self, control: &Variant) -> Result<Option<Calibration>, RunError>;
}

/// The run to make.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Its id in the file.
    pub id: RunId,
    /// The variant.
    pub variant: &'a Variant,
    /// Its place in the experiment.
    pub slot: Slot,
    /// Number of earlier runs in this slot that were disturbed.
    pub repeat: usize,
    /// The open loop, if any.
    pub calibration: Option<&'a Calibration>,
    /// The earlier runs.
    pub earlier: &'a [RunResult],
}

/// The reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// No run of a block counts.
    #[error("no run of block {block} counts, so the rest is not tried. The first reason: {reason}\n{next}")]
    NothingWorks {
        /// The block, from 1.
        block: usize,
        /// The reason why its first run does not count.
        reason: Exclusion,
        /// The next step.
        next: String,
    },
    /// The control does not run far enough for a calibration.
    #[error("cannot determine the rate, because a run of the control {variant:?} does not count: {reason}")]
    ControlFails {
        /// The control's name.
        variant: String,
        /// The reason.
        reason: Exclusion,
    },
    /// The control does not start.
    #[error("a search begins with the control, and {variant:?} does not start: {reason}")]
    ControlDoesNotStart {
        /// The control's name.
        variant: String,
        /// The reason.
        reason: Exclusion,
    },
    /// The control sustains no rate.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// The user wants to stop; the run does not count and is made again later.
    #[error("interrupted")]
    Interrupted,
}
