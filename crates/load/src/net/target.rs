//! The server named by a URL: its address, whether it uses TLS, and whether it is reachable.

use rustls::pki_types::ServerName;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;
use url::{Host, Url};

/// Time limit of the first connection, after which the server counts as absent.
const PATIENCE: Duration = Duration::from_secs(10);

/// The target of connections.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// The first address of the host that accepted a connection.
    pub(crate) address: SocketAddr,
    /// The name to verify in the certificate, if TLS is used.
    pub(crate) tls_name: Option<ServerName<'static>>,
}

/// The reason why the server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The URL is invalid.
    #[error("{url} cannot be used: {cause}")]
    Url {
        /// The URL as given.
        url: String,
        /// The problem with it.
        cause: String,
    },
    /// The host's name has no address.
    #[error("{host} has no address: {cause}. Check the name, or give an address")]
    Name {
        /// The host.
        host: String,
        /// The resolver's message.
        cause: std::io::Error,
    },
    /// Nothing accepts connections there.
    #[error(
        "cannot connect to {url} ({address}): {cause}. Check that the server runs and listens on this port"
    )]
    Connect {
        /// The URL as given.
        url: String,
        /// The last address tried.
        address: SocketAddr,
        /// The system's message.
        cause: std::io::Error,
    },
}

impl Target {
    /// Finds the server of a URL with one of the given schemes (the second one of a pair means TLS) and
    /// verifies that it accepts connections. The connection made for this is closed again at once.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub(crate) fn find(url: &str, schemes: [&str; 2]) -> Result<Self, TargetError> {
        let [plain, secure] = schemes;
        let bad = |cause: String| TargetError::Url { url: url.to_owned(), cause };
        let parsed = Url::parse(url).map_err(|error| bad(error.to_string()))?;
        let tls = match parsed.scheme() {
            scheme if scheme == plain => false,
            scheme if scheme == secure => true,
            other => return Err(bad(format!("its scheme is '{other}', not {plain} or {secure}"))),
        };
        let host = parsed.host_str().ok_or_else(|| bad("it names no host".to_owned()))?;
        let port = parsed.port_or_known_default().ok_or_else(|| bad("it names no port".to_owned()))?;
        let tls_name = tls.then(|| server_name(&parsed)).flatten();
        if tls && tls_name.is_none() {
            return Err(bad(format!("'{host}' cannot be the name on a certificate")));
        }
        let no_address = |cause| TargetError::Name { host: host.to_owned(), cause };
        let addresses: Vec<SocketAddr> = match parsed.host() {
            Some(Host::Ipv4(ip)) => vec![SocketAddr::new(ip.into(), port)],
            Some(Host::Ipv6(ip)) => vec![SocketAddr::new(ip.into(), port)],
            _ => (host, port).to_socket_addrs().map_err(no_address)?.collect(),
        };
        Ok(Self { address: first_that_accepts(url, host, &addresses)?, tls_name })
    }
}

fn server_name(url: &Url) -> Option<ServerName<'static>> {
    match url.host()? {
        Host::Domain(name) => ServerName::try_from(name.to_owned()).ok(),
        Host::Ipv4(ip) => Some(ServerName::from(std::net::IpAddr::from(ip))),
        Host::Ipv6(ip) => Some(ServerName::from(std::net::IpAddr::from(ip))),
    }
}

fn first_that_accepts(url: &str, host: &str, addresses: &[SocketAddr]) -> Result<SocketAddr, TargetError> {
    let mut failed = TargetError::Name {
        host: host.to_owned(),
        cause: std::io::Error::new(std::io::ErrorKind::NotFound, "the resolver knows none"),
    };
    for &address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_closed_at_once) => return Ok(address),
            Err(cause) => failed = TargetError::Connect { url: url.to_owned(), address, cause },
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn refused(url: &str) -> String {
        Target::find(url, ["ws", "wss"]).unwrap_err().to_string()
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_with_the_reason() {
        assert!(refused("http://127.0.0.1/").contains("scheme is 'http', not ws or wss"));
        assert!(refused("ws://").contains("ws:// cannot be used"));
        assert!(refused("nonsense").contains("nonsense cannot be used"));
    }

    #[test]
    fn nobody_there_is_said_with_the_next_step() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let text = refused(&format!("ws://127.0.0.1:{port}/cable"));
        assert!(text.contains("refused") && text.contains("Check that the server runs"), "{text}");
    }

    #[test]
    fn a_listening_server_is_found_and_tls_follows_the_scheme() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let plain = Target::find(&format!("ws://{address}/cable"), ["ws", "wss"]).unwrap();
        assert_eq!((plain.address, plain.tls_name), (address, None));
        assert!(Target::find(&format!("wss://{address}/cable"), ["ws", "wss"]).unwrap().tls_name.is_some());
    }
}
