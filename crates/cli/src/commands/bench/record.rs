//! `-o FILE`: writes the result into a recording file, which may already contain a recorder's memory samples.

use anyhow::Context as _;
use serde::Serialize;
use std::path::Path;
use unbloat_load::Latency;
use unbloat_recording::{Key, Kind, Metric};
use unbloat_store::{Writer, begin};

/// A recording file, or nothing.
pub(super) struct Record {
    writer: Option<Writer>,
    /// This command created the file, and so has to end it.
    owns: bool,
    /// Start of the current step.
    step_began_ns: i64,
    step: i64,
    settings: String,
    /// The first step that could not be written, reported when the run is over, so that the run itself is not
    /// affected.
    failed: Option<anyhow::Error>,
}

impl Record {
    /// Opens the file, if one is to be written, and marks the start. An existing file is added to, since
    /// `unbloat record` may be writing it.
    pub(super) fn begin(path: Option<&Path>, bench: &str, settings: &impl Serialize) -> anyhow::Result<Self> {
        let mut record = Self {
            writer: None,
            owns: false,
            step_began_ns: 0,
            step: 0,
            settings: serde_json::to_value(settings)?.to_string(),
            failed: None,
        };
        let Some(path) = path else { return Ok(record) };
        record.owns = !path.exists();
        let opened = if record.owns { Writer::create(path, &begin(Kind::Bench)) } else { Writer::join(path) };
        let mut writer = opened?;
        let now_ns = writer.now_ns()?;
        writer.batch(|batch| {
            if record.owns {
                for (key, value) in unbloat_record::provenance::machine() {
                    batch.provenance(None, key.name(), &value)?;
                }
                batch.provenance(None, Key::Load.name(), &record.settings)?;
            }
            batch.mark(now_ns, &format!("bench {bench} begins"), None)
        })?;
        record.step_began_ns = now_ns;
        record.writer = Some(writer);
        Ok(record)
    }

    /// Writes a finished step: its distributions and its figures with their units. [`end`](Self::end) reports
    /// any failure.
    pub(super) fn step(&mut self, name: &str, latencies: &[(&str, &Latency)], metrics: &[(&str, f64, &str)]) {
        if let Err(error) = self.write(name, latencies, metrics) {
            self.failed.get_or_insert(error);
        }
    }

    fn write(
        &mut self,
        name: &str,
        latencies: &[(&str, &Latency)],
        metrics: &[(&str, f64, &str)],
    ) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        self.step += 1;
        let ended_ns = writer.now_ns()?;
        let written = writer.batch(|batch| {
            let step = batch.step(None, name, self.step_began_ns, &self.settings)?;
            batch.step_ended(step, ended_ns)?;
            batch.mark(ended_ns, &format!("{name} ended"), None)?;
            for (kind, times) in latencies {
                let row = unbloat_recording::Latency {
                    step,
                    kind: (*kind).to_owned(),
                    count: times.count(),
                    histogram: times.to_v2(),
                };
                batch.latency(&row)?;
            }
            for (name, value, unit) in metrics {
                let row = Metric {
                    run: None,
                    step: Some(step),
                    name: (*name).to_owned(),
                    value: *value,
                    unit: (*unit).to_owned(),
                };
                batch.metric(&row)?;
            }
            Ok(())
        });
        self.step_began_ns = ended_ns;
        written.with_context(|| format!("cannot record step {}", self.step))
    }

    /// Ends the recording, if it is this command's own.
    ///
    /// # Errors
    /// It could not be written, now or at an earlier step.
    pub(super) fn end(self, clean: bool) -> anyhow::Result<()> {
        self.failed.map_or(Ok(()), Err)?;
        let Some(mut writer) = self.writer else { return Ok(()) };
        let now_ns = writer.now_ns()?;
        if self.owns {
            let reason = if clean { "the run ended" } else { "the run ended, not clean" };
            writer.finish(now_ns, reason, None)?;
        } else {
            writer.batch(|batch| batch.mark(now_ns, "bench ends", None))?;
        }
        Ok(())
    }
}
