//! `unbloat export`: metrics of running processes for Prometheus.

use crate::arguments::{interval, share};
use crate::exit::Exit;
use crate::watched::Watched;
use anyhow::Context as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use unbloat_export::text::{Format, text};
use unbloat_export::{Server, families};
use unbloat_process::signal::Requests;
use unbloat_record::monitor::{Monitor, Options};

/// Options of `unbloat export`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Nothing is stopped and nothing runs inside the processes. A scrape gets the latest readings and waits for \
                  none.\n\nExample: unbloat export --unit puma --unit sidekiq"
)]
pub(crate) struct Args {
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9775")]
    listen: String,
    #[command(flatten)]
    watched: Watched,
    /// File that gives the server TLS and passwords, in the format of Prometheus' own exporters.
    #[arg(long, value_name = "FILE")]
    web_config: Option<PathBuf>,
    /// Share of one core that everything together may use; with 0 there is no PSS and no look.
    #[arg(long, default_value = "2%", value_parser = share, value_name = "SHARE")]
    budget: f64,
    /// Interval between lists of processes, with their RSS.
    #[arg(long, default_value = "5s", value_parser = interval, value_name = "TIME")]
    interval: Duration,
    /// Minimum interval between readings of the PSS of a process.
    #[arg(long, default_value = "15s", value_parser = interval, value_name = "TIME")]
    pss: Duration,
    /// Minimum interval between looks into a process (the composition of its memory).
    #[arg(long, default_value = "60s", value_parser = interval, value_name = "TIME")]
    look: Duration,
    /// Print only errors to stderr.
    #[arg(long, short)]
    quiet: bool,
}

/// Time between two looks at requests to end.
const PATIENCE: Duration = Duration::from_millis(250);

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    // Before any thread is started, so that it holds for all of them.
    let requests = Requests::take_over().context("cannot take over the signals")?;
    let options = Options {
        interval: args.interval,
        pss_interval: args.pss,
        look_interval: args.look,
        budget: args.budget,
    };
    let monitor = Monitor::start(args.watched.selects(&[]), options).context("cannot start the monitor")?;
    let source = move |format: Format| text(&families(&monitor.latest(), env!("CARGO_PKG_VERSION")), format);
    let server = Server::start(&args.listen, args.web_config.clone(), Arc::new(source))?;
    if !args.quiet {
        writeln!(std::io::stderr(), "metrics at {}", server.url())?;
    }
    while requests.next().is_none() {
        std::thread::sleep(PATIENCE);
    }
    Ok(Exit::Done)
}
