//! A broadcast server in one thread: every text that a client wants to broadcast goes to all subscribers,
//! then the sender gets its acknowledgement.

mod client;
mod mischief;
mod server;
mod speech;

pub use mischief::{Answer, Every, Mischief, Truth};

use server::Hub;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A server that runs in a thread of this process until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    truth: Arc<Mutex<Truth>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// No port is available.
    pub fn start(mischief: Mischief) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let truth = Arc::new(Mutex::new(Truth::default()));
        let mut hub = Hub::bind("127.0.0.1:0".parse().expect("a constant"), mischief, Arc::clone(&truth))?;
        let address = hub.address()?;
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || hub.serve(|| stopped.load(Ordering::Relaxed)));
        Ok(Self { address, stop, truth, thread: Some(thread) })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its WebSocket URL.
    pub fn url(&self) -> String {
        format!("ws://{}/cable", self.address)
    }

    /// Returns the record so far.
    pub fn truth(&self) -> Truth {
        self.truth.lock().expect("the server does not panic while it counts").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its clients have seen any error of the server.
            let _ = thread.join();
        }
    }
}

/// Serves in the calling thread, well-behaved, forever; `ready` receives the address.
///
/// # Errors
/// The address is unavailable, or the system refuses to wait for events.
pub fn serve(address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let mut hub = Hub::bind(address, Mischief::default(), Arc::default())?;
    ready(hub.address()?);
    hub.serve(|| false)
}
