//! Readiness of a server: its line, an answer, or an open port.

use super::{POLL, Running, ServerError, Start, go_on};
use crate::driver::Target as _;
use crate::plan::Ready;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use unbloat_process::Pid;

impl Running {
    /// Waits until the server is ready, and takes its URL and its process from the line that says so.
    pub(super) fn wait_ready(&mut self, start: &Start) -> Result<(), ServerError> {
        let (within, interrupted) = (start.server.ready_within, start.interrupted);
        match &start.server.ready {
            Ready::Line(piece) => {
                let line = self.wait_line(piece, within, interrupted)?;
                let words = key_values(&line);
                if let Some(url) = words.get("url") {
                    self.url = (*url).to_owned();
                }
                if let Some(pid) = words.get("pid").and_then(|pid| pid.parse().ok()) {
                    self.root = Pid(pid);
                }
                Ok(())
            }
            Ready::Http(url) => {
                self.poll(format!("an answer from {url}"), start, |this| answers(&this.fill(url)))
            }
            Ready::Port(port) => self.poll(format!("port {port}"), start, |this| {
                this.fill(port).parse().is_ok_and(|port: u16| TcpStream::connect(("127.0.0.1", port)).is_ok())
            }),
        }
    }

    fn poll(
        &mut self,
        what: String,
        start: &Start,
        is_ready: impl Fn(&Self) -> bool,
    ) -> Result<(), ServerError> {
        let within = start.server.ready_within;
        let deadline = Instant::now() + within;
        while Instant::now() < deadline {
            go_on(start.interrupted)?;
            self.check()?;
            if is_ready(self) {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        Err(self.not_ready(what, within))
    }
}

/// Returns the `key=value` words of a line.
#[must_use]
pub fn key_values(line: &str) -> BTreeMap<&str, &str> {
    line.split_whitespace().filter_map(|word| word.split_once('=')).collect()
}

/// Returns whether an `http://` URL answers with a status below 500. A single HTTP/1.0 request needs no
/// library.
fn answers(url: &str) -> bool {
    let Some(address) = url.strip_prefix("http://") else { return false };
    let (host, path) = address.split_once('/').unwrap_or((address, ""));
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(host)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(matches!(status[9], b'2'..=b'4'))
    };
    ask().unwrap_or(false)
}
