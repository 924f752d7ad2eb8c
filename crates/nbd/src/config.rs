//! What the owner of a server decides.

use std::time::Duration;

use crate::tls::Tls;

/// Limits, threads and encryption of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at a time. A new one takes the place of the one that has been in its handshake the longest; where there is none
    /// it is closed at once.
    pub connections: usize,
    /// Connections at a time from one address, of those that come by TCP; those above are closed at once. `None` is three quarters of
    /// all, so that no address can take all.
    pub connections_per_peer: Option<usize>,
    /// The most data in one request, if the export allows as much.
    pub request_bytes: u32,
    /// The most data in one option; a longer one is answered `ERR_TOO_BIG`.
    pub option_bytes: u32,
    /// Options of one client, after which it is closed.
    pub options: u32,
    /// How long the handshake may take as a whole.
    pub handshake: Duration,
    /// How long a client may rest within a message: send nothing of a request that it has begun, or take nothing of a reply. A message
    /// as a whole may take as long, and a second more for each 256 KiB. While requests have waited five seconds for memory, a message
    /// that holds some must keep to 256 KiB a second in every five seconds.
    pub message: Duration,
    /// How long a client may ask for nothing; `None` is for ever.
    pub idle: Option<Duration>,
    /// The memory of written data and of replies, of all connections, in bytes. Requests wait for it. A quarter of it is the most
    /// data in one request.
    pub buffers: usize,
    /// Requests of one connection that wait for workers at a time; no more are received meanwhile.
    pub in_flight: usize,
    /// The data and replies of one connection, in bytes, and at most a quarter of the buffers. One request is always allowed.
    pub in_flight_bytes: usize,
    /// Threads per export for requests that may have to wait. They are started when needed.
    pub workers: usize,
    /// Requests of a connection that have come singly before its own thread does one that may have to wait, without a worker.
    pub trusted: u32,
    /// How long a connection's thread asks its socket again and again before it sleeps, while its client's requests come within that
    /// time and processors are to spare; 0 is never.
    pub spin: Duration,
    /// Encryption.
    pub tls: Tls,
}

/// The bytes a second of a message, at the least, once [`Config::message`] has passed.
pub(crate) const LEAST_RATE: usize = 256 << 10;

impl Config {
    /// How long a message of this many bytes may take as a whole.
    pub(crate) fn whole(&self, bytes: usize) -> Duration {
        self.message + Duration::from_secs_f64(bytes as f64 / LEAST_RATE as f64)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_peer: None,
            request_bytes: 32 << 20,
            option_bytes: 64 << 10,
            options: 1024,
            handshake: Duration::from_secs(10),
            message: Duration::from_secs(60),
            idle: None,
            buffers: 256 << 20,
            in_flight: 128,
            in_flight_bytes: 64 << 20,
            workers: 16,
            trusted: 64,
            spin: Duration::from_micros(100),
            tls: Tls::Off,
        }
    }
}
