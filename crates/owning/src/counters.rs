//! What managers have done, for metrics.

use forebay_figures::{Total, figures};

figures! {
    /// What managers of programs' own have done.
    #[derive(Copy)]
    pub struct Counts counted by pub(crate) Counters {
        /// Managers that have registered.
        registered: u64 = Total, Count "own_managers" outcome="registered";
        /// Managers whose session has ended.
        ended: u64 = Total, Count "own_managers" outcome="ended";
        /// Managers that were refused something, which ended their connection.
        refused: u64 = Total, Count "own_managers" outcome="refused";
        /// Events sent to managers.
        events: u64 = Total, Count "own_manager_events" outcome="sent";
        /// Events that came faster than a manager took them.
        lost: u64 = Total, Count "own_manager_events" outcome="lost";
        /// Blocks that managers gave up.
        given_up: u64 = Total, Count "own_manager_blocks";
        /// Messages that wake a manager as its list runs short.
        low: u64 = Total, Count "own_manager_wakes";
    }
}
