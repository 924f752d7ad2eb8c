//! MRU: when the cache is full, the page that was used last is the victim (fetch and discard).
//!
//! P. J. Denning, "The Working Set Model for Program Behavior", CACM 11(5), 1968, and E. G. Coffman and P. J. Denning,
//! "Operating Systems Theory", 1973, as cited by MQ (USENIX 2001, section 2.1); right for a loop larger than the cache.
//!
//! `lru.rs` with the other end given up: a refused victim keeps its place, and the next one towards the back is offered.
//!
//! Reference figures: `golden/exact-hits.csv`, column MRU, equal to the hit.
//! Deviations: none. Parameters: none. Memory: as LRU.

use super::lru::{ByRecency, End};
use crate::policy::{Info, Uses};

/// Most recently used.
pub type Mru = ByRecency<Newest>;

/// The end with the page used last.
#[derive(Debug)]
pub struct Newest;

impl End for Newest {
    const INFO: Info = Info {
        name: "mru",
        title: "most recently used",
        paper: "E. G. Coffman and P. J. Denning, Operating Systems Theory, 1973",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 8,
        ..Info::PLAIN
    };
    const OLDEST: bool = false;
}
