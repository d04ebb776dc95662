//! The opening handshake (RFC 6455, section 4): the HTTP request, and the check of the response.
//!
//! Building, parsing and the key's arithmetic are `tungstenite`'s; only the waiting is ours, because
//! tungstenite wants to own the stream and one loop here drives ten thousand of them.

use tungstenite::client::IntoClientRequest as _;
use tungstenite::handshake::client::{Response, generate_request};
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::machine::TryParse as _;
use tungstenite::http::{HeaderName, HeaderValue};

/// Maximum size of a response header.
const LONGEST_RESPONSE: usize = 64 << 10;

/// A handshake in progress: the request, and the expected response.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// The request's bytes.
    pub(crate) request: Vec<u8>,
    accept: String,
    subprotocol: Option<&'static str>,
}

/// The reason why the server's response is not an agreement.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the server answered {0} to the WebSocket upgrade")]
    Status(u16),
    #[error("the server's answer to the WebSocket upgrade is invalid: {0}")]
    Invalid(String),
}

impl Upgrade {
    /// Prepares a request. `headers` are the user's own and take precedence.
    ///
    /// # Errors
    /// A sentence, if the URL or a header cannot be put into an HTTP request.
    pub(crate) fn new(
        url: &str,
        subprotocol: Option<&'static str>,
        headers: &[(String, String)],
    ) -> Result<Self, String> {
        let mut request =
            url.into_client_request().map_err(|error| format!("{url} is not a WebSocket URL: {error}"))?;
        if let Some(name) = subprotocol {
            request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(name));
        }
        for (name, value) in headers {
            let header = HeaderName::try_from(name)
                .map_err(|_| format!("'{name}' is not the name of an HTTP header"))?;
            let value = HeaderValue::try_from(value).map_err(|_| {
                format!("the value of the header {name} has characters that HTTP does not allow")
            })?;
            request.headers_mut().insert(header, value);
        }
        let (request, key) =
            generate_request(request).map_err(|error| format!("cannot ask for {url}: {error}"))?;
        Ok(Self { request, accept: derive_accept_key(key.as_bytes()), subprotocol })
    }

    /// Checks the data received so far. Returns the length of the response header once it is complete and
    /// agrees, or `None` while it is incomplete.
    pub(crate) fn check(&self, received: &[u8]) -> Result<Option<usize>, Refusal> {
        let (size, response) = match Response::try_parse(received) {
            Ok(Some(parsed)) => parsed,
            Ok(None) if received.len() > LONGEST_RESPONSE => {
                return Err(Refusal::Invalid("its header does not end".to_owned()));
            }
            Ok(None) => return Ok(None),
            Err(error) => return Err(Refusal::Invalid(error.to_string())),
        };
        if response.status().as_u16() != 101 {
            return Err(Refusal::Status(response.status().as_u16()));
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        if header("Sec-WebSocket-Accept") != Some(&self.accept) {
            return Err(Refusal::Invalid("its Sec-WebSocket-Accept does not match our key".to_owned()));
        }
        match (self.subprotocol, header("Sec-WebSocket-Protocol")) {
            (Some(asked), Some(given)) if asked != given => {
                Err(Refusal::Invalid(format!("it speaks {given}, not {asked}")))
            }
            // Some servers (Puma with old Action Cable) omit the subprotocol; their messages reveal whether
            // they speak it.
            _ => Ok(Some(size)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn response(upgrade: &Upgrade, more: &str) -> Vec<u8> {
        let accept = &upgrade.accept;
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {accept}\r\n{more}\r\n"
        )
        .into_bytes()
    }

    #[test]
    fn the_request_carries_the_users_headers() {
        let headers =
            [("Origin".to_owned(), "http://a.example".to_owned()), ("Cookie".to_owned(), "s=1".to_owned())];
        let upgrade =
            Upgrade::new("ws://localhost:3000/cable?token=x", Some("actioncable-v1-json"), &headers).unwrap();
        let text = String::from_utf8(upgrade.request).unwrap();
        assert!(text.starts_with("GET /cable?token=x HTTP/1.1\r\n"), "{text}");
        for line in ["Host: localhost:3000\r\n", "Origin: http://a.example\r\n", "cookie: s=1\r\n"] {
            assert!(text.contains(line), "{text} has no {line}");
        }
        assert!(text.contains("Sec-WebSocket-Protocol: actioncable-v1-json\r\n"), "{text}");
    }

    #[test]
    fn a_response_that_agrees_ends_the_handshake_where_the_frames_begin() {
        let upgrade = Upgrade::new("ws://localhost/", None, &[]).unwrap();
        let mut bytes = response(&upgrade, "");
        let header = bytes.len();
        assert_eq!(upgrade.check(&bytes[..header - 1]), Ok(None));
        bytes.extend_from_slice(b"\x81\x02{}");
        assert_eq!(upgrade.check(&bytes), Ok(Some(header)));
    }

    #[test]
    fn refusals_are_told_apart() {
        let upgrade = Upgrade::new("ws://localhost/", Some("actioncable-v1-json"), &[]).unwrap();
        assert_eq!(upgrade.check(b"HTTP/1.1 404 Not Found\r\n\r\n"), Err(Refusal::Status(404)));
        let other = Upgrade::new("ws://localhost/", None, &[]).unwrap();
        assert!(matches!(upgrade.check(&response(&other, "")), Err(Refusal::Invalid(_))));
        let wrong = response(&upgrade, "Sec-WebSocket-Protocol: graphql-ws\r\n");
        assert_eq!(
            upgrade.check(&wrong),
            Err(Refusal::Invalid("it speaks graphql-ws, not actioncable-v1-json".to_owned()))
        );
        assert!(matches!(upgrade.check(b"SSH-2.0-OpenSSH\r\n"), Err(Refusal::Invalid(_))));
    }

    #[test]
    fn a_header_that_http_does_not_allow_is_named() {
        let error =
            Upgrade::new("ws://localhost/", None, &[("X-A".to_owned(), "a\nb".to_owned())]).unwrap_err();
        assert!(error.contains("X-A"), "{error}");
    }
}
