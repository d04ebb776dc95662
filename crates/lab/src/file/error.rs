//! Errors of an experiment's file.

use crate::plan::PlanError;

/// The reason why an experiment's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// An error of the recording itself.
    #[error(transparent)]
    Store(#[from] unbloat_store::Error),
    /// The file holds something else.
    #[error("{path} is a recording, but not of an experiment. `unbloat compare -o` creates one")]
    NotAnExperiment {
        /// The file.
        path: String,
    },
    /// The file contains a different plan.
    #[error(
        "{path} contains another plan. Give another file with -o to start over, or the original plan to \
         continue. The first difference: {difference:?}"
    )]
    OtherPlan {
        /// The file.
        path: String,
        /// The first line that differs.
        difference: String,
    },
    /// The plan in the file is no longer understood.
    #[error(
        "cannot parse the plan in {path}: {source}. It was created by another, perhaps newer, version of \
         unbloat; use that version"
    )]
    Plan {
        /// The file.
        path: String,
        /// The reason.
        source: PlanError,
    },
    /// A value has no representation as text.
    #[error("cannot write the settings as JSON: {0}. Names and values must be text (UTF-8)")]
    Text(serde_json::Error),
}

pub(super) type Result<T> = std::result::Result<T, FileError>;
