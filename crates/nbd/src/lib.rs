//! A server of the Network Block Device protocol, in front of anything that is an [`Export`].
//!
//! It speaks what the protocol's public text (doc/proto.md of NetworkBlockDevice/nbd) calls the baseline, and more: the fixed
//! newstyle handshake with `EXPORT_NAME`, `ABORT`, `LIST`, `STARTTLS`, `INFO`, `GO`, `STRUCTURED_REPLY`, `LIST_META_CONTEXT` and
//! `SET_META_CONTEXT` (`base:allocation`); `READ`, `WRITE`, `DISC`, `FLUSH`, `TRIM`, `CACHE`, `WRITE_ZEROES` and `BLOCK_STATUS`
//! with FUA, DF, NO_HOLE, REQ_ONE and FAST_ZERO; simple, structured and extended replies; TLS 1.2 and 1.3, with certificates of clients if wanted.
//! With extended headers (`EXTENDED_HEADERS`), lengths have 64 bits. It does not speak the oldstyle handshake and resizing.
//!
//! **Several connections.** A client may spread its requests over connections if the server says `CAN_MULTI_CONN`: what one
//! connection was told is written, all of them read, and a flush on one makes durable what was written on any. This crate keeps
//! no data of its own between a request and its reply, so that this holds if, and only if, it holds for the sessions of the
//! export, and the export says so in [`Features::multi_conn`].
//!
//! **Threads.** Each connection has a thread that receives; requests that need no waiting ([`Session::try_read`],
//! [`Session::try_write`]) are answered on it, the others by threads of their export. While requests come quickly it spins before it sleeps ([`Config::spin`]). One more of these commits ([`Export::commit`]): it makes
//! durable, together, all that FLUSH and FUA have asked for since it began the time before. What is malformed ends its connection,
//! with a reason in the log.
//!
//! **Memory and time.** Written data and replies of all connections have one budget ([`Config::buffers`]); requests wait for it. A
//! client that is slow, or takes no replies, holds its own thread and its part of that, and is closed when it rests for too long
//! within a message ([`Config::message`]).

mod budget;
mod buffer;
mod config;
mod connection;
mod counters;
mod error;
mod export;
mod handshake;
mod input;
mod link;
mod receiver;
mod server;
mod socket;
mod spin;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod wire;
mod workers;

pub use config::Config;
pub use counters::ServerCounts;
pub use error::Error;
pub use export::{Errno, Export, Extent, Failure, Features, Limits, Session};
pub use forebay_figures::clients::{Counts, Requests};
pub use server::{Listener, Server};
pub use tls::{Identity, Tls};
