//! What has been done, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What clients of one export have asked and got.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The same, shared between threads.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($name: AtomicU64,)*
        }

        impl Counters {
            /// Adds what a thread has counted on its own, which it does for as many requests as it answers in one go: a number
            /// that two cores share travels between them with every addition.
            pub(crate) fn add(&self, counts: &mut Counts) {
                $(if counts.$name > 0 {
                    self.$name.fetch_add(counts.$name, Ordering::Relaxed);
                })*
                *counts = Counts::default();
            }

            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Connections that have chosen it.
    connections,
    /// Reads.
    reads,
    /// Writes.
    writes,
    /// Flushes.
    flushes,
    /// Trims.
    trims,
    /// Hints to fetch.
    caches,
    /// Requests to make a range zero.
    zeroes,
    /// Block status requests.
    statuses,
    /// Bytes read.
    read_bytes,
    /// Bytes written by writes.
    written_bytes,
    /// Requests answered on the thread that received them, without waiting.
    immediate,
    /// Requests answered with an error, whichever they were.
    errors,
}

/// What has become of a server's connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    /// Those there are now.
    pub open: u64,
    /// Those there have been.
    pub accepted: u64,
    /// Those closed at once, or in their handshake for a later one, because there were too many.
    pub refused: u64,
    /// Those closed because what came was not the protocol.
    pub malformed: u64,
}
