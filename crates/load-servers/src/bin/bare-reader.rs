//! The least that a broadcast load generator can do, as a baseline for ours: connect, subscribe, and read.
//!
//! usage: bare-reader URL CLIENTS BROADCASTS IN_FLIGHT bytes|tungstenite
//!
//! With `bytes` it discards what it reads: one epoll instance, edge-triggered, one `recv` per event into one
//! buffer. With `tungstenite` every frame goes through that library. The first client broadcasts in a closed
//! loop that is paced by the number of bytes per broadcast. Prints `deliveries=N cpu_s=X rss_bytes=Y`, with
//! the CPU time excluding connecting.

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, Read, Write as _};
use std::time::{Duration, Instant};
use tungstenite::Message;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::{WebSocket, WebSocketConfig};

const SUBSCRIBE: &str = r#"{"command":"subscribe","identifier":"{\"channel\":\"BenchmarkChannel\"}"}"#;
/// Silence that marks the end of the first broadcast.
const QUIET: Duration = Duration::from_millis(300);

/// The way to read received data.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Bytes,
    Tungstenite,
}

/// Counts what is read from a stream.
struct Counted {
    stream: TcpStream,
    read: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        self.read += count as u64;
        Ok(count)
    }
}

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, clients, broadcasts, in_flight, how] = &arguments[..] else {
        return Err("usage: bare-reader URL CLIENTS BROADCASTS IN_FLIGHT bytes|tungstenite".into());
    };
    let (clients, broadcasts, in_flight): (usize, u64, u64) =
        (clients.parse()?, broadcasts.parse()?, in_flight.parse()?);
    let how = if how == "tungstenite" { How::Tungstenite } else { How::Bytes };
    let mut reader = Reader::connect(url, clients, how)?;
    let cpu = cpu_s();
    reader.broadcast()?;
    let one = reader.until_quiet()?;
    let mut sent = 1;
    while reader.total < one * broadcasts {
        while sent < broadcasts && sent < reader.total / one + in_flight {
            reader.broadcast()?;
            sent += 1;
        }
        reader.turn()?;
    }
    let (cpu, rss) = (cpu_s() - cpu, rss_bytes());
    writeln!(io::stdout(), "deliveries={} cpu_s={cpu:.3} rss_bytes={rss}", broadcasts * clients as u64)?;
    Ok(())
}

struct Reader {
    poll: Poll,
    events: Events,
    sockets: Vec<WebSocket<Counted>>,
    how: How,
    total: u64,
    buffer: Vec<u8>,
}

impl Reader {
    fn connect(url: &str, clients: usize, how: How) -> Result<Self, Box<dyn std::error::Error>> {
        let poll = Poll::new()?;
        let mut sockets = Vec::with_capacity(clients);
        for id in 0..clients {
            let request = url.into_client_request()?;
            let host = request.uri().authority().ok_or("the URL names no host")?.to_string();
            let stream = std::net::TcpStream::connect(host)?;
            stream.set_nodelay(true)?;
            let config = WebSocketConfig::default().read_buffer_size(4096);
            let (mut socket, _) = tungstenite::client::client_with_config(request, stream, Some(config))?;
            socket.read()?;
            socket.send(Message::from(SUBSCRIBE))?;
            socket.read()?;
            let stream = socket.get_ref().try_clone()?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(id), Interest::READABLE)?;
            let role = tungstenite::protocol::Role::Client;
            sockets.push(WebSocket::from_raw_socket(Counted { stream, read: 0 }, role, Some(config)));
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(1024),
            sockets,
            how,
            total: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    fn broadcast(&mut self) -> Result<(), tungstenite::Error> {
        let padding = "1234567890".repeat(20);
        let data = format!(
            r#"{{\"action\":\"broadcast\",\"payload\":{{\"id\":\"u00000000-00000000\",\"padding\":\"{padding}\"}}}}"#
        );
        let identifier = r#"{\"channel\":\"BenchmarkChannel\"}"#;
        let text = format!(r#"{{"command":"message","identifier":"{identifier}","data":"{data}"}}"#);
        self.sockets[0].send(Message::from(text))
    }

    fn turn(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        self.poll.poll(&mut self.events, Some(Duration::from_millis(100)))?;
        for event in &self.events {
            let socket = &mut self.sockets[event.token().0];
            let before = socket.get_ref().read;
            match self.how {
                How::Bytes => {
                    while socket
                        .get_mut()
                        .read(&mut self.buffer)
                        .is_ok_and(|count| count == self.buffer.len())
                    {}
                }
                How::Tungstenite => while socket.read().is_ok() {},
            }
            self.total += socket.get_ref().read - before;
        }
        Ok(())
    }

    /// Reads until nothing more arrives, and returns the number of bytes.
    fn until_quiet(&mut self) -> Result<u64, Box<dyn std::error::Error>> {
        let mut last = Instant::now();
        while last.elapsed() < QUIET {
            let before = self.total;
            self.turn()?;
            if self.total > before {
                last = Instant::now();
            }
        }
        Ok(self.total)
    }
}

/// Returns this process's user and system time in seconds (proc(5), stat, fields 14 and 15, in hundredths).
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
