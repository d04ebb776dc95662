//! The file at the path of an experiment: an unfinished one, one with the same plan, or something else.

use super::PLAN;
use super::error::{FileError, Result};
use std::path::Path;
use std::time::{Duration, Instant};
use unbloat_recording::Kind;
use unbloat_store::Reader;
use unbloat_store::reader::is_unfinished;

/// Maximum time for another process to create a file.
const MAKING: Duration = Duration::from_secs(2);

/// Removes a file whose creator was killed before anything was in it.
pub(super) fn discard_unfinished(path: &Path) -> Result<()> {
    let deadline = Instant::now() + MAKING;
    while is_unfinished(path) {
        if Instant::now() >= deadline {
            // SQLite's companion files are useless without it.
            for beside in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{beside}", path.display()));
            }
            return std::fs::remove_file(path).map_err(|source| {
                FileError::Store(unbloat_store::Error::Io { path: path.to_owned(), doing: "remove", source })
            });
        }
        std::thread::sleep(MAKING / 100);
    }
    Ok(())
}

/// Returns whether the file at `path` is an experiment's with a plan in it. If the creator was killed at
/// once, it has none yet.
pub(super) fn holds_a_plan(path: &Path) -> Result<bool> {
    let reader = Reader::open(path)?;
    if reader.header().kind != Kind::Experiment {
        return Err(FileError::NotAnExperiment { path: shown(path) });
    }
    Ok(reader.provenance(None)?.iter().any(|(name, _)| name == PLAN))
}

/// Returns the plan of an experiment's file as written, including comments.
///
/// # Errors
/// The file is not an experiment's.
pub fn written_plan(path: &Path) -> Result<String> {
    plan_text(&Reader::open(path)?)
}

pub(super) fn plan_text(reader: &Reader) -> Result<String> {
    let facts = reader.provenance(None)?;
    let plan = facts.into_iter().find(|(name, _)| name == PLAN).map(|(_, value)| value);
    plan.ok_or_else(|| FileError::NotAnExperiment { path: shown(reader.path()) })
}

pub(super) fn check_same(path: &Path, text: &str) -> Result<()> {
    let stored = written_plan(path)?;
    if stored == text {
        return Ok(());
    }
    let mut lines = text.lines().zip(stored.lines());
    let difference = lines.find(|(new, old)| new != old).map_or("the end of the shorter one", |(new, _)| new);
    Err(FileError::OtherPlan { path: shown(path), difference: difference.to_owned() })
}

/// Formats a path for a message.
pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
