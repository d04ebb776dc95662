//! Reads the results of experiments and load drivers.

use super::{Reader, id, unsigned};
use crate::Result;
use unbloat_recording::{Latency, Metric, Run, RunId, Step, StepId, Variant, VariantId};

impl Reader {
    /// Reads the variants of an experiment.
    pub fn variants(&self) -> Result<Vec<Variant>> {
        self.rows("SELECT id, name, settings FROM variant ORDER BY id", [], |row| {
            Ok(Variant { id: VariantId(row.get(0)?), name: row.get(1)?, settings: row.get(2)? })
        })
    }

    /// Reads the runs of an experiment, in chronological order.
    pub fn runs(&self) -> Result<Vec<Run>> {
        let sql = "SELECT run.id, variant, block.number, position, started_ns, ended_ns, outcome \
                   FROM run LEFT JOIN block ON block.id = run.block ORDER BY run.id";
        self.rows(sql, [], |row| {
            Ok(Run {
                id: RunId(row.get(0)?),
                variant: id(row, 1, VariantId)?,
                block: row.get(2)?,
                position: row.get(3)?,
                started_ns: row.get(4)?,
                ended_ns: row.get(5)?,
                outcome: row.get(6)?,
            })
        })
    }

    /// Reads the steps of loads.
    pub fn steps(&self) -> Result<Vec<Step>> {
        let sql = "SELECT id, run, name, started_ns, ended_ns, parameters FROM step ORDER BY id";
        self.rows(sql, [], |row| {
            Ok(Step {
                id: StepId(row.get(0)?),
                run: id(row, 1, RunId)?,
                name: row.get(2)?,
                started_ns: row.get(3)?,
                ended_ns: row.get(4)?,
                parameters: row.get(5)?,
            })
        })
    }

    /// Reads the latency histograms.
    pub fn latencies(&self) -> Result<Vec<Latency>> {
        self.rows("SELECT step, kind, count, histogram FROM latency ORDER BY rowid", [], |row| {
            Ok(Latency {
                step: StepId(row.get(0)?),
                kind: row.get(1)?,
                count: unsigned(row, 2)?.unwrap_or(0),
                histogram: row.get(3)?,
            })
        })
    }

    /// Reads all other figures.
    pub fn metrics(&self) -> Result<Vec<Metric>> {
        self.rows("SELECT run, step, name, value, unit FROM metric ORDER BY rowid", [], |row| {
            Ok(Metric {
                run: id(row, 0, RunId)?,
                step: id(row, 1, StepId)?,
                name: row.get(2)?,
                value: row.get(3)?,
                unit: row.get(4)?,
            })
        })
    }
}
