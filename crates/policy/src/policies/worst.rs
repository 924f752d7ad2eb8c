//! WORST: the page whose next use is soonest is the victim. How bad a policy can be, as OPT is how good.
//!
//! R. L. Mattson et al., "Evaluation Techniques for Storage Hierarchies", IBM Systems Journal 9(2), 1970; MQ (USENIX 2001)
//! names it beside OPT as the other bound.
//!
//! `opt.rs` with the order turned round: a page that is never used again goes after all others.
//!
//! Reference figures: none outside. Deviations: none. Parameters: none. Memory: as OPT.

use super::opt::{OffLine, Order};
use crate::policy::{Info, Uses};

/// The worst replacement.
pub type Worst = OffLine<Soonest>;

/// The soonest next use.
#[derive(Debug)]
pub struct Soonest;

impl Order for Soonest {
    const INFO: Info = Info {
        name: "worst",
        title: "the page used soonest: the other bound",
        paper: "R. L. Mattson et al., Evaluation Techniques for Storage Hierarchies, IBM Systems Journal 9(2), 1970",
        parameters: &[],
        uses: Uses::PAGE,
        off_line: true,
        ghosts: 0,
        bytes_per_page: 9,
        ..Info::PLAIN
    };
    const FARTHEST: bool = false;
}
