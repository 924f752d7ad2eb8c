//! How many page numbers there are, and what memory they take: metadata follows the capacity, not the pages that were ever read.
//!
//! A number is needed for each page that is resident, a ghost or in the laundry, and costs a few bytes here and what the policy
//! states. A policy whose history can be set to any length gets no more of it than makes a quarter of the capacity.

use crate::config::Config;
use crate::core::page::Page;
use crate::sync::AtomicU32;
use forebay_policy::Spec;
use forebay_policy::readahead::{BYTES_A_FRAME, BYTES_A_PAGE};

/// Metadata takes at most the capacity divided by this.
const PARTS: u64 = 4;

/// What a number costs beside the policy: its page, its entry in the page table, and its places in the queue of forgotten ones and in its object's list.
const BYTES: u64 = (size_of::<Page>() + 2 * size_of::<u32>()) as u64 + IN_TABLE;

/// The part of it that is taken at once for all numbers, at the most: a table that has grown is at least a quarter full, and those that it grew out of are
/// together as large.
const IN_TABLE: u64 = 8 * size_of::<AtomicU32>() as u64;
/// The same for a pool that never grows: its table is half full.
const IN_FIRST_TABLE: u64 = 2 * size_of::<AtomicU32>() as u64;

/// What it costs besides where volumes have shares: whose page it stands for, and its number there.
const OWN_BYTES: u64 = 2 * size_of::<Option<(u32, u32)>>() as u64;

/// What there is whatever the capacity: the handles' slots, the smallest table, one piece of pages, the policy's counters.
const FIXED: u64 = 1 << 20;

/// Page numbers are below this: lists of policies use what is above as marks.
const MOST: u64 = u32::MAX as u64 - 2;

/// How many numbers a pool of some frames needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    /// In multiples of the policy's frames.
    ghosts: u64,
    laundry: u64,
    /// For how many pages a number is kept, by the number of frames.
    known: (u64, u64),
}

impl Numbers {
    pub(crate) fn of(config: &Config) -> Self {
        // With shares a number costs more than `Config::with_page_size` could know.
        let most = if config.shares > 0 && !config.policy.info.remembers_by_number() {
            config.numbers_of_a_frame()
        } else {
            MOST
        };
        let known = u64::from(config.known_pages).min(config.frames().saturating_mul(most));
        Self { ghosts: config.policy.ghosts().into(), laundry: config.laundry.into(), known: (known, config.frames()) }
    }

    /// The most numbers.
    pub(crate) fn most(&self, frames: u32) -> u32 {
        let frames = u64::from(frames);
        // Residents, ghosts, the laundry's forgotten pages, and the one that is being admitted.
        let needed = frames.saturating_sub(self.laundry) * (1 + self.ghosts) + self.laundry + 1;
        needed.max(u64::from(self.kept(frames as u32))).min(MOST) as u32
    }

    /// This many numbers are given out before one that the policy has forgotten stands for another page.
    pub(crate) fn kept(&self, frames: u32) -> u32 {
        let (known, of_frames) = self.known;
        (u128::from(known) * u128::from(frames) / u128::from(of_frames.max(1))).min(u128::from(MOST)) as u32
    }
}

impl Config {
    /// The policy that runs: the one asked for, with as much of its history as makes metadata of a quarter of the capacity, and as
    /// page numbers of 32 bits allow when the capacity is the most.
    pub fn policy_that_fits(&self) -> Spec {
        let page_size = u64::from(self.page_size.max(1));
        let of_a_frame = self.numbers_of_a_frame();
        let most_frames = (self.most_capacity / page_size).max(1);
        let ghosts = of_a_frame.min(MOST.saturating_sub(u64::from(self.laundry) + 1) / most_frames).saturating_sub(1);
        self.policy.with_most_ghosts(u32::try_from(ghosts).unwrap_or(u32::MAX))
    }

    /// The most bytes of metadata at this capacity, which [`Statistics::metadata`](crate::Statistics::metadata) never exceeds.
    pub fn most_metadata(&self) -> u64 {
        self.metadata_of(u64::MAX)
    }

    /// The most bytes of metadata as long as no more than this many pages have ever been used.
    pub fn metadata_of(&self, pages: u64) -> u64 {
        let fitting = Self { policy: self.policy_that_fits(), ..self.clone() };
        let numbers = Numbers::of(&fitting).most(u32::try_from(self.frames()).unwrap_or(u32::MAX));
        let (numbers, used) = (u64::from(numbers), u64::from(numbers).min(pages));
        let in_table = if self.most_capacity > self.capacity { IN_TABLE } else { IN_FIRST_TABLE };
        FIXED
            + numbers * in_table
            + used * (self.bytes_of_a_number() - IN_TABLE)
            + self.frames() * self.bytes_of_a_frame()
    }

    /// How many numbers for each frame make metadata of a quarter of the capacity.
    pub(crate) fn numbers_of_a_frame(&self) -> u64 {
        (u64::from(self.page_size) / PARTS).saturating_sub(self.bytes_of_a_frame()) / self.bytes_of_a_number()
    }

    /// What pages take that were read ahead and wait for their first use, in the common policy and in that of each share.
    fn bytes_of_a_frame(&self) -> u64 {
        BYTES_A_FRAME as u64 * (4 + 9 * u64::from(self.shares)) / 4
    }

    fn bytes_of_a_number(&self) -> u64 {
        let of_policy = (self.policy.info.bytes_per_page + BYTES_A_PAGE) as u64;
        let own = if self.shares > 0 { OWN_BYTES } else { 0 };
        // Any share may have had all pages at one time, in arrays that have grown bit by bit.
        BYTES + of_policy + own + u64::from(self.shares) * (of_policy + size_of::<u32>() as u64) * 9 / 4
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    fn config(policy: &str, capacity: u64, most: u64) -> Config {
        Config::new(capacity, Spec::parse(policy).expect("a policy")).with_most_capacity(most)
    }

    #[test]
    fn the_pages_of_the_largest_cache_have_numbers() {
        for spec in Spec::all().into_iter().filter(|spec| !spec.needs_future()) {
            let config = Config { policy: spec.clone(), ..config("lru", 8 << 20, 64 * TIB) };
            assert_eq!(config.most_capacity, TIB, "2^28 frames of 4 KiB");
            assert!(config.check().is_ok());
            let numbers = Numbers::of(&Config { policy: config.policy_that_fits(), ..config });
            assert!(u64::from(numbers.most(1 << 28)) < MOST, "{}", spec.label);
        }
    }

    #[test]
    fn numbers_are_in_proportion_to_the_frames() {
        let numbers = Numbers::of(&config("seq", 8 << 20, TIB));
        assert_eq!((numbers.kept(2048), numbers.kept(4096), numbers.kept(512)), (8192, 16384, 2048));
        // SEQ keeps more numbers than its pages and the laundry need; CLOCK-Pro and UBM need them all, and give them again at once.
        assert_eq!(numbers.most(2048), 8192);
        for policy in ["clock-pro", "ubm"] {
            let numbers = Numbers::of(&config(policy, 8 << 20, TIB));
            assert_eq!((numbers.kept(2048), numbers.most(2048)), (0, 2 * (2048 - 64) + 64 + 1), "{policy}");
        }
    }
}
