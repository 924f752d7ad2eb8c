//! A sample of the pages, and the temporal distances of their references.
//!
//! One page of each 2^bits neighbours is sampled, which one being drawn by the neighbours' number: so what is known of
//! the sampled pages is an array without gaps, and no regular pattern of page numbers is sampled always or never.

use super::life_time::Distances;

/// What is known of a sampled page.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// How often it was used, as far as it is known at all; 0: nothing is.
    uses: u32,
    /// When it was used last, in the low bits of the time.
    last: u32,
}

/// So long ago at most a sampled page was used last as far as is remembered: longer than the longest lifeTime.
const LONGEST: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Sample {
    pub(super) distances: Distances,
    /// By the number of the neighbours.
    seen: Vec<Seen>,
    bits: u32,
    pages: u32,
}

impl Sample {
    pub(super) fn new(pages: u32, capacity: u32, queues: usize) -> Self {
        let mut sample = Self { distances: Distances::new(queues), seen: Vec::new(), bits: bits(capacity), pages: 0 };
        sample.reserve(pages);
        sample
    }

    /// Page numbers below `pages` may occur.
    pub(super) fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        let neighbours = self.pages.div_ceil(1 << self.bits) as usize;
        self.seen.reserve_exact(neighbours.saturating_sub(self.seen.len()));
        self.seen.resize(neighbours, Seen::default());
    }

    /// Whether the sample is another one for a cache of this capacity; nothing is known of its pages then.
    pub(super) fn set_capacity(&mut self, capacity: u32) -> bool {
        let changes = bits(capacity) != self.bits;
        if changes {
            self.bits = bits(capacity);
            self.seen = Vec::new();
            self.reserve(0);
        }
        changes
    }

    pub(super) fn has(&self, page: u32) -> bool {
        let neighbours = page >> self.bits;
        // Fibonacci hashing: the high bits of the product depend on all bits of the number.
        let drawn = u64::from(neighbours.wrapping_mul(0x9e37_79b9)) >> (32 - self.bits);
        u64::from(page) == (u64::from(neighbours) << self.bits) + drawn
    }

    /// A reference to any page, at time `now`; `known` says whether something is remembered of the page.
    #[inline]
    pub(super) fn refer(&mut self, page: u32, known: bool, now: u64) {
        if self.has(page) {
            self.refer_sampled(page, known, now as u32);
        }
    }

    #[cold]
    fn refer_sampled(&mut self, page: u32, known: bool, now: u32) {
        let seen = &mut self.seen[(page >> self.bits) as usize];
        let uses = if known { seen.uses } else { 0 };
        if uses > 0 {
            self.distances.used_again(uses, now.wrapping_sub(seen.last));
        }
        *seen = Seen { uses: uses.saturating_add(1), last: now };
        self.distances.entered(seen.uses);
    }

    /// Forgets how much longer ago than [`LONGEST`] pages were used last. Is called often enough that no time comes round again.
    pub(super) fn forget_older(&mut self, now: u64) {
        let now = now as u32;
        for seen in self.seen.iter_mut().filter(|seen| now.wrapping_sub(seen.last) > LONGEST) {
            seen.last = now.wrapping_sub(LONGEST);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.seen.capacity() * size_of::<Seen>() + self.distances.bytes()
    }
}

/// Of 2 to 8 pages one is sampled where there are frames enough, so that 64 of them at least hold sampled pages.
fn bits(capacity: u32) -> u32 {
    (capacity / 64).max(1).ilog2().min(3)
}
