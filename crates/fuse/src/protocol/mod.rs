//! The kernel's FUSE protocol: messages, the connection, and the threads that receive requests.
//!
//! It is spoken here, and not by a library, since what protects rights and data lies in parts of it that libraries leave out (fuser
//! 0.18): the marks with which the kernel has set-user-id taken away on truncation, open and access lists; requests of killed
//! programs; files without a name; times of birth. A patch to a library would touch each of its layers.
//!
//! ```text
//!   connect.rs    mounts, and gets the connection
//!   channel.rs    receives and sends messages
//!   request.rs    reads them                       reply.rs    writes answers
//!   session.rs    the handshake, and threads       under_way.rs    which requests wait, and for how long
//! ```

mod channel;
mod connect;
mod errno;
mod reply;
mod request;
mod session;
mod under_way;

/// Reads a message of the kernel; whether it is a request.
#[cfg(feature = "testing")]
pub fn read_message(message: &[u8]) -> bool {
    match Request::read(message) {
        Ok(Request { operation: Operation::ForgetMany(files), .. }) => files.count() < message.len(),
        read => read.is_ok(),
    }
}

pub(crate) use channel::DEVICE;
pub(crate) use connect::Place;
pub(crate) use errno::Errno;
pub(crate) use reply::{
    DIRECT_IO, Entries, KEEP_CACHE, NO_FLUSH, Opened, PARALLEL_DIRECT_WRITES, Reply, Space, Unwanted,
};
pub(crate) use request::{Caller, Create, Operation, Request, SetAttributes, SetTime, Write};
pub(crate) use session::{Notifier, Options, Session};
pub(crate) use under_way::UnderWay;
