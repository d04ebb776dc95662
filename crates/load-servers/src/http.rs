//! A web server with known faults.
//!
//! | path | answer |
//! |---|---|
//! | `/ok/BYTES` | 200 with that many bytes |
//! | `/delay/MS` | 200 after that many milliseconds |
//! | `/status/N` | that status |
//! | `/hang` | none |
//! | `/close` | the connection is closed in the middle of the answer |
//! | `/login` | GET: a form with a token; POST: 302 and a session if token and password are right, else 422 |
//! | `/private` | 200 with the session, else 401 |
//! | `/form` | GET: a page with a token; POST with the token: 201, else 422 |

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{COOKIE, HeaderMap};
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;

const TOKEN: &str = "a+b/c==";
const LOGIN_PAGE: &str =
    r#"<form method="post"><input type="hidden" name="authenticity_token" value="a+b/c=="></form>"#;
const META_PAGE: &str = r#"<head><meta name="csrf-token" content="a+b/c=="></head>"#;

type Answer = Response<BoxBody<Bytes, io::Error>>;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Ends the tasks when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port or thread is available.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let counting = Arc::clone(&counts);
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counts = Arc::clone(&counting);
                count(&counts, "connections");
                tokio::spawn(async move {
                    let service = service_fn(|request| {
                        count(&counts, &format!("{} {}", request.method(), request.uri().path()));
                        answer(request)
                    });
                    // A client that hangs up is part of the test.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Ok(Self { address, counts, _runtime: runtime })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of requests so far by method and path, and of `connections`.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().expect("nobody panics while counting").clone()
    }
}

fn count(counts: &Mutex<BTreeMap<String, u64>>, what: &str) {
    *counts.lock().expect("nobody panics while counting").entry(what.to_owned()).or_default() += 1;
}

async fn answer(request: Request<Incoming>) -> io::Result<Answer> {
    let (parts, body) = request.into_parts();
    let sent = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let sent = String::from_utf8_lossy(&sent);
    let path: Vec<&str> = parts.uri.path().trim_start_matches('/').split('/').collect();
    let number = |text: &str| text.parse::<u64>().unwrap_or(0);
    Ok(match (&parts.method, path.as_slice()) {
        (_, ["ok", bytes]) => text(200, "x".repeat(number(bytes) as usize)),
        (_, ["delay", ms]) => {
            tokio::time::sleep(Duration::from_millis(number(ms))).await;
            text(200, String::new())
        }
        (_, ["status", status]) => text(number(status) as u16, String::new()),
        (_, ["hang"]) => std::future::pending().await,
        (_, ["close"]) => {
            let frames = [Ok(Frame::data(Bytes::from("half of it"))), Err(io::Error::other("on purpose"))];
            Response::new(Frames(frames.into_iter()).boxed())
        }
        (&Method::GET, ["login"]) => text(200, LOGIN_PAGE.to_owned()),
        (&Method::POST, ["login"]) => log_in(&sent),
        (_, ["private"]) => text(if has_session(&parts.headers) { 200 } else { 401 }, String::new()),
        (&Method::GET, ["form"]) => text(200, META_PAGE.to_owned()),
        (&Method::POST, ["form"]) => text(if has_token(&sent) { 201 } else { 422 }, String::new()),
        _ => text(404, String::new()),
    })
}

fn text(status: u16, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)).map_err(|never| match never {}).boxed());
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or(hyper::StatusCode::BAD_REQUEST);
    response
}

fn log_in(form: &str) -> Answer {
    if !(has_token(form) && form.contains("password=secret")) {
        return text(422, String::new());
    }
    let mut response = text(302, String::new());
    let headers = response.headers_mut();
    headers.append("Location", "/private".parse().expect("a constant"));
    headers.append("Set-Cookie", "session=open; path=/; HttpOnly".parse().expect("a constant"));
    headers.append("Set-Cookie", "theme=dark".parse().expect("a constant"));
    response
}

fn has_token(form: &str) -> bool {
    form.split('&').any(|field| field == "authenticity_token=a%2Bb%2Fc%3D%3D" || field.ends_with(TOKEN))
}

fn has_session(headers: &HeaderMap) -> bool {
    let cookies = headers.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    cookies.split("; ").any(|cookie| cookie == "session=open")
}

/// The frames of a body, in order.
struct Frames<I>(I);

impl<I: Iterator<Item = io::Result<Frame<Bytes>>> + Unpin> hyper::body::Body for Frames<I> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<io::Result<Frame<Bytes>>>> {
        std::task::Poll::Ready(self.0.next())
    }
}
