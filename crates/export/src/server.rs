//! The HTTP server: one thread, few connections, and an answer that is ready.

use crate::passwords::Proved;
use crate::text::Format;
use crate::web_config::WebConfig;
use crate::{Error, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Renders the metrics.
pub type Source = Arc<dyn Fn(Format) -> String + Send + Sync>;

/// Most connections at once. More are closed: a scrape is short, and few ask.
const CONNECTIONS: usize = 64;
/// Time for the head of a request.
const HEAD: Duration = Duration::from_secs(10);
/// Time for a connection, from its first byte to its last.
const CONNECTION: Duration = Duration::from_secs(30);
/// Pause after a connection that could not be accepted (too many open files).
const PAUSE: Duration = Duration::from_millis(100);

/// A running server. It runs until the process ends.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    has_tls: bool,
}

/// Everything that a connection needs.
struct Shared {
    source: Source,
    web_config: Option<PathBuf>,
    /// The configuration that was read last without an error.
    config: Mutex<WebConfig>,
    proved: Proved,
    /// One password is checked at a time, since each takes CPU.
    checking: Semaphore,
}

impl Server {
    /// Starts the server in a thread of its own.
    ///
    /// # Errors
    /// The address cannot be listened on, or the web configuration is wrong.
    pub fn start(listen: &str, web_config: Option<PathBuf>, source: Source) -> Result<Self> {
        let config = web_config.as_deref().map(WebConfig::read).transpose()?.unwrap_or_default();
        let has_tls = config.has_tls();
        let shared = Arc::new(Shared {
            source,
            web_config,
            config: Mutex::new(config),
            proved: Proved::default(),
            checking: Semaphore::new(1),
        });
        let listening = |source| Error::Listen { address: listen.to_owned(), source };
        let listener = std::net::TcpListener::bind(listen).map_err(listening)?;
        listener.set_nonblocking(true).map_err(listening)?;
        let address = listener.local_addr().map_err(listening)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(1)
            .build()
            .map_err(Error::Start)?;
        let serve = move || runtime.block_on(serve(listener, shared));
        std::thread::Builder::new().name("export".into()).spawn(serve).map_err(Error::Start)?;
        Ok(Server { address, has_tls })
    }

    /// Returns the URL of the metrics.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}://{}/metrics", if self.has_tls { "https" } else { "http" }, self.address)
    }

    /// Returns the address that it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            // A client that breaks off, or is too slow, is its own problem.
            let _ = tokio::time::timeout(CONNECTION, connection(stream, shared)).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let config = shared.config();
    match config.tls.clone() {
        Some(tls) => {
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                requests(TokioIo::new(stream), config, shared).await;
            }
        }
        None => requests(TokioIo::new(stream), config, shared).await,
    }
}

/// Answers the requests of a connection.
async fn requests<Io>(io: Io, config: WebConfig, shared: Arc<Shared>)
where
    Io: hyper::rt::Read + hyper::rt::Write + Unpin,
{
    let service = service_fn(|request: Request<Incoming>| {
        let (config, shared) = (config.clone(), Arc::clone(&shared));
        async move { Ok::<_, Infallible>(shared.answer(&request, &config).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD);
    // As above.
    let _ = http.serve_connection(io, service).await;
}

impl Shared {
    /// Reads the web configuration again. One that has become wrong changes nothing.
    fn config(&self) -> WebConfig {
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Ok(read)) = self.web_config.as_deref().map(WebConfig::read) {
            *config = read;
        }
        config.clone()
    }

    async fn answer(
        self: &Arc<Self>,
        request: &Request<Incoming>,
        config: &WebConfig,
    ) -> Response<Full<Bytes>> {
        if !config.passwords.is_open() && !self.admits(request.headers(), config).await {
            let ask = (WWW_AUTHENTICATE, "Basic realm=\"unbloat\"");
            return plain(StatusCode::UNAUTHORIZED, Some(ask), "A user and a password are needed.\n");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return plain(StatusCode::METHOD_NOT_ALLOWED, Some((ALLOW, "GET, HEAD")), "Only GET and HEAD.\n");
        }
        match request.uri().path() {
            "/metrics" => {
                let format = Format::accepted(header(request.headers(), &ACCEPT));
                let text = (self.source)(format);
                response(StatusCode::OK, Some((CONTENT_TYPE, format.content_type())), text)
            }
            "/" => plain(StatusCode::OK, None, "unbloat export: the metrics are at /metrics\n"),
            _ => plain(StatusCode::NOT_FOUND, None, "The metrics are at /metrics\n"),
        }
    }

    /// Checks a password without holding up other connections.
    async fn admits(self: &Arc<Self>, headers: &HeaderMap, config: &WebConfig) -> bool {
        let authorization = header(headers, &AUTHORIZATION).to_owned();
        if authorization.is_empty() || config.passwords.remembers(&authorization, &self.proved) {
            return !authorization.is_empty();
        }
        let (shared, passwords) = (Arc::clone(self), Arc::clone(&config.passwords));
        let Ok(_turn) = self.checking.acquire().await else { return false };
        let check = move || passwords.admits(&authorization, &shared.proved);
        tokio::task::spawn_blocking(check).await.unwrap_or(false)
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn plain(status: StatusCode, more: Option<(HeaderName, &'static str)>, text: &str) -> Response<Full<Bytes>> {
    let mut response = response(status, Some((CONTENT_TYPE, "text/plain; charset=utf-8")), text.to_owned());
    if let Some((name, value)) = more {
        response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    }
    response
}

fn response(
    status: StatusCode,
    header: Option<(HeaderName, &'static str)>,
    text: String,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, hyper::header::HeaderValue::from_static(value));
    }
    response
}
