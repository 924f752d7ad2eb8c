//! What has been done, for metrics.

use forebay_figures::figures;

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
        /// Times that a connection's thread asked its socket again and again, and a request came.
        spins_paid: u64, Count "spins" outcome="paid";
        /// Times that it did so, and none came: the thread slept.
        spins_vain: u64, Count "spins" outcome="vain";
    }
}
