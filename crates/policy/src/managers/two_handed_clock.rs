//! Two-handed clock: one hand clears reference bits, and a second one, `spread` pages behind it, gives up the pages that were not used in between. The
//! closer the hands, the less it takes to go: a page stays for being used now, not for having been used at any time since the last
//! round. With a spread of all pages it is [second chance](super::second_chance).
//!
//! S. J. Leffler, M. K. McKusick, M. J. Karels and J. S. Quarterman, "The Design and Implementation of the 4.3BSD UNIX Operating System",
//! Addison-Wesley 1989: there the hands are 2 MB apart, which are 256 pages of 8 KiB. Within one manager's pages here.

use super::hands::{self, Hands};
use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "two-handed-clock",
    gives_up: "the next page in a circle that was not used since a hand ahead of it passed by",
    needs: "`spread = 64`, the pages between the hands, if not 256",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::TwoHandedClock(SPREAD)),
    off_line: false,
};

/// The pages between the hands where nothing else is said, and the most.
pub(super) const SPREAD: u32 = 256;
pub(super) const MOST_SPREAD: u32 = 1 << 30;

pub(super) fn hands(&spread: &u32) -> Hands {
    Hands { spread }
}

/// The page's place in the circle.
pub(super) fn rank(_: &u32, used: &mut Use) -> u64 {
    hands::rank(used)
}
