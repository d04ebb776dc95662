//! A minimal non-blocking stream to a server, plain or TLS.

use super::target::Target;
use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{ClientConfig, ClientConnection};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A stream to the server. The plain one is just a file descriptor.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<Tls>),
}

/// A TLS session and its socket.
#[derive(Debug)]
pub(crate) struct Tls {
    session: ClientConnection,
    socket: TcpStream,
}

/// Starts a connection from `source` (or any local address) and returns at once.
pub(crate) fn connect(
    target: &Target,
    tls: Option<&Arc<ClientConfig>>,
    source: Option<IpAddr>,
) -> io::Result<Stream> {
    let socket = Socket::new(Domain::for_address(target.address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(ip) = source {
        // Lets the kernel pick the port at connect(), when it knows both addresses. Otherwise each local
        // address allows only as many connections as it has ephemeral ports, however many servers there are
        // (ip(7)).
        let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::IpBindAddressNoPort, &true);
        socket.bind(&SocketAddr::new(ip, 0).into())?;
    }
    match socket.connect(&target.address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let socket = TcpStream::from_std(socket.into());
    match (tls, &target.tls_name) {
        (Some(config), Some(name)) => {
            let session =
                ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
            Ok(Stream::Tls(Box::new(Tls { session, socket })))
        }
        _ => Ok(Stream::Plain(socket)),
    }
}

impl Stream {
    /// Requests edge-triggered events in both directions under `token`, once for the life of the connection,
    /// so that no system calls are spent on changing interests.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.socket_mut().register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Returns the result of the connection attempt: `Ok(true)` connected, `Ok(false)` still in progress.
    pub(crate) fn connected(&self) -> io::Result<bool> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        };
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        match socket.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a read that fills less than its buffer has emptied the socket. True for a plain
    /// stream: the next data raises a new event (epoll(7)), which saves the read that would return EAGAIN.
    pub(crate) fn short_read_is_last(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn socket_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.socket,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    /// Sends the pending data of TLS (its handshake, among others).
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.send(),
        }
    }
}

impl Tls {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            match self.session.read_tls(&mut self.socket) {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
            let state = self.session.process_new_packets();
            // An alert that tells the server the reason is sent even if its packets were refused.
            self.send()?;
            state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.session.writer().write(bytes)?;
        self.send()?;
        if taken == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
