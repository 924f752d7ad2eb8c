//! What clients ask of a volume, over the network or through a mount.

use crate::{Distribution, Histogram, Total, figures};

figures! {
    /// What clients of a volume have asked and got.
    pub struct Counts counted by pub Counters {
        /// Connections that have chosen it.
        connections: u64 = Total, Count "client_connections";
        /// Requests by command.
        requests: Requests = RequestCounters;
        /// Bytes that clients have read.
        read_bytes: u64 = Total, Count "client_read_bytes";
        /// Bytes that clients have written.
        written_bytes: u64 = Total, Count "client_written_bytes";
        /// Requests answered on the thread that received them, without waiting.
        immediate: u64 = Total, Count "client_immediate";
        /// The time of a request, from when it was received to its reply; on a mount of reads, writes and fsyncs, in nanoseconds.
        request_time: Distribution = Histogram, Times "client_request_time";
        /// Requests answered with an error, whichever they were.
        errors: u64 = Total, Count "client_errors";
    }
}

figures! {
    /// Requests by command.
    #[derive(Copy)]
    #[serde(rename_all = "kebab-case")]
    pub struct Requests counted by pub RequestCounters {
        /// Reads.
        read: u64 = Total, Count "client_requests" command="read";
        /// Writes.
        write: u64 = Total, Count "client_requests" command="write";
        /// Flushes.
        flush: u64 = Total, Count "client_requests" command="flush";
        /// Trims.
        trim: u64 = Total, Count "client_requests" command="trim";
        /// Requests to make a range zero.
        write_zeroes: u64 = Total, Count "client_requests" command="write-zeroes";
        /// Hints to fetch.
        cache: u64 = Total, Count "client_requests" command="cache";
        /// Block status requests.
        block_status: u64 = Total, Count "client_requests" command="block-status";
    }
}

impl Requests {
    /// Requests of every command.
    pub fn all(&self) -> u64 {
        self.read + self.write + self.flush + self.trim + self.write_zeroes + self.cache + self.block_status
    }
}
