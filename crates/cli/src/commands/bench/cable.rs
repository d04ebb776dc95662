//! `unbloat bench cable`: broadcasts over WebSockets.

use super::record::Record;
use super::run::Run;
use super::{Certificates, Common, header};
use crate::arguments::duration;
use crate::exit::Exit;
use std::net::IpAddr;
use std::time::Duration;
use unbloat_load::cable::{self, CableOptions, Pace, Protocol, Step};
use unbloat_load::{Arrivals, BenchDocument, OpenLoop};
use unbloat_report::bench::Problems;
use unbloat_report::bench::cable::{Heading, Row};

/// Options of `unbloat bench cable`. The defaults are the reference benchmark of the field.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Server URL, for example ws://localhost:3000/cable
    url: String,
    /// Total number of clients
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    clients: u32,
    /// Clients added by each step
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    step: u32,
    /// Broadcasts in each step
    #[arg(long, default_value_t = 100, value_name = "N")]
    sample: u32,
    /// Closed loop: broadcasts in flight
    #[arg(long, default_value_t = 8, value_name = "N")]
    concurrency: u32,
    /// Bytes of padding in a message
    #[arg(long, default_value_t = 200, value_name = "BYTES")]
    payload: usize,
    /// Behave exactly like websocket-bench, with its line per step: a broadcast ends with the sender's
    /// acknowledgement
    #[arg(long, conflicts_with = "rate")]
    classic: bool,
    /// Open loop: broadcasts per second, whatever the server does; latency counts from the intended time
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "concurrency")]
    rate: Option<f64>,
    /// Distribution of an open loop's intended times: constant or poisson
    #[arg(long, default_value_t, requires = "rate")]
    arrivals: Arrivals,
    /// Seed for the choice of senders and the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Protocol: actioncable-v1-json, actioncable-v1-ext-json, json or phoenix
    #[arg(long, default_value_t)]
    protocol: Protocol,
    /// Channel to subscribe to (phoenix: the topic, by default room:lobby)
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Complete subscription identifier in place of --channel, as JSON: {"channel":"ChatChannel","room":1}
    #[arg(long, value_name = "JSON", conflicts_with = "channel")]
    identifier: Option<String>,
    /// Action (phoenix: event) that broadcasts
    #[arg(long, default_value = "broadcast", value_name = "NAME")]
    action: String,
    /// Message to send in place of the default, as JSON with {{id}} in a string:
    /// {"action":"speak","body":"{{id}} {{padding}}"}
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// Text that occurs in the sender's acknowledgement but not in a delivery
    #[arg(long, default_value = "broadcastResult", value_name = "TEXT")]
    ack: String,
    /// Expect no acknowledgements from the channel
    #[arg(long, conflicts_with_all = ["ack", "classic"])]
    no_ack: bool,
    /// Origin of the upgrade request [default: the server's own]
    #[arg(long)]
    origin: Option<String>,
    /// Header of the upgrade request, may be repeated: 'Name: value'
    #[arg(long, short = 'H', value_parser = header, value_name = "HEADER")]
    header: Vec<(String, String)>,
    /// Cookie header of the upgrade request
    #[arg(long)]
    cookie: Option<String>,
    /// Token, sent as 'Authorization: Bearer TOKEN' (one in the URL works, too)
    #[arg(long)]
    token: Option<String>,
    #[command(flatten)]
    certificates: Certificates,
    /// Local addresses to connect from, in rotation: each has about 28,000 ports
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,…")]
    source: Vec<IpAddr>,
    /// Maximum number of connections being opened at once
    #[arg(long, default_value_t = 100, value_name = "N")]
    connecting: u32,
    /// Time limit for a client to be subscribed
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME")]
    connect_timeout: Duration,
    /// Time limit of a broadcast, after which missing deliveries count as lost
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME")]
    timeout: Duration,
    /// Time for which a step listens for duplicates at its end
    #[arg(long, default_value = "250ms", value_parser = duration, value_name = "TIME")]
    settle: Duration,
    /// Pause before each step's broadcasts
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "TIME")]
    pause: Duration,
    /// Time for which the clients stay connected, idle, after the last step
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "TIME")]
    hold: Duration,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let plan = args.plan();
    let mut run = Run::begin(&args.common, "cable", &plan.settings())?;
    let mut headed = false;
    let outcome = cable::run(&plan, &mut run.follower, |step| {
        match step.classic_line() {
            Some(line) if run.in_text => run.printer.line(line),
            None if run.in_text => {
                if !std::mem::replace(&mut headed, true) {
                    run.printer.line(Heading);
                }
                run.printer.line(Row(step));
            }
            _ => {}
        }
        record(&mut run.record, step);
    })?;
    run.end(&Problems::new(outcome.problems()), "", || BenchDocument::cable(&plan, &outcome))
}

fn record(record: &mut Record, step: &Step) {
    let latencies = [
        ("connect", &step.connect),
        ("ack", &step.ack),
        ("delivery", &step.delivery),
        ("fan_out", &step.fan_out),
    ];
    let metrics = [
        ("clients", f64::from(step.clients), "1"),
        ("expected", step.expected as f64, "1"),
        ("received", step.received as f64, "1"),
        ("lost", step.lost as f64, "1"),
        ("duplicated", step.duplicated as f64, "1"),
        ("errors", step.errors.total() as f64, "1"),
        ("throughput", step.deliveries_per_s(), "1/s"),
    ];
    record.step(&format!("{} clients", step.clients), &latencies, &metrics);
}

impl Args {
    fn plan(&self) -> CableOptions {
        let pace = match self.rate {
            Some(per_second) => Pace::Open(OpenLoop { per_second, arrivals: self.arrivals }),
            None if self.classic => Pace::Classic { in_flight: self.concurrency },
            None => Pace::Closed { in_flight: self.concurrency },
        };
        CableOptions {
            protocol: self.protocol,
            clients: self.clients,
            step: self.step.min(self.clients),
            sample: self.sample,
            pace,
            payload: self.payload,
            identifier: self.identifier(),
            action: self.action.clone(),
            data: self.data.clone(),
            ack: (!self.no_ack).then(|| self.ack.clone()),
            headers: self.headers(),
            trust: self.certificates.trust(),
            sources: self.source.clone(),
            connecting: self.connecting,
            connect_timeout: self.connect_timeout,
            timeout: self.timeout,
            settle: self.settle,
            pause: self.pause,
            hold: self.hold,
            seed: self.seed,
            ..CableOptions::new(&self.url)
        }
    }

    fn identifier(&self) -> String {
        match (&self.identifier, self.protocol) {
            (Some(identifier), _) => identifier.clone(),
            (None, Protocol::Phoenix) => self.channel.as_deref().unwrap_or("room:lobby").to_owned(),
            (None, _) => {
                let channel = self.channel.as_deref().unwrap_or("BenchmarkChannel");
                serde_json::json!({ "channel": channel }).to_string()
            }
        }
    }

    fn headers(&self) -> Vec<(String, String)> {
        let own = [
            self.origin.as_ref().map(|origin| ("Origin".to_owned(), origin.clone())),
            self.cookie.as_ref().map(|cookie| ("Cookie".to_owned(), cookie.clone())),
            self.token.as_ref().map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))),
        ];
        self.header.iter().cloned().chain(own.into_iter().flatten()).collect()
    }
}
