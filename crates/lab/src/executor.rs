//! The seam between an experiment and what makes its runs: real servers ([`ServerExecutor`](crate::servers::ServerExecutor)), or in
//! tests a stand-in without any.

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
    /// The file cannot be written, or the user wants to stop. Whatever goes wrong with the server or its load is a result: a
    /// run that is left out, with the reason.
    fn execute(&mut self, file: &mut ExperimentFile, order: &Order) -> Result<RunResult, RunError>;

    /// Finds the rate that every variant gets, on the control; `None` where the plan's load has none to be found.
    ///
    /// # Errors
    /// The control does not run, or sustains nothing.
    fn calibrate(&mut self, control: &Variant) -> Result<Option<Calibration>, RunError>;
}

/// The run that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Its id in the file.
    pub id: RunId,
    /// The variant.
    pub variant: &'a Variant,
    /// Its place in the experiment.
    pub slot: Slot,
    /// How many runs of this place were disturbed before.
    pub repeat: usize,
    /// The open loop, if there is one.
    pub calibration: Option<&'a Calibration>,
    /// The runs that were made before.
    pub earlier: &'a [RunResult],
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file.
    #[error(transparent)]
    File(#[from] FileError),
    /// No run of a block counts.
    #[error("no run of block {block} counts, so the rest is not tried. The first reason: {reason}\n{next}")]
    NothingWorks {
        /// The block, from 1.
        block: usize,
        /// Why its first run does not count.
        reason: Exclusion,
        /// What to do.
        next: String,
    },
    /// The control does not get as far as a calibration.
    #[error("the rate cannot be found, because a run of the control {variant:?} does not count: {reason}")]
    ControlFails {
        /// The control's name.
        variant: String,
        /// Why.
        reason: Exclusion,
    },
    /// The control sustains no rate.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// The user wants to stop; the run does not count and is made again.
    #[error("interrupted")]
    Interrupted,
}
