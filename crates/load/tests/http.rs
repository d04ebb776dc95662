//! The HTTP driver against a server with known faults.
#![allow(clippy::unwrap_used, missing_docs)]

use std::num::NonZeroU32;
use std::time::Duration;
use unbloat_load::Silent;
use unbloat_load::http::{self, Error, Extent, HttpFigures, HttpOptions, Pace, Routes};
use unbloat_load::{Arrivals, OpenLoop, Trust};
use unbloat_load_servers::http::Server;
use unbloat_load_servers::tls::Front;

/// Creates options for two users, no warm-up, and 40 requests.
fn plan(server: &Server, routes: &str) -> HttpOptions {
    let text = format!("base = \"http://{}\"\n{routes}", server.address());
    HttpOptions {
        pace: Pace::Closed { users: 2 },
        warm_up: Extent::Requests(0),
        batch: Extent::Requests(40),
        timeout: Duration::from_millis(300),
        ..HttpOptions::new(Routes::parse(&text, None).unwrap())
    }
}

fn run(plan: &HttpOptions) -> HttpFigures {
    http::run(plan, &mut Silent, |_| {}).unwrap()
}

#[test]
fn requests_batches_and_warm_up_are_counted_as_asked_for() {
    let server = Server::start().unwrap();
    let routes =
        "[[route]]\nname = \"small\"\nweight = 3\npath = \"/ok/10\"\n[[route]]\npath = \"/ok/1000\"\n";
    let plan = HttpOptions { warm_up: Extent::Requests(7), batches: 3, ..plan(&server, routes) };
    let outcome = run(&plan);
    let requests: Vec<u64> = outcome.batches.iter().map(|batch| batch.figures.requests).collect();
    assert_eq!(requests, [40, 40, 40]);
    let total = outcome.total();
    assert_eq!((total.requests, total.response.count(), total.statuses[&200]), (120, 120, 120));
    let [small, large] = &outcome.routes[..] else { panic!("two routes") };
    assert_eq!((small.name.as_str(), large.name.as_str()), ("small", "GET /ok/1000"));
    assert_eq!(small.figures.requests + large.figures.requests, 120);
    assert_eq!(total.body_bytes, small.figures.requests * 10 + large.figures.requests * 1000);
    let counts = server.counts();
    assert_eq!(counts["GET /ok/10"] + counts["GET /ok/1000"], 127);
    // One connection was the initial check of the server.
    assert_eq!(counts["connections"], 3, "each user keeps one connection");
}

#[test]
fn a_connection_can_be_given_so_many_requests() {
    let server = Server::start().unwrap();
    let connections = |per_connection| {
        let before = server.counts()["connections"];
        let routes = "[[route]]\npath = \"/ok/10\"\n";
        let users = Pace::Closed { users: 1 };
        let outcome = run(&HttpOptions { pace: users, per_connection, ..plan(&server, routes) });
        assert_eq!(outcome.total().statuses[&200], 40);
        server.counts()["connections"] - before - 1 // one is the initial check of the server
    };
    run(&plan(&server, "[[route]]\npath = \"/ok/10\"\n"));
    assert_eq!(
        (connections(None), connections(NonZeroU32::new(1)), connections(NonZeroU32::new(8))),
        (1, 40, 5)
    );
}

#[test]
fn the_same_seed_asks_for_the_same() {
    let ask = |seed| {
        let server = Server::start().unwrap();
        let routes = "[variables]\nn = { from = 1, to = 9 }\n[[route]]\npath = \"/ok/{{n}}\"\n";
        run(&HttpOptions { seed, ..plan(&server, routes) });
        let mut counts = server.counts();
        counts.remove("connections");
        counts
    };
    assert_eq!(ask(1), ask(1));
    assert_ne!(ask(1), ask(2));
}

#[test]
fn a_login_gives_every_user_a_session_and_a_token() {
    let server = Server::start().unwrap();
    let routes = r#"
        login = { page = "/login", fields = { email = "u{{user}}@example.com", password = "secret" }, then = "/form" }
        [[route]]
        path = "/private"
        [[route]]
        method = "POST"
        path = "/form"
        form = { title = "x", authenticity_token = "{{csrf}}" }
        expect = [201]
    "#;
    let outcome = run(&plan(&server, routes));
    assert!(outcome.total().errors.is_empty(), "{outcome:?}");
    assert_eq!(server.counts()["POST /login"], 2);
    let wrong = plan(&server, &routes.replace("secret", "wrong"));
    let error = http::run(&wrong, &mut Silent, |_| {}).unwrap_err();
    assert!(matches!(error, Error::Login(_)) && error.to_string().contains("answered 422"), "{error}");
}

#[test]
fn what_goes_wrong_is_counted_by_class() {
    let server = Server::start().unwrap();
    for (path, class) in [
        ("/status/500", "status_500"),
        ("/status/404", "status_404"),
        ("/hang", "timeout"),
        ("/close", "closed"),
    ] {
        let plan = HttpOptions {
            batch: Extent::Requests(4),
            ..plan(&server, &format!("[[route]]\npath = \"{path}\"\n"))
        };
        let outcome = run(&plan);
        let total = outcome.total();
        assert_eq!(
            (total.requests, total.response.count(), total.errors.count(class)),
            (4, 0, 4),
            "{path}: {total:?}"
        );
        assert!(!outcome.problems().is_empty());
    }
}

#[test]
fn an_expected_status_is_no_error() {
    let server = Server::start().unwrap();
    let outcome = run(&plan(&server, "[[route]]\npath = \"/status/404\"\nexpect = [404]\n"));
    assert!(outcome.total().errors.is_empty());
    assert_eq!(outcome.total().response.count(), 40);
}

#[test]
fn nobody_there_is_an_error_with_the_next_step() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let routes = Routes::of_urls(&[format!("http://127.0.0.1:{port}/")]).unwrap();
    let error = http::run(&HttpOptions::new(routes), &mut Silent, |_| {}).unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("Check that the server runs"), "{error}");
}

#[test]
fn an_open_loop_counts_the_time_that_a_request_waits_for_a_user() {
    let server = Server::start().unwrap();
    // One user, 100 ms per request, 50 requests per second: the nth one waits n · 80 ms.
    let outcome = run(&HttpOptions {
        pace: Pace::Open { open: OpenLoop { per_second: 50.0, arrivals: Arrivals::Constant }, users: 1 },
        batch: Extent::Requests(10),
        ..plan(&server, "[[route]]\npath = \"/delay/100\"\n")
    });
    let summary = outcome.total().response.summary();
    assert!(summary.min_ns.unwrap() >= 99_000_000, "{summary:?}");
    assert!(summary.max_ns.unwrap() >= 800_000_000, "{summary:?}");
}

#[test]
fn delays_are_measured_to_one_percent() {
    let server = Server::start().unwrap();
    // Another process may delay either side by more than 1 %, but hardly three times.
    let good = (0..3).any(|_| {
        let plan = HttpOptions {
            pace: Pace::Open { open: OpenLoop { per_second: 50.0, arrivals: Arrivals::Poisson }, users: 100 },
            timeout: Duration::from_secs(10),
            ..plan(&server, "[[route]]\npath = \"/delay/500\"\n")
        };
        let p50 = run(&plan).total().response.quantile_ns(0.5).unwrap() as f64 / 500e6;
        (1.0..1.01).contains(&p50)
    });
    assert!(good, "the median differs from the delay by more than 1 % in three runs");
}

#[test]
fn tls_is_spoken_and_certificates_are_checked() {
    let server = Server::start().unwrap();
    let front = Front::start(server.address()).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), front.certificate()).unwrap();
    let routes = Routes::of_urls(&[format!("https://localhost:{}/ok/10", front.address().port())]).unwrap();
    let ask = |trust: Trust| {
        let plan = HttpOptions {
            trust,
            batch: Extent::Requests(10),
            warm_up: Extent::Requests(0),
            ..HttpOptions::new(routes.clone())
        };
        run(&plan).total()
    };
    for trust in [Trust::File(file.path().to_owned()), Trust::Anything] {
        assert_eq!(ask(trust).statuses[&200], 10);
    }
    let distrusted = ask(Trust::System);
    assert_eq!(distrusted.errors.count("tls"), 10, "{distrusted:?}");
}
