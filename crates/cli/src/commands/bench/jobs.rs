//! `unbloat bench jobs`: Sidekiq jobs.

use super::Common;
use super::run::Run;
use crate::arguments::duration;
use crate::exit::Exit;
use std::time::Duration;
use unbloat_load::jobs::{self, JobsOptions, Pace};
use unbloat_load::{Arrivals, BenchDocument, OpenLoop};
use unbloat_report::bench::Problems;
use unbloat_report::bench::jobs::Table;

/// Options of `unbloat bench jobs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URL of Sidekiq's Redis: redis://:PASSWORD@HOST:PORT/DATABASE or redis+unix:///PATH?db=DATABASE
    url: String,
    /// Job class in the application
    #[arg(long, value_name = "NAME")]
    class: String,
    /// Job arguments as a JSON array; "{{n}}" is the number of the job, from 1
    #[arg(long, default_value = "[]", value_name = "JSON", value_parser = json)]
    args: serde_json::Value,
    /// Queue
    #[arg(long, default_value = "default", value_name = "NAME")]
    queue: String,
    /// Number of jobs
    #[arg(long, short = 'n', default_value_t = 1_000, value_name = "N")]
    jobs: u32,
    /// Open loop: jobs per second, whatever the workers do [default: push all at once and drain]
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Distribution of an open loop's intended times: constant or poisson
    #[arg(long, default_value_t, requires = "rate")]
    arrivals: Arrivals,
    /// Time without any progress after which the run is abandoned
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,
    /// Interval between checks of the queue, which limits the precision of all times
    #[arg(long, default_value = "2ms", value_parser = duration, value_name = "TIME")]
    look_every: Duration,
    /// Seed for the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("'{text}' is not JSON: {error}"))
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let plan = args.plan();
    let mut run = Run::begin(&args.common, "jobs", &plan.settings())?;
    let outcome = jobs::run(&plan, &mut run.follower)?;
    let metrics = [
        ("jobs", outcome.ended as f64, "1"),
        ("failed", outcome.failed as f64, "1"),
        ("throughput", outcome.per_second(), "1/s"),
    ];
    run.record.step("jobs", &[("queue", &outcome.queue), ("run", &outcome.run)], &metrics);
    run.end(&Problems::new(outcome.problems()), Table(&outcome), || BenchDocument::jobs(&plan, &outcome))
}

impl Args {
    fn plan(&self) -> JobsOptions {
        let pace = match self.rate {
            Some(per_second) => Pace::Open(OpenLoop { per_second, arrivals: self.arrivals }),
            None => Pace::Drain,
        };
        JobsOptions {
            arguments: self.args.clone(),
            queue: self.queue.clone(),
            jobs: self.jobs,
            pace,
            timeout: self.timeout,
            look_every: self.look_every,
            seed: self.seed,
            ..JobsOptions::new(&self.url, &self.class)
        }
    }
}
