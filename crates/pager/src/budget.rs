//! How much of the limit is pages: the rest is what it takes to manage them.
//!
//! A process may have so much memory more than before: the limit, 2 % of it, and 64 bytes for each page of its regions. What the pool knows of pages,
//! resident or not, is within that for most policies and regions of some length. Where it is not, there are fewer pages.

use crate::{buffers, leaving};
use forebay_pool::Config;

/// Bytes for each page of a region that come on top of the limit.
const OF_A_PAGE: u64 = 64;
/// The part of the limit that comes on top of it.
const PARTS: u64 = 50;
/// What the threads have on their stacks, of hits that the policy has yet to learn of, and in pieces too small to be given back.
const THREADS: u64 = 2 << 20;
/// What is known of a page that is dirty.
const DIRTY: u64 = 150;
/// For how many writebacks at a time there are copies of pages; all others share these.
pub(crate) const COPIES: u32 = 2;

/// The bytes for pages, for as many pages of as many regions: all of the limit if they fit, and at least three quarters of it.
pub(crate) fn for_pages(config: &Config, pages: u64, regions: u64) -> u64 {
    let limit = config.most_capacity;
    let frames = limit / u64::from(config.page_size);
    let leaving = leaving::most(frames as usize) as u64 * u64::from(config.page_size);
    let beside = config.metadata_of(pages)
        + leaving
        + buffers::most(limit as usize) as u64
        + THREADS
        + config.copies_of(u32::try_from(regions).unwrap_or(u32::MAX))
        + (config.dirty_limit * (DIRTY * frames.min(pages)) as f64) as u64;
    let on_top = limit / PARTS + OF_A_PAGE * pages;
    (limit - beside.saturating_sub(on_top).min(limit)).max(limit - limit / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policy::Spec;

    #[test]
    fn a_long_history_costs_pages_and_a_long_region_gives_them_back() {
        let config =
            |policy| Config { copies: COPIES, ..Config::new(64 << 20, Spec::parse(policy).expect("a policy")) };
        let pages = 4 * (64 << 20) / 4096;
        assert_eq!(for_pages(&config("clock"), 4 * pages, 1), 64 << 20, "all of it");
        let (short, long) = (for_pages(&config("mq"), pages, 1), for_pages(&config("mq"), 4 * pages, 1));
        assert!(short < 62 << 20 && short < long, "{short} {long}");
        let several = for_pages(&config("mq"), pages, 2);
        assert!(several < short, "two are written at a time");
        assert_eq!(for_pages(&config("mq"), pages, 32), several, "and others wait");
        let small = Config::new(1 << 20, Spec::parse("lru").expect("a policy"));
        assert_eq!(for_pages(&small, 256, 1), 768 << 10, "three quarters at least");
    }
}
