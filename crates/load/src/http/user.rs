//! One user: a persistent connection, cookies, and a login.

use super::form;
use super::options::HttpOptions;
use super::routes::{Login, Routes};
use super::row::Request;
use super::template;
use cookie::{Cookie, CookieJar};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, COOKIE, HeaderMap, SET_COOKIE};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use std::io;
use std::num::NonZeroU32;
use std::time::Duration;

/// Size limit of a page in which a login looks for a token.
const LONGEST_PAGE: usize = 4 << 20;

/// A user. The connection is opened with the first request and kept as long as the server keeps it, or for
/// the configured number of requests.
pub(super) struct User {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    cookies: CookieJar,
    timeout: Duration,
    per_connection: Option<NonZeroU32>,
    /// Requests sent so far, including those of the login.
    sent: u32,
    pub(super) csrf: Option<String>,
}

/// A response, read to its end.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) bytes: u64,
    page: Vec<u8>,
}

/// The reason for a missing response: a class and a description.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) class: &'static str,
    pub(super) words: String,
}

impl User {
    pub(super) fn new(plan: &HttpOptions, tls: ClientConfig) -> Self {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_local_address(plan.source);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(1).build(https);
        Self {
            client,
            cookies: CookieJar::new(),
            timeout: plan.timeout,
            per_connection: plan.per_connection,
            sent: 0,
            csrf: None,
        }
    }

    /// Sends a request and reads the whole response, discarding its contents.
    pub(super) async fn fetch(&mut self, request: &Request) -> Result<Response, Failure> {
        self.exchange(request, 0).await
    }

    async fn exchange(&mut self, request: &Request, keep: usize) -> Result<Response, Failure> {
        let built = self.build(request)?;
        let timeout = self.timeout;
        let outcome = tokio::time::timeout(timeout, self.read(built, keep)).await;
        outcome.unwrap_or_else(|_| {
            Err(Failure {
                class: "timeout",
                words: format!("{} did not answer within {timeout:?}", request.url),
            })
        })
    }

    fn build(&mut self, request: &Request) -> Result<hyper::Request<Full<Bytes>>, Failure> {
        let mut builder = hyper::Request::builder().method(&request.method).uri(request.url.as_str());
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        self.sent = self.sent.wrapping_add(1);
        if self.per_connection.is_some_and(|requests| self.sent.is_multiple_of(requests.get())) {
            builder = builder.header(CONNECTION, "close");
        }
        let cookies: Vec<String> = self.cookies.iter().map(|cookie| cookie.stripped().to_string()).collect();
        if !cookies.is_empty() {
            builder = builder.header(COOKIE, cookies.join("; "));
        }
        let body = Full::new(Bytes::from(request.body.clone()));
        builder.body(body).map_err(|error| Failure { class: "bad_request", words: error.to_string() })
    }

    async fn read(&mut self, request: hyper::Request<Full<Bytes>>, keep: usize) -> Result<Response, Failure> {
        let response =
            self.client.request(request).await.map_err(|error| failure(&error, error.is_connect()))?;
        self.remember(response.headers());
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let (mut bytes, mut page) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failure(&error, false))?;
            if let Some(data) = frame.data_ref() {
                bytes += data.len() as u64;
                if page.len() < keep {
                    page.extend_from_slice(data);
                }
            }
        }
        Ok(Response { status, bytes, page })
    }

    /// Stores the cookies that the server sets, and deletes those that it expires.
    fn remember(&mut self, headers: &HeaderMap) {
        let texts = headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        for cookie in texts.filter_map(|text| Cookie::parse(text.to_owned()).ok()) {
            if cookie.max_age().is_some_and(|age| age.is_zero()) || cookie.value().is_empty() {
                self.cookies.remove(cookie);
            } else {
                self.cookies.add(cookie);
            }
        }
    }

    /// Logs in: fetches the form, sends it with its token, and fetches the page whose token the routes use.
    pub(super) async fn log_in(
        &mut self,
        routes: &Routes,
        login: &Login,
        number: u32,
    ) -> Result<(), Failure> {
        let page = self.page(routes, &login.page).await?;
        let mut fields = login.fields.clone();
        for value in fields.values_mut() {
            *value = template::fill(value, &mut |name| (name == "user").then(|| number.to_string()));
        }
        if let Some(token) = form::token(&page, &login.token) {
            fields.insert(login.token.clone(), token);
        }
        let (kind, body) = form::encode(&fields);
        let action = login.action.as_ref().unwrap_or(&login.page);
        let request = Request {
            method: hyper::Method::POST,
            headers: vec![("Content-Type".to_owned(), kind)],
            body,
            ..get(routes, action)?
        };
        let response = self.exchange(&request, 0).await?;
        if response.status >= 400 {
            let words = format!("{} answered {} to the login form", request.url, response.status);
            return Err(Failure { class: "login_failed", words });
        }
        if let Some(then) = &login.then {
            let page = self.page(routes, then).await?;
            self.csrf = form::token(&page, &login.token);
        }
        Ok(())
    }

    async fn page(&mut self, routes: &Routes, path: &str) -> Result<String, Failure> {
        let request = get(routes, path)?;
        let response = self.exchange(&request, LONGEST_PAGE).await?;
        if response.status >= 400 {
            let words = format!("{} answered {}", request.url, response.status);
            return Err(Failure { class: "login_failed", words });
        }
        Ok(String::from_utf8_lossy(&response.page).into_owned())
    }
}

fn get(routes: &Routes, path: &str) -> Result<Request, Failure> {
    let url = routes.url(path).map_err(|error| Failure { class: "bad_request", words: error.to_string() })?;
    let headers = routes.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(Request { route: 0, method: hyper::Method::GET, url, headers, body: Vec::new() })
}

/// Classifies an error by its deepest cause with a class.
fn failure(error: &(dyn std::error::Error + 'static), connecting: bool) -> Failure {
    let (mut class, mut words) =
        (if connecting { "connect_failed" } else { "broken_response" }, error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        words = format!("{words}: {cause}");
        if cause.is::<rustls::Error>() {
            class = "tls";
        } else if let Some(io) = cause.downcast_ref::<io::Error>() {
            class = match (io.kind(), io.raw_os_error()) {
                (io::ErrorKind::ConnectionRefused, _) => "connect_refused",
                (io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe, _) => "reset",
                (io::ErrorKind::UnexpectedEof, _) => "closed",
                (io::ErrorKind::AddrNotAvailable, _) => "no_free_port",
                _ if wraps_tls(io) => "tls",
                (_, Some(nix::libc::EMFILE | nix::libc::ENFILE)) => "too_many_files",
                _ => class,
            };
        } else if cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message) {
            class = "closed";
        }
        next = cause.source();
    }
    Failure { class, words }
}

/// Returns whether an I/O error comes from TLS. It is wrapped in another error whose `source()` does not show
/// it.
fn wraps_tls(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| {
        inner.is::<rustls::Error>() || inner.downcast_ref::<io::Error>().is_some_and(wraps_tls)
    })
}
