//! TLS in front of a server without it, with a self-signed certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A TLS front that runs until it is dropped.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    certificate: String,
    /// Ends the tasks when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

impl Front {
    /// Listens on a free port of 127.0.0.1 and forwards decrypted traffic to `server`.
    ///
    /// # Errors
    /// The port, the threads or the certificate are unavailable.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
        let made = made.map_err(io::Error::other)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key)
            })
            .map_err(io::Error::other)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(hand_on(acceptor.clone(), stream, server));
            }
        });
        Ok(Self { address, certificate: made.cert.pem(), _runtime: runtime })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its certificate as PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }
}

async fn hand_on(acceptor: TlsAcceptor, stream: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut client = acceptor.accept(stream).await?;
    let mut server = TcpStream::connect(server).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}
