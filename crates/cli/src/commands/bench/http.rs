//! `unbloat bench http`: requests over HTTP.

use super::run::Run;
use super::{Certificates, Common, header};
use crate::arguments::duration;
use crate::exit::Exit;
use anyhow::Context as _;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use unbloat_load::http::{self, Extent, HttpOptions, Pace, Routes};
use unbloat_load::{Arrivals, BenchDocument, OpenLoop};
use unbloat_report::bench::Problems;
use unbloat_report::bench::http::{BatchRow, Heading, RouteRows};

/// Options of `unbloat bench http`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// URLs to request; 3*URL three times as often
    #[arg(required_unless_present = "routes", conflicts_with = "routes")]
    url: Vec<String>,
    /// Routes with weights, variables and a login, as TOML (docs/guide/bench.md)
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Base URL for the paths of --routes, in place of the file's base
    #[arg(long, value_name = "URL", requires = "routes")]
    base: Option<String>,
    /// Method of the URLs
    #[arg(long, short = 'X', value_name = "METHOD", default_value = "GET", conflicts_with = "routes")]
    method: String,
    /// Body of the URLs' requests
    #[arg(long, short = 'd', value_name = "TEXT", conflicts_with = "routes")]
    body: Option<String>,
    /// Number of users, each with a connection
    #[arg(long, short = 'c', default_value_t = 10, value_name = "N")]
    users: u32,
    /// Open loop: requests per second, whatever the server does; latency counts from the intended time.
    /// --users is then the maximum number of users
    #[arg(long, value_name = "PER_SECOND")]
    rate: Option<f64>,
    /// Distribution of an open loop's intended times: constant or poisson
    #[arg(long, default_value_t, requires = "rate")]
    arrivals: Arrivals,
    /// Length of a batch
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME", conflicts_with = "requests")]
    time: Duration,
    /// Requests per batch, in place of a time
    #[arg(long, short = 'n', value_name = "N")]
    requests: Option<u64>,
    /// Number of batches
    #[arg(long, default_value_t = 1, value_name = "N")]
    batches: u32,
    /// Requests before the measurement
    #[arg(long, default_value_t = 100, value_name = "N")]
    warm_up: u64,
    /// Time limit of a response
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,
    /// Requests per connection, after which the user opens another, as behind a proxy without keep-alive (1)
    /// [default: as long as the server keeps it]
    #[arg(long, value_name = "N")]
    per_connection: Option<NonZeroU32>,
    /// Header of every request, may be repeated: 'Name: value'
    #[arg(long, short = 'H', value_parser = header, value_name = "HEADER")]
    header: Vec<(String, String)>,
    #[command(flatten)]
    certificates: Certificates,
    /// Local address to connect from
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Seed for the sequence of requests, their variables, and the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let plan = args.plan()?;
    let mut run = Run::begin(&args.common, "http", &plan.settings())?;
    let mut number = 0;
    let outcome = http::run(&plan, &mut run.follower, |batch| {
        number += 1;
        if run.in_text && number == 1 {
            run.printer.line(Heading);
        }
        if run.in_text {
            run.printer.line(BatchRow { number, batch });
        }
        let metrics = [
            ("requests", batch.figures.requests as f64, "1"),
            ("errors", batch.figures.errors.total() as f64, "1"),
            ("throughput", batch.per_second(), "1/s"),
        ];
        run.record.step(&format!("batch {number}"), &[("response", &batch.figures.response)], &metrics);
    })?;
    run.end(&Problems::new(outcome.problems()), RouteRows(&outcome), || BenchDocument::http(&plan, &outcome))
}

impl Args {
    fn plan(&self) -> anyhow::Result<HttpOptions> {
        let pace = match self.rate {
            Some(per_second) => {
                Pace::Open { open: OpenLoop { per_second, arrivals: self.arrivals }, users: self.users }
            }
            None => Pace::Closed { users: self.users },
        };
        Ok(HttpOptions {
            pace,
            warm_up: Extent::Requests(self.warm_up),
            batch: self.requests.map_or(Extent::Time(self.time), Extent::Requests),
            batches: self.batches,
            timeout: self.timeout,
            per_connection: self.per_connection,
            headers: self.header.clone(),
            trust: self.certificates.trust(),
            source: self.source,
            seed: self.seed,
            ..HttpOptions::new(self.read_routes()?)
        })
    }

    fn read_routes(&self) -> anyhow::Result<Routes> {
        let Some(path) = &self.routes else {
            let mut routes = Routes::of_urls(&self.url)?;
            for route in &mut routes.routes {
                route.method.clone_from(&self.method);
                route.body.body.clone_from(&self.body);
            }
            return Ok(routes);
        };
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let routes = Routes::parse(&text, self.base.as_deref());
        routes.with_context(|| format!("the routes in {} cannot be used", path.display()))
    }
}
