//! LRU-K: the page whose K-th last use is the longest ago goes first; pages used fewer than K times go before all others, by
//! LRU.
//!
//! E. J. O'Neil, P. E. O'Neil and G. Weikum, "The LRU-K Page Replacement Algorithm for Database Disk Buffering", SIGMOD 1993,
//! without a correlated reference period: the policy `lru-k` has one. Uses are remembered as long as the page is resident or a
//! place-holder stands for it.

use super::{About, Begin, Manager, Scope, Use};

pub(super) static ABOUT: About = About {
    name: "lru-k",
    gives_up: "the page whose K-th last use is the longest ago",
    needs: "`k = 3` if not 2, up to 8",
    scope: Scope::Owner,
    begin: Begin::Top,
    plain: Some(Manager::LruK(2)),
    off_line: false,
};

/// The most uses that are remembered.
pub const MOST_USES: usize = 8;

/// How soon a page goes that is used now.
pub(super) fn rank(&k: &usize, used: &mut Use) -> u64 {
    const USED_LESS: u64 = 1 << 63;
    let (now, earlier) = (used.now, &mut used.earlier[..k - 1]);
    let rank = match earlier.last().copied().unwrap_or(now) {
        0 => u64::MAX - now,
        kth_last => USED_LESS - 1 - kth_last,
    };
    if !earlier.is_empty() {
        earlier.rotate_right(1);
        earlier[0] = now;
    }
    rank
}
