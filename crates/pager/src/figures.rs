//! What a pager counts.

use forebay_figures::{Distribution, Histogram, Total, figures};

figures! {
    /// What the faults of a pager were.
    pub struct Faults counted by pub(crate) FaultCounters {
        /// Faults of pages that were not resident.
        major: u64 = Total, Count "pager_faults" kind="major";
        /// Faults of resident pages that were not mapped: read ahead, or unmapped to see whether they are used.
        minor: u64 = Total, Count "pager_faults" kind="minor";
        /// Writes to resident pages that were clean.
        protection: u64 = Total, Count "pager_faults" kind="protection";
        /// Faults that ended with SIGBUS.
        failed: u64 = Total, Count "pager_faults" kind="failed";
        /// Faults that were handled on the thread that had them.
        in_place: u64 = Total, Count "pager_faults_in_place";
        /// Mappings of pages that were taken away, to see whether they are used.
        unmapped: u64 = Total, Count "pager_unmapped_pages";
        /// The time that a fault takes from when it is seen until its page is mapped, in nanoseconds.
        fault_time: Distribution = Histogram, Times "pager_fault_time";
    }
}
