//! What the owner of a server decides.

use std::time::Duration;

use crate::tls::Tls;

/// Limits, threads and encryption of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Connections at a time; those above are closed at once.
    pub connections: usize,
    /// The most data in one request, if the export allows as much.
    pub request_bytes: u32,
    /// The most data in one option; a longer one is answered `ERR_TOO_BIG`.
    pub option_bytes: u32,
    /// Options of one client, after which it is closed.
    pub options: u32,
    /// How long the handshake may take.
    pub handshake: Duration,
    /// Requests of one connection that wait for workers at a time; no more are received meanwhile.
    pub in_flight: usize,
    /// The data of these requests, in bytes. One request is always allowed.
    pub in_flight_bytes: usize,
    /// Threads per export for requests that may have to wait. They are started when needed.
    pub workers: usize,
    /// How long a connection's thread asks its socket again and again before it sleeps. None by default: where client and
    /// server share two cores, the thread that asks takes the core on which the client would make its next request. With cores
    /// to spare it saves wake-ups.
    pub spin: Duration,
    /// Encryption.
    pub tls: Tls,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            connections: 256,
            request_bytes: 32 << 20,
            option_bytes: 64 << 10,
            options: 1024,
            handshake: Duration::from_secs(30),
            in_flight: 128,
            in_flight_bytes: 64 << 20,
            workers: 16,
            spin: Duration::ZERO,
            tls: Tls::Off,
        }
    }
}
