//! The partition of other references. Under LRU a list; else blocks by a rank, the lowest first, in a heap that knows where each page
//! is. Among equals the one referenced least recently is first.
//!
//! | `other=` | rank |
//! | --- | --- |
//! | `lfu` | references since admission |
//! | `lru-2` | time of the last reference but one; those without one before all others, by the time of the last |
//! | `lrfu` | log2 of the combined recency and frequency F = Σ 2^(-λ age), extrapolated to time 0, λ = 0.001 |

use super::Status;
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller};

const ABSENT: u32 = u32::MAX;
const HAS_TWO: u64 = 1 << 63;
const LAMBDA: f64 = 0.001;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Lru,
    Lfu,
    Lru2,
    Lrfu,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    rank: u64,
    /// When the page was referenced last, kept while it is a ghost; 0: unknown.
    used: u64,
    position: u32,
}

/// The resident other pages.
#[derive(Debug)]
pub(super) struct Others {
    /// H0. Under LRU the pages, the one used last at the front, and nothing below.
    recency: List,
    /// H1. `heap[entries[page].position]` is the page if it is resident here, else `position` is `ABSENT`.
    /// H2. No page ranks below the one at half its position.
    heap: Vec<u32>,
    entries: Vec<Entry>,
    refused: Vec<u32>,
    rule: Rule,
}

impl Others {
    pub(super) fn new(pages: u32, capacity: u32, rule: &str) -> Self {
        let rule = match rule {
            "lfu" => Rule::Lfu,
            "lru-2" => Rule::Lru2,
            "lrfu" => Rule::Lrfu,
            _ => Rule::Lru,
        };
        let most = if rule == Rule::Lru { 0 } else { capacity as usize };
        let (heap, entries, refused) = (Vec::with_capacity(most), Vec::new(), Vec::new());
        let mut others = Self { recency: List::new(), heap, entries, refused, rule };
        others.reserve(pages);
        others
    }

    pub(super) fn reserve(&mut self, pages: u32) {
        if self.rule != Rule::Lru && pages as usize > self.entries.len() {
            self.entries.reserve_exact(pages as usize - self.entries.len());
            self.entries.resize(pages as usize, Entry { rank: 0, used: 0, position: ABSENT });
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.recency.len() + self.heap.len() as u32
    }

    pub(super) fn pages<'a>(&'a self, nodes: &'a Nodes<Status>) -> impl Iterator<Item = u32> + 'a {
        self.recency.front_to_back(nodes).chain(self.heap.iter().copied())
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + (self.heap.capacity() + self.refused.capacity()) * size_of::<u32>()
    }

    /// A page is referenced: it comes here if it is not here yet. `now` is above 0.
    pub(super) fn refer(&mut self, nodes: &mut Nodes<Status>, page: u32, now: u64) {
        if self.rule == Rule::Lru {
            if nodes.is_linked(page) {
                self.recency.move_to_front(nodes, page);
            } else {
                self.recency.push_front(nodes, page);
            }
            return;
        }
        let Entry { rank, used, position } = self.entries[page as usize];
        let resident = position != ABSENT;
        let rank = match self.rule {
            Rule::Lru => unreachable!("LRU has no ranks"),
            Rule::Lfu => {
                if resident {
                    rank + 1
                } else {
                    1
                }
            }
            Rule::Lru2 if used > 0 => HAS_TWO | used,
            Rule::Lru2 => now,
            Rule::Lrfu => {
                let aged = if resident { (f64::from_bits(rank) - LAMBDA * now as f64).exp2() } else { 0.0 };
                // Not negative, so the bits sort as the numbers do.
                (LAMBDA * now as f64 + (1.0 + aged).log2()).to_bits()
            }
        };
        let position = if resident { position } else { self.heap.len() as u32 };
        if !resident {
            self.heap.push(page);
        }
        self.entries[page as usize] = Entry { rank, used: now, position };
        self.settle(position as usize);
    }

    pub(super) fn remove(&mut self, nodes: &mut Nodes<Status>, page: u32) {
        if self.rule == Rule::Lru {
            self.recency.remove(nodes, page);
        } else {
            self.take_out(page);
        }
    }

    fn take_out(&mut self, page: u32) {
        let position = std::mem::replace(&mut self.entries[page as usize].position, ABSENT) as usize;
        let moved = self.heap.pop().expect("the page is in the heap");
        if moved != page {
            self.heap[position] = moved;
            self.entries[moved as usize].position = position as u32;
            self.settle(position);
        }
    }

    /// Nothing is to be known of the page any more.
    pub(super) fn forget(&mut self, page: u32) {
        if self.rule != Rule::Lru {
            self.entries[page as usize].used = 0;
        }
    }

    /// Offers the pages in the order of their ranks, and takes out the one that the caller accepts.
    pub(super) fn evict<C: Caller>(&mut self, nodes: &mut Nodes<Status>, caller: &mut C) -> Result<u32, AllRefused> {
        if self.rule == Rule::Lru {
            let victim = offer(self.recency.back_to_front(nodes), caller)?;
            self.recency.remove(nodes, victim);
            return Ok(victim);
        }
        let mut victim = Err(AllRefused);
        while let Some(&page) = self.heap.first() {
            self.take_out(page);
            if caller.evict(page) {
                victim = Ok(page);
                break;
            }
            self.refused.push(page);
        }
        while let Some(page) = self.refused.pop() {
            let position = self.heap.len();
            self.heap.push(page);
            self.entries[page as usize].position = position as u32;
            self.settle(position);
        }
        victim
    }

    fn rank(&self, position: usize) -> (u64, u64, u32) {
        let page = self.heap[position];
        let Entry { rank, used, .. } = self.entries[page as usize];
        (rank, used, page)
    }

    /// Moves the page at a position up or down to where its rank belongs.
    fn settle(&mut self, mut at: usize) {
        while at > 0 && self.rank(at) < self.rank((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|&child| child < self.heap.len());
            match children.min_by_key(|&child| self.rank(child)) {
                Some(child) if self.rank(child) < self.rank(at) => {
                    self.swap(at, child);
                    at = child;
                }
                _ => return,
            }
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for position in [a, b] {
            self.entries[self.heap[position] as usize].position = position as u32;
        }
    }

    pub(super) fn check(&self, nodes: &Nodes<Status>) {
        self.recency.check(nodes);
        assert!(if self.rule == Rule::Lru { self.heap.is_empty() } else { self.recency.is_empty() }); // H0
        for position in 0..self.heap.len() {
            assert_eq!(self.entries[self.heap[position] as usize].position as usize, position); // H1
            assert!(position == 0 || self.rank((position - 1) / 2) <= self.rank(position)); // H2
        }
        assert_eq!(self.entries.iter().filter(|entry| entry.position != ABSENT).count(), self.heap.len()); // H1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refuses(Vec<u32>);

    impl Caller for Refuses {
        fn evict(&mut self, page: u32) -> bool {
            !self.0.contains(&page)
        }

        fn forget(&mut self, _: u32) {}
    }

    /// The order in which the pages leave that were referenced so.
    fn order(rule: &str, references: &[u32]) -> Vec<u32> {
        let mut nodes = Nodes::new(10);
        let mut others = Others::new(10, 4, rule);
        for (now, &page) in references.iter().enumerate() {
            others.refer(&mut nodes, page, now as u64 + 1);
        }
        others.check(&nodes);
        (0..others.len()).map(|_| others.evict(&mut nodes, &mut Refuses(vec![])).unwrap()).collect()
    }

    #[test]
    fn each_rule_has_its_order() {
        let references = [3, 1, 1, 1, 2, 3, 2, 0];
        assert_eq!(order("lru", &references), [1, 3, 2, 0]);
        assert_eq!(order("lfu", &references), [0, 3, 2, 1]);
        assert_eq!(order("lru-2", &references), [0, 3, 1, 2]);
        // With little ageing as frequency, between equals as recency.
        assert_eq!(order("lrfu", &references), [0, 3, 2, 1]);
    }

    #[test]
    fn refused_pages_keep_their_order() {
        for rule in ["lru", "lfu"] {
            let mut nodes = Nodes::new(10);
            let mut others = Others::new(10, 4, rule);
            for page in 0..4 {
                others.refer(&mut nodes, page, u64::from(page) + 1);
            }
            assert_eq!(others.evict(&mut nodes, &mut Refuses(vec![0, 1])), Ok(2));
            assert_eq!(others.evict(&mut nodes, &mut Refuses(vec![0, 1, 3])), Err(AllRefused));
            others.check(&nodes);
            assert_eq!([(); 3].map(|()| others.evict(&mut nodes, &mut Refuses(vec![])).unwrap()), [0, 1, 3]);
        }
    }
}
