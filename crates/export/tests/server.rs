//! The server as a client sees it: formats, passwords, TLS, slow and many clients.
#![allow(clippy::unwrap_used)]

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use unbloat_export::Server;
use unbloat_export::text::Format;

fn start(web_config: Option<&Path>) -> Server {
    let source = |format| match format {
        Format::Prometheus => "plain 1\n".to_owned(),
        Format::OpenMetrics => "open 1\n# EOF\n".to_owned(),
    };
    Server::start("127.0.0.1:0", web_config.map(PathBuf::from), Arc::new(source)).unwrap()
}

/// Sends a request with these headers; returns the status line, the headers and the body.
fn ask(mut stream: impl Read + Write, request: &str, headers: &[&str]) -> (String, String, String) {
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_owned(), headers.to_lowercase(), body.to_owned())
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).unwrap()
}

#[test]
fn the_metrics_come_in_the_format_that_was_asked_for() {
    let server = start(None);
    assert_eq!(server.url(), format!("http://{}/metrics", server.address()));
    let (status, headers, body) = ask(connect(&server), "GET /metrics", &[]);
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", "plain 1\n"));
    assert!(headers.contains("content-type: text/plain; version=0.0.4"), "{headers}");
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1";
    let (_, headers, body) = ask(connect(&server), "GET /metrics", &[accept]);
    assert_eq!(body, "open 1\n# EOF\n");
    assert!(headers.contains("content-type: application/openmetrics-text; version=1.0.0"), "{headers}");
    let (status, headers, body) = ask(connect(&server), "HEAD /metrics", &[]);
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    assert!(headers.contains("content-length: 8"), "{headers}");
}

#[test]
fn other_paths_and_methods_are_told_where_to_go() {
    let server = start(None);
    let status = |request| ask(connect(&server), request, &[]).0;
    assert_eq!(status("GET /"), "HTTP/1.1 200 OK");
    assert_eq!(status("GET /metric"), "HTTP/1.1 404 Not Found");
    assert_eq!(status("POST /metrics"), "HTTP/1.1 405 Method Not Allowed");
}

#[test]
fn idle_clients_hold_up_nobody() {
    let server = start(None);
    let idle: Vec<TcpStream> = (0..32).map(|_| connect(&server)).collect();
    assert_eq!(ask(connect(&server), "GET /metrics", &[]).2, "plain 1\n");
    drop(idle);
}

/// A folder with a certificate and this web configuration.
fn folder(config: &str) -> (TempDir, PathBuf, CertificateDer<'static>) {
    let folder = tempfile::tempdir().unwrap();
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.path().join("cert.pem"), own.cert.pem()).unwrap();
    std::fs::write(folder.path().join("key.pem"), own.signing_key.serialize_pem()).unwrap();
    let path = folder.path().join("web.yml");
    std::fs::write(&path, config).unwrap();
    (folder, path, own.cert.der().clone())
}

fn encrypted(server: &Server, root: CertificateDer<'static>) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), connect(server))
}

const TLS: &str = "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n";

#[test]
fn with_tls_and_a_password_nothing_else_is_answered() {
    let hash = bcrypt::hash("secret", 4).unwrap();
    let (_folder, path, root) = folder(&format!("{TLS}basic_auth_users:\n  alice: {hash}\n"));
    let server = start(Some(&path));
    assert!(server.url().starts_with("https://"));
    let (status, headers, body) = ask(encrypted(&server, root.clone()), "GET /metrics", &[]);
    assert_eq!(status, "HTTP/1.1 401 Unauthorized");
    assert!(headers.contains("www-authenticate: basic") && !body.contains("plain"), "{headers} {body}");
    // alice:wrong, alice:secret
    for (password, expected) in
        [("YWxpY2U6d3Jvbmc=", "401"), ("YWxpY2U6c2VjcmV0", "200"), ("YWxpY2U6c2VjcmV0", "200")]
    {
        let authorization = format!("Authorization: Basic {password}");
        let (status, ..) = ask(encrypted(&server, root.clone()), "GET /metrics", &[&authorization]);
        assert!(status.contains(expected), "{password}: {status}");
    }
    // Without TLS there is no answer in HTTP.
    let mut plain = connect(&server);
    write!(plain, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");
}

#[test]
fn a_changed_configuration_is_in_force_at_once_and_a_broken_one_changes_nothing() {
    let user =
        |password: &str| format!("basic_auth_users:\n  alice: {}\n", bcrypt::hash(password, 4).unwrap());
    let (_folder, path, _) = folder(&user("old"));
    let server = start(Some(&path));
    let status = |password: &str| {
        let authorization = format!("Authorization: Basic {password}");
        ask(connect(&server), "GET /metrics", &[&authorization]).0.contains("200")
    };
    let (old, new) = ("YWxpY2U6b2xk", "YWxpY2U6bmV3");
    assert!(status(old) && !status(new));
    std::fs::write(&path, user("new")).unwrap();
    assert!(!status(old) && status(new));
    std::fs::write(&path, "[").unwrap();
    assert!(!status(old) && status(new), "a file that is being written must not open the door");
}

#[test]
fn an_address_in_use_and_a_wrong_file_are_errors_with_their_names() {
    let server = start(None);
    let address = server.address().to_string();
    let source: unbloat_export::server::Source = Arc::new(|_| String::new());
    let error = Server::start(&address, None, Arc::clone(&source)).unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("--listen"), "{error}");
    let (_folder, path, _) = folder("basic_auth_users: [alice]\n");
    let error = Server::start("127.0.0.1:0", Some(path.clone()), source).unwrap_err().to_string();
    assert!(error.contains(&path.display().to_string()), "{error}");
}
