//! Writes the results of experiments and load drivers: variants, blocks and runs; steps, their latencies and other figures.

use super::batch::{Batch, integer};
use crate::Result;
use unbloat_recording::{BlockId, Latency, Metric, RunId, StepId, VariantId};

impl Batch<'_> {
    /// Adds a variant, or finds the one with that name. `settings` is JSON.
    pub fn variant(&self, name: &str, settings: &str) -> Result<VariantId> {
        self.update(
            "INSERT INTO variant (name, settings) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
            &[&name, &settings],
        )?;
        self.find("SELECT id FROM variant WHERE name = ?", &[&name]).map(VariantId)
    }

    /// Adds a block, or finds the one with that number.
    pub fn block(&self, number: i64) -> Result<BlockId> {
        self.update("INSERT INTO block (number) VALUES (?) ON CONFLICT (number) DO NOTHING", &[&number])?;
        self.find("SELECT id FROM block WHERE number = ?", &[&number]).map(BlockId)
    }

    /// Starts a run, the `position`th of its block.
    pub fn run(
        &self,
        variant: Option<VariantId>,
        block: Option<(BlockId, i64)>,
        started_ns: i64,
    ) -> Result<RunId> {
        self.insert(
            "INSERT INTO run (variant, block, position, started_ns) VALUES (?, ?, ?, ?)",
            &[
                &variant.map(|id| id.0),
                &block.map(|(id, _)| id.0),
                &block.map(|(_, position)| position),
                &started_ns,
            ],
        )
        .map(RunId)
    }

    /// Ends a run. `outcome` is `done` or the problem.
    pub fn run_ended(&self, run: RunId, ended_ns: i64, outcome: &str) -> Result<()> {
        self.update("UPDATE run SET ended_ns = ?, outcome = ? WHERE id = ?", &[&ended_ns, &outcome, &run.0])
    }

    /// Starts a step of a load. `parameters` is JSON.
    pub fn step(&self, run: Option<RunId>, name: &str, started_ns: i64, parameters: &str) -> Result<StepId> {
        self.insert(
            "INSERT INTO step (run, name, started_ns, parameters) VALUES (?, ?, ?, ?)",
            &[&run.map(|id| id.0), &name, &started_ns, &parameters],
        )
        .map(StepId)
    }

    /// Ends a step.
    pub fn step_ended(&self, step: StepId, ended_ns: i64) -> Result<()> {
        self.update("UPDATE step SET ended_ns = ? WHERE id = ?", &[&ended_ns, &step.0])
    }

    /// Adds a latency histogram of a step.
    pub fn latency(&self, row: &Latency) -> Result<()> {
        self.insert(
            "INSERT INTO latency (step, kind, count, histogram) VALUES (?, ?, ?, ?)",
            &[&row.step.0, &row.kind, &integer(row.count), &row.histogram],
        )
        .map(drop)
    }

    /// Adds any other figure.
    pub fn metric(&self, row: &Metric) -> Result<()> {
        self.insert(
            "INSERT INTO metric (run, step, name, value, unit) VALUES (?, ?, ?, ?, ?)",
            &[&row.run.map(|id| id.0), &row.step.map(|id| id.0), &row.name, &row.value, &row.unit],
        )
        .map(drop)
    }
}
