//! The broadcast driver against a server that misbehaves in a known way and keeps an exact record.
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Duration;
use unbloat_load::Silent;
use unbloat_load::cable::{self, CableFigures, CableOptions, Error, Pace, Protocol, Step};
use unbloat_load::{Arrivals, OpenLoop, Trust};
use unbloat_load_servers::cable::{Answer, Every, Mischief, Server, Truth};
use unbloat_load_servers::tls::Front;

/// Creates options for 20 clients and 30 broadcasts, one at a time; deliveries missing after half a second
/// are lost.
fn plan(server: &Server) -> CableOptions {
    CableOptions {
        clients: 20,
        step: 20,
        sample: 30,
        pace: Pace::Closed { in_flight: 1 },
        timeout: Duration::from_millis(500),
        connect_timeout: Duration::from_secs(5),
        ..CableOptions::new(server.url())
    }
}

fn run(plan: &CableOptions) -> CableFigures {
    cable::run(plan, &mut Silent, |_| {}).unwrap()
}

/// Runs against a misbehaving server. Returns the only step's figures and the server's record.
fn against(mischief: Mischief, change: impl FnOnce(&mut CableOptions)) -> (Step, Truth) {
    let server = Server::start(mischief).unwrap();
    let mut plan = plan(&server);
    change(&mut plan);
    let outcome = run(&plan);
    (outcome.steps[0].clone(), server.truth())
}

/// Asserts the invariants of every account, whatever the server does.
fn assert_complete(step: &Step, truth: &Truth) {
    assert_eq!(step.received + step.lost, step.expected, "{step:?}");
    assert_eq!(step.received + step.late, truth.due - truth.dropped, "{step:?}\n{truth:?}");
    assert_eq!(step.delivery.count(), step.received);
}

#[test]
fn a_server_that_behaves_gives_a_clean_run_with_every_delivery() {
    let server = Server::start(Mischief::default()).unwrap();
    let outcome =
        run(&CableOptions { clients: 60, step: 20, pace: Pace::Closed { in_flight: 8 }, ..plan(&server) });
    let clients: Vec<u32> = outcome.steps.iter().map(|step| step.clients).collect();
    assert_eq!(clients, [20, 40, 60]);
    for step in &outcome.steps {
        let expected = 30 * u64::from(step.clients);
        assert_eq!((step.messages, step.expected, step.received), (30, expected, expected));
        assert_eq!((step.lost, step.duplicated, step.late, step.disconnects), (0, 0, 0, 0));
        assert_eq!((step.ack.count(), step.fan_out.count(), step.connect.count()), (30, 30, 20));
        assert!(step.errors.is_empty(), "{:?}", step.errors);
    }
    let truth = server.truth();
    assert_eq!((truth.broadcasts, truth.due, truth.ended), (90, 30 * 120, 0));
}

#[test]
fn all_protocols_are_spoken() {
    for (protocol, path, identifier) in [
        (Protocol::ActionCable, "/cable", r#"{"channel":"ChatChannel","room":1}"#),
        (Protocol::ActionCableExt, "/cable", r#"{"channel":"BenchmarkChannel"}"#),
        (Protocol::Json, "/ws", ""),
        (Protocol::Phoenix, "/socket/websocket", "room:lobby"),
    ] {
        let server = Server::start(Mischief::default()).unwrap();
        let url = format!("ws://{}{path}", server.address());
        let outcome =
            run(&CableOptions { url, protocol, identifier: identifier.to_owned(), ..plan(&server) });
        let step = &outcome.steps[0];
        assert_eq!((step.received, step.ack.count(), step.fan_out.count()), (600, 30, 30), "{protocol}");
        assert!(step.errors.is_empty(), "{protocol}: {:?}", step.errors);
    }
}

#[test]
fn the_extended_protocol_answers_pings() {
    let (_, truth) = against(Mischief::default(), |plan| {
        plan.protocol = Protocol::ActionCableExt;
        plan.hold = Duration::from_millis(3_300);
    });
    assert!(truth.pongs >= 20, "each of 20 clients is pinged every 3 s: {truth:?}");
}

#[test]
fn headers_reach_the_server_and_clients_say_goodbye() {
    let server = Server::start(Mischief::default()).unwrap();
    let headers = vec![("Cookie".to_owned(), "session=1".to_owned())];
    run(&CableOptions { headers, sample: 1, ..plan(&server) });
    let origin = format!("http://{}", server.address());
    let expected = [("origin".to_owned(), origin), ("cookie".to_owned(), "session=1".to_owned())];
    assert_eq!(server.truth().headers, expected);
    let heard = |server: &Server| server.truth().goodbyes == 20;
    assert!((0..100).any(|_| heard(&server) || {
        std::thread::sleep(Duration::from_millis(20));
        false
    }));
}

#[test]
fn dropped_deliveries_are_lost_and_counted_exactly() {
    let (step, truth) = against(Mischief { drop: Every(Some(37)), ..Mischief::default() }, |plan| {
        plan.pace = Pace::Closed { in_flight: 8 };
    });
    assert_complete(&step, &truth);
    assert_eq!((step.expected, step.lost), (600, 600 / 37));
    assert_eq!(step.fan_out.count(), 30 - truth.dropped, "16 of 30 broadcasts did not reach all");
    assert_eq!(step.duplicated, 0);
}

#[test]
fn duplicates_are_counted_exactly_the_last_one_too() {
    let (step, truth) = against(Mischief { duplicate: Every(Some(20)), ..Mischief::default() }, |_| {});
    assert_complete(&step, &truth);
    assert_eq!((step.lost, step.duplicated, truth.duplicated), (0, 30, 30));
}

#[test]
fn reordered_deliveries_are_neither_lost_nor_doubled() {
    // Of 21 clients' deliveries, one at a time is overtaken by the next broadcast's.
    let (step, truth) = against(Mischief { reorder: Every(Some(41)), ..Mischief::default() }, |plan| {
        plan.pace = Pace::Closed { in_flight: 8 };
    });
    assert_complete(&step, &truth);
    assert_eq!((step.duplicated, step.lost), (0, truth.dropped));
    assert!(truth.dropped <= 1, "at most the run's last one is held for ever: {truth:?}");
}

#[test]
fn fragments_and_pings_between_them_are_put_together() {
    let (step, truth) = against(Mischief { fragment: Every(Some(3)), ..Mischief::default() }, |_| {});
    assert_complete(&step, &truth);
    assert_eq!((step.received, truth.websocket_pongs), (600, 200));
    assert!(step.errors.is_empty(), "{:?}", step.errors);
}

#[test]
fn messages_that_come_in_pieces_are_put_together() {
    for (trickle, payload) in [(true, 200), (false, 200_000)] {
        let (step, truth) = against(Mischief { trickle, ..Mischief::default() }, |plan| {
            plan.sample = 5;
            plan.payload = payload;
            plan.timeout = Duration::from_secs(10);
        });
        assert_complete(&step, &truth);
        assert_eq!((step.received, step.lost), (100, 0));
        assert!(step.errors.is_empty(), "{:?}", step.errors);
    }
}

#[test]
fn garbage_is_an_error_and_no_delivery() {
    let (step, truth) = against(Mischief { garbage: Every(Some(50)), ..Mischief::default() }, |_| {});
    assert_complete(&step, &truth);
    assert_eq!((step.received, step.errors.count("garbage")), (600, truth.garbage));
}

#[test]
fn connections_that_end_are_disconnects_of_the_right_class() {
    let every = Every(Some(100));
    let cases = [
        ("reset", Mischief { reset: every, ..Mischief::default() }),
        ("disconnected", Mischief { disconnect: every, ..Mischief::default() }),
        ("broken_frame", Mischief { mangle: every, ..Mischief::default() }),
    ];
    for (class, mischief) in cases {
        let (step, truth) = against(mischief, |_| {});
        assert_complete(&step, &truth);
        assert!(truth.ended >= 3, "{class}: {truth:?}");
        assert_eq!(
            (step.disconnects, step.errors.count(class)),
            (truth.ended, truth.ended),
            "{class}: {step:?}"
        );
        assert_eq!(step.lost, truth.dropped, "{class}");
    }
}

#[test]
fn a_stalled_client_costs_its_deliveries_and_nothing_else() {
    let (step, truth) = against(Mischief { stall: Every(Some(300)), ..Mischief::default() }, |plan| {
        plan.timeout = Duration::from_millis(100);
    });
    assert_complete(&step, &truth);
    assert!(step.lost > 10 && step.disconnects == 0, "{step:?}");
}

#[test]
fn a_server_that_does_not_read_any_more_is_given_up_with_the_class_that_says_so() {
    // 30 MB exceed the sockets' buffers and the backlog of 1 MiB.
    let (step, truth) = against(Mischief { stall: Every(Some(1)), ..Mischief::default() }, |plan| {
        (plan.clients, plan.step, plan.payload) = (1, 1, 1_000_000);
        plan.pace = Pace::Open(OpenLoop { per_second: 100.0, arrivals: Arrivals::Constant });
        plan.timeout = Duration::from_secs(10);
    });
    assert_complete(&step, &truth);
    assert_eq!((step.disconnects, step.errors.count("server_not_reading")), (1, 1), "{step:?}");
    assert!(step.messages < 30 && step.received == 0, "{step:?}");
}

#[test]
fn what_comes_after_its_time_is_late_and_lost() {
    let last_delay = Duration::from_millis(300);
    let (step, truth) = against(Mischief { last_delay, ..Mischief::default() }, |plan| {
        plan.sample = 3;
        plan.timeout = Duration::from_millis(100);
        plan.settle = Duration::from_millis(500);
    });
    assert_complete(&step, &truth);
    assert_eq!((step.lost, step.late, step.fan_out.count()), (3, 3, 0));
}

#[test]
fn a_server_that_dies_in_a_step_ends_the_run_with_what_there_is() {
    let server = Server::start(Mischief { die_after: Some(10), ..Mischief::default() }).unwrap();
    let outcome = run(&CableOptions { clients: 60, ..plan(&server) });
    assert_eq!(outcome.steps.len(), 1, "there is nobody left for a second step");
    let step = &outcome.steps[0];
    assert_eq!((step.received, step.lost, step.disconnects), (180, 20, 20));
    assert_eq!((step.errors.count("reset"), step.errors.count("ack_missing")), (20, 1));
    assert!(!outcome.problems().is_empty());
}

#[test]
fn a_server_that_acknowledges_nothing_is_said_so() {
    let (step, _) = against(Mischief { mute: true, ..Mischief::default() }, |plan| {
        plan.timeout = Duration::from_millis(100)
    });
    assert_eq!((step.received, step.errors.count("ack_missing")), (600, 30));
    let (step, _) = against(Mischief { mute: true, ..Mischief::default() }, |plan| plan.ack = None);
    assert!(step.errors.is_empty(), "without acknowledgements expected none is missing: {:?}", step.errors);
}

#[test]
fn nobody_being_let_in_is_an_error_with_the_reason() {
    let cases = [
        (
            Mischief { upgrade: Answer::No(401), ..Mischief::default() },
            "the server answered 401",
            "upgrade_status_401",
        ),
        (
            Mischief { upgrade: Answer::No(404), ..Mischief::default() },
            "the server answered 404",
            "upgrade_status_404",
        ),
        (
            Mischief { upgrade: Answer::Wrong, ..Mischief::default() },
            "answer to the WebSocket upgrade is invalid",
            "upgrade_invalid",
        ),
        (
            Mischief { upgrade: Answer::Silence, ..Mischief::default() },
            "did not answer the WebSocket upgrade",
            "upgrade_timeout",
        ),
        (
            Mischief { subscription: Answer::No(0), ..Mischief::default() },
            "rejected the subscription",
            "subscription_rejected",
        ),
        (
            Mischief { subscription: Answer::Silence, ..Mischief::default() },
            "is the channel's name right",
            "subscribe_timeout",
        ),
    ];
    for (mischief, words, class) in cases {
        let server = Server::start(mischief).unwrap();
        let plan = CableOptions { connect_timeout: Duration::from_millis(300), ..plan(&server) };
        let error = cable::run(&plan, &mut Silent, |_| {}).unwrap_err();
        assert!(matches!(error, Error::Nobody { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(words) && text.contains(&format!("{class} × 20")), "{text}");
    }
}

#[test]
fn classic_goes_on_with_the_acknowledgement_and_waits_for_nobody_else() {
    let last_delay = Duration::from_millis(400);
    let (step, _) = against(Mischief { last_delay, ..Mischief::default() }, |plan| {
        plan.pace = Pace::Classic { in_flight: 1 };
        plan.timeout = Duration::from_secs(5);
    });
    assert!(
        step.duration_s < 4.0,
        "30 broadcasts in turn would take 12 s if each waited for the last delivery"
    );
    let line = step.classic_line().unwrap();
    assert!(line.starts_with("clients:    20    95per-rtt:"), "{line}");
    assert_eq!(step.lost, 0);
}

/// Returns whether a time is within 1 % of the server's record, and never below it.
fn close(measured_ns: Option<u64>, truth: &[Duration]) -> bool {
    let mut truth = truth.to_vec();
    truth.sort_unstable();
    let middle = truth[(truth.len() - 1) / 2].as_nanos() as f64;
    let ratio = measured_ns.unwrap() as f64 / middle;
    (0.999..1.01).contains(&ratio)
}

#[test]
fn injected_delays_are_measured_to_one_percent() {
    let mischief = Mischief {
        delay: Duration::from_millis(200),
        last_delay: Duration::from_millis(300),
        ack_delay: Duration::from_millis(400),
        ..Mischief::default()
    };
    // Another process may delay either side of a run by more than 1 % of its delays, but hardly three times.
    let good = (0..3).any(|_| {
        let (step, truth) = against(mischief.clone(), |plan| {
            plan.pace = Pace::Open(OpenLoop { per_second: 50.0, arrivals: Arrivals::Constant });
            plan.timeout = Duration::from_secs(10);
        });
        assert_eq!((step.lost, step.fan_out.count()), (0, 30));
        let [fan_out, ack] = [&step.fan_out, &step.ack].map(|times| times.quantile_ns(0.5));
        close(fan_out, &truth.fan_outs) && close(ack, &truth.acks)
    });
    assert!(good, "fan-out and ack times differ from the server's by more than 1 % in three runs");
}

#[test]
fn an_open_loop_does_not_wait_for_a_slow_server() {
    let (step, truth) =
        against(Mischief { delay: Duration::from_millis(300), ..Mischief::default() }, |plan| {
            plan.sample = 100;
            plan.pace = Pace::Open(OpenLoop { per_second: 200.0, arrivals: Arrivals::Poisson });
            plan.timeout = Duration::from_secs(10);
        });
    assert_complete(&step, &truth);
    assert!(step.duration_s < 3.0, "a closed loop of one would take 30 s: {}", step.duration_s);
    assert!(step.delivery.summary().min_ns.unwrap() >= 299_000_000);
}

#[test]
fn tls_is_spoken_and_certificates_are_checked() {
    let server = Server::start(Mischief::default()).unwrap();
    let front = Front::start(server.address()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), front.certificate()).unwrap();
    let url = format!("wss://localhost:{}/cable", front.address().port());
    for trust in [Trust::File(file.path().to_owned()), Trust::Anything] {
        let outcome =
            run(&CableOptions { url: url.clone(), trust, timeout: Duration::from_secs(10), ..plan(&server) });
        assert_eq!((outcome.steps[0].received, outcome.steps[0].lost), (600, 0), "{outcome:?}");
    }
    let error =
        cable::run(&CableOptions { url, ..plan(&server) }, &mut Silent, |_| {}).unwrap_err().to_string();
    assert!(error.contains("tls × 20"), "{error}");
}

#[test]
fn connections_come_from_the_addresses_that_are_given_in_turn() {
    let server = Server::start(Mischief::default()).unwrap();
    let sources = vec!["127.0.0.2".parse().unwrap(), "127.0.0.3".parse().unwrap()];
    let outcome = run(&CableOptions { sources, ..plan(&server) });
    assert_eq!(outcome.steps[0].received, 600);
    let from = server.truth().peers;
    assert_eq!(
        from.values().copied().collect::<Vec<_>>(),
        [1, 10, 10],
        "one looked whether anybody is there: {from:?}"
    );
}
