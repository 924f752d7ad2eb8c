//! LFU: the page with the fewest uses since it was admitted is the victim; among equals, the one used least recently.
//!
//! The classic of E. G. Coffman and P. J. Denning, "Operating Systems Theory", 1973, in constant time after K. Shah, A. Mitra
//! and D. Matani, "An O(1) algorithm for implementing the LFU cache eviction scheme", 2010. Ageing is that of J. T. Robinson
//! and M. V. Devarakonda, "Data Cache Management Using Frequency-Based Replacement", SIGMETRICS 1990: once the average
//! count exceeds `ageing`, every count C becomes C/2, rounded up.
//!
//! Pages with equal counts share a bucket, an LRU list; the buckets form a chain from the lowest count to the highest. A hit
//! moves its page to the next bucket.
//!
//! Counts are forgotten with the page (in-cache LFU), or kept with `history`, as MQ's authors gave it to LFU for fairness: the last pages
//! evicted are ghosts with their counts, FIFO, and one that comes back goes on from its count. It passes the buckets of lower
//! counts one by one: few, as its own was the lowest when it was evicted. Ghosts do not age.
//!
//! Deviations: when ageing makes two buckets equal, the pages of the formerly lower one count as used less recently.
//! Reference figures: none outside; tested against a plain model. Parameters: `ageing` (0: none), `history`.
//! Memory: 12 bytes a page (two links, the bucket or a ghost's count), and 32 bytes a distinct count, of which there are no more than resident
//! pages.

use crate::drawing::{Drawing, Drawn, ENTRY, WORTH};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

const NONE: u32 = u32::MAX;
/// In the value of a ghost, beside its count. Buckets have lower numbers.
const GHOST: u32 = 1 << 31;

/// The pages of one count.
#[derive(Debug)]
struct Bucket {
    count: u64,
    /// The least recently used at the back.
    pages: List,
    lower: u32,
    /// For a bucket out of use: the next one out of use.
    higher: u32,
}

/// Least frequently used.
#[derive(Debug)]
pub struct Lfu {
    /// FU1. A resident page is in the list of the bucket that its value names, a ghost in `ghosts`.
    nodes: Nodes<u32>,
    /// FU4. At most `history` times the capacity, the one evicted last at the front.
    ghosts: List,
    /// FU2. From `lowest` on, counts rise strictly, and no bucket in the chain is empty.
    buckets: Vec<Bucket>,
    lowest: u32,
    unused: u32,
    /// FU3. The number of resident pages, and the sum of their counts.
    len: u32,
    sum: u64,
    capacity: u32,
    ageing: f64,
    history: u32,
}

impl Policy for Lfu {
    const INFO: Info = Info {
        name: "lfu",
        title: "least frequently used, with or without ageing",
        paper: "E. G. Coffman and P. J. Denning, Operating Systems Theory, 1973; ageing: J. T. Robinson and M. V. Devarakonda, SIGMETRICS 1990",
        parameters: &[
            Parameter {
                name: "ageing",
                help: "halve all counts once their average exceeds this; 0: never",
                kind: Kind::Real { least: 0.0, most: 1e9 },
                default: "0",
            },
            Parameter {
                name: "history",
                help: "the most ghosts whose counts are kept, in multiples of the capacity",
                kind: Kind::Integer { least: 0, most: 100 },
                default: "0",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 100,
        bytes_per_page: 12 + size_of::<Bucket>(),
        history: Some("history"),
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self {
            nodes: Nodes::new(setup.pages),
            ghosts: List::new(),
            buckets: Vec::new(),
            lowest: NONE,
            unused: NONE,
            len: 0,
            sum: 0,
            capacity: setup.capacity,
            ageing: setup.settings.real("ageing"),
            history: setup.settings.integer("history") as u32,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn ghosts(&self) -> u32 {
        self.ghosts.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page) && !self.is_ghost(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        let old = self.nodes[page];
        let count = self.buckets[old as usize].count + 1;
        let higher = self.buckets[old as usize].higher;
        let new = match self.buckets.get(higher as usize) {
            Some(bucket) if bucket.count == count => higher,
            _ => self.insert_bucket(count, old),
        };
        self.buckets[old as usize].pages.remove(&mut self.nodes, page);
        self.drop_if_empty(old);
        self.nodes[page] = new;
        self.buckets[new as usize].pages.push_front(&mut self.nodes, page);
        self.sum += 1;
        self.age();
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len == self.capacity {
            self.evict(caller)?;
        }
        let page = reference.page;
        let mut count = 1;
        if self.nodes.is_linked(page) {
            count += u64::from(self.nodes[page] & !GHOST);
            self.ghosts.remove(&mut self.nodes, page);
        }
        let (mut lower, mut bucket) = (NONE, self.lowest);
        while bucket != NONE && self.buckets[bucket as usize].count < count {
            (lower, bucket) = (bucket, self.buckets[bucket as usize].higher);
        }
        if bucket == NONE || self.buckets[bucket as usize].count != count {
            bucket = self.insert_bucket(count, lower);
        }
        self.nodes[page] = bucket;
        self.buckets[bucket as usize].pages.push_front(&mut self.nodes, page);
        self.len += 1;
        self.sum += count;
        self.age();
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.chain().flat_map(|bucket| bucket.pages.back_to_front(&self.nodes)), caller)?;
        let count = self.buckets[self.nodes[victim] as usize].count;
        self.drop_page(victim);
        self.nodes[victim] = GHOST | count.min(u64::from(!GHOST)) as u32;
        self.ghosts.push_front(&mut self.nodes, victim);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.drop_page(page);
        } else if self.nodes.is_linked(page) {
            self.ghosts.remove(&mut self.nodes, page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("average count", if self.len == 0 { 0.0 } else { self.sum as f64 / f64::from(self.len) });
        show("distinct counts", self.chain().count() as f64);
    }

    fn draw(&self, drawing: &mut Drawing) {
        let buckets: Vec<&Bucket> = self.chain().collect();
        let pages = buckets.iter().rev().flat_map(|bucket| {
            let drawn = |page| Drawn::resident(page).number("count", bucket.count as f64);
            bucket.pages.front_to_back(&self.nodes).map(drawn)
        });
        drawing.row("queue by count", WORTH, pages);
        if self.history > 0 {
            let drawn = |page| Drawn::ghost(page).number("count", self.nodes[page] & !GHOST);
            drawing.row("history", ENTRY, self.ghosts.front_to_back(&self.nodes).map(drawn));
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.buckets.capacity() * size_of::<Bucket>()
    }

    fn check_invariants(&self) {
        assert!(self.len <= self.capacity);
        let (mut len, mut sum, mut below, mut index) = (0, 0, 0, self.lowest);
        for bucket in self.chain() {
            bucket.pages.check(&self.nodes);
            assert!(bucket.count > below && !bucket.pages.is_empty()); // FU2
            assert!(bucket.pages.back_to_front(&self.nodes).all(|page| self.nodes[page] == index)); // FU1
            (len, sum) = (len + bucket.pages.len(), sum + bucket.count * u64::from(bucket.pages.len()));
            (below, index) = (bucket.count, bucket.higher);
        }
        assert_eq!((len, sum), (self.len, self.sum)); // FU3
        self.ghosts.check(&self.nodes);
        assert!(self.ghosts.back_to_front(&self.nodes).all(|page| self.is_ghost(page))); // FU1
        assert!(u64::from(self.ghosts.len()) <= u64::from(self.history) * u64::from(self.capacity)); // FU4
    }
}

impl Lfu {
    /// The buckets from the lowest count to the highest.
    fn chain(&self) -> impl Iterator<Item = &Bucket> {
        let bucket = |index: u32| self.buckets.get(index as usize);
        std::iter::successors(bucket(self.lowest), move |current| bucket(current.higher))
    }

    fn is_ghost(&self, page: u32) -> bool {
        self.nodes[page] & GHOST != 0
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while u64::from(self.ghosts.len()) > u64::from(self.history) * u64::from(self.capacity) {
            let page = self.ghosts.back().expect("there are ghosts");
            self.ghosts.remove(&mut self.nodes, page);
            caller.forget(page);
        }
    }

    /// A new empty bucket above `lower`, or the lowest one if that is `NONE`.
    fn insert_bucket(&mut self, count: u64, lower: u32) -> u32 {
        let higher = if lower == NONE { self.lowest } else { self.buckets[lower as usize].higher };
        let bucket = Bucket { count, pages: List::new(), lower, higher };
        let index = match self.unused {
            NONE => {
                self.buckets.push(bucket);
                self.buckets.len() as u32 - 1
            }
            index => {
                self.unused = self.buckets[index as usize].higher;
                self.buckets[index as usize] = bucket;
                index
            }
        };
        self.link(lower, index);
        self.link(index, higher);
        index
    }

    fn drop_if_empty(&mut self, index: u32) {
        let Bucket { ref pages, lower, higher, .. } = self.buckets[index as usize];
        if pages.is_empty() {
            self.link(lower, higher);
            self.buckets[index as usize].higher = self.unused;
            self.unused = index;
        }
    }

    fn link(&mut self, lower: u32, higher: u32) {
        match lower {
            NONE => self.lowest = higher,
            lower => self.buckets[lower as usize].higher = higher,
        }
        if higher != NONE {
            self.buckets[higher as usize].lower = lower;
        }
    }

    fn drop_page(&mut self, page: u32) {
        let index = self.nodes[page];
        let bucket = &mut self.buckets[index as usize];
        bucket.pages.remove(&mut self.nodes, page);
        self.len -= 1;
        self.sum -= bucket.count;
        self.drop_if_empty(index);
    }

    fn age(&mut self) {
        // An average that rounding up cannot lower any more (every count 1) ends the halving.
        if self.ageing == 0.0 || self.sum as f64 <= self.ageing * f64::from(self.len) || self.sum == u64::from(self.len)
        {
            return;
        }
        let mut index = self.lowest;
        while index != NONE {
            let bucket = &mut self.buckets[index as usize];
            bucket.count = bucket.count.div_ceil(2);
            let Bucket { count, lower, higher, .. } = *bucket;
            if lower != NONE && self.buckets[lower as usize].count == count {
                self.merge(index, lower);
            }
            index = higher;
        }
        self.sum = self.chain().map(|bucket| bucket.count * u64::from(bucket.pages.len())).sum();
    }

    /// Moves the pages of bucket `from` before those of the bucket below it.
    fn merge(&mut self, from: u32, into: u32) {
        while let Some(page) = self.buckets[from as usize].pages.back() {
            self.buckets[from as usize].pages.remove(&mut self.nodes, page);
            self.buckets[into as usize].pages.push_front(&mut self.nodes, page);
            self.nodes[page] = into;
        }
        self.drop_if_empty(from);
    }
}
