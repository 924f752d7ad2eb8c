//! What has been done, for metrics.

use forebay_figures::{Distribution, Histogram, Total, figures};

figures! {
    /// What clients of one export have asked and got.
    pub struct Counts counted by Counters {
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
        /// The time of a request that was not answered at once, from its arrival to its reply, in nanoseconds.
        wait_time: Distribution = Histogram, Times "client_wait_time";
        /// Requests answered with an error, whichever they were.
        errors: u64 = Total, Count "client_errors";
    }
}

figures! {
    /// Requests by command.
    #[derive(Copy)]
    #[serde(rename_all = "kebab-case")]
    pub struct Requests counted by RequestCounters {
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

figures! {
    /// What has become of a server's connections.
    #[derive(Copy)]
    pub struct ServerCounts {
        /// Connections now.
        #[serde(rename = "connections")]
        open: u64, Level "connections";
        /// Connections there have been.
        #[serde(rename = "connections_accepted")]
        accepted: u64, Count "connection_outcomes" outcome="accepted";
        /// Connections closed at once, or in their handshake for a later one, because there were too many.
        #[serde(rename = "connections_refused")]
        refused: u64, Count "connection_outcomes" outcome="refused";
        /// Connections closed because what came was not the protocol.
        #[serde(rename = "connections_malformed")]
        malformed: u64, Count "connection_outcomes" outcome="malformed";
    }
}
