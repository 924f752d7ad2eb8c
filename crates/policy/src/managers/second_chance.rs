//! FIFO with second chance: the page that came first goes, unless it was used since; then it comes behind all others, once for each time. It is
//! [CLOCK](crate::Clock) within one manager's pages, and the paper names it beside global LRU: "various policies that approximate LRU,
//! such as FIFO with second chance, and two-hand clock".

use super::hands::{self, Hands};
use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "second-chance",
    gives_up: "the page that came first, unless it was used since it was last passed over",
    needs: "",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::SecondChance),
    off_line: false,
};

pub(super) const HANDS: Hands = Hands { spread: 0 };

/// The page's place in the circle.
pub(super) fn rank(used: &mut Use) -> u64 {
    hands::rank(used)
}
