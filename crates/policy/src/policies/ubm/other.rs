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
    /// By `clock`, when the page was referenced last, kept while it is a ghost; 0: unknown.
    used: u32,
    position: u32,
}

/// The resident other pages.
#[derive(Debug)]
pub(super) struct Others {
    /// UO0. Under LRU the pages, the one used last at the front, and nothing below.
    recency: List,
    /// UO1. `heap[entries[page].position]` is the page if it is resident here, else `position` is `ABSENT`.
    /// UO2. No page ranks below the one at half its position.
    heap: Vec<u32>,
    entries: Vec<Entry>,
    /// References to other pages so far, counted anew when 32 bits do not hold them. UO3. No entry's time is above it.
    clock: u32,
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
        let mut others = Self { recency: List::new(), heap: Vec::new(), entries: Vec::new(), clock: 0, rule };
        others.reserve(pages, capacity);
        others
    }

    pub(super) fn reserve(&mut self, pages: u32, capacity: u32) {
        if self.rule == Rule::Lru {
            return;
        }
        self.heap.reserve_exact((pages.min(capacity) as usize).saturating_sub(self.heap.len()));
        if pages as usize > self.entries.len() {
            self.entries.reserve_exact(pages as usize - self.entries.len());
            self.entries.resize(pages as usize, Entry { rank: 0, used: 0, position: ABSENT });
        }
    }

    #[cfg(test)]
    pub(super) fn count_references_from(&mut self, number: u32) {
        self.clock = number;
    }

    pub(super) fn len(&self) -> u32 {
        self.recency.len() + self.heap.len() as u32
    }

    pub(super) fn pages<'a>(&'a self, nodes: &'a Nodes<Status>) -> impl Iterator<Item = u32> + 'a {
        self.recency.front_to_back(nodes).chain(self.heap.iter().copied())
    }

    /// The pages, the last one being the first to leave.
    pub(super) fn in_order(&self, nodes: &Nodes<Status>) -> Vec<u32> {
        let mut positions: Vec<usize> = (0..self.heap.len()).collect();
        positions.sort_unstable_by_key(|&position| std::cmp::Reverse(self.rank(position)));
        let by_rank = positions.into_iter().map(|position| self.heap[position]);
        self.recency.front_to_back(nodes).chain(by_rank).collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.heap.capacity() * size_of::<u32>()
    }

    /// A page is referenced: it comes here if it is not here yet.
    pub(super) fn refer(&mut self, nodes: &mut Nodes<Status>, page: u32, now: u64) {
        if self.rule == Rule::Lru {
            if nodes.is_linked(page) {
                self.recency.move_to_front(nodes, page);
            } else {
                self.recency.push_front(nodes, page);
            }
            return;
        }
        let time = self.tick();
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
            Rule::Lru2 if used > 0 => HAS_TWO | u64::from(used),
            Rule::Lru2 => u64::from(time),
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
        self.entries[page as usize] = Entry { rank, used: time, position };
        self.settle(position as usize);
    }

    fn tick(&mut self) -> u32 {
        if self.clock == u32::MAX {
            self.count_anew();
        }
        self.clock += 1;
        self.clock
    }

    /// Numbers all times from 1 again, in their order, which leaves that of the ranks as it is. 0 stays what it is.
    fn count_anew(&mut self) {
        let of_lru_2 = self.rule == Rule::Lru2;
        let times = |entry: &Entry| [entry.used, if of_lru_2 { entry.rank as u32 } else { 0 }];
        let mut known: Vec<u32> = self.entries.iter().flat_map(times).chain([0]).collect();
        known.sort_unstable();
        known.dedup();
        let anew = |time: u32| known.partition_point(|&other| other < time) as u32;
        for entry in &mut self.entries {
            entry.used = anew(entry.used);
            if of_lru_2 {
                entry.rank = entry.rank & HAS_TWO | u64::from(anew(entry.rank as u32));
            }
        }
        self.clock = known.len() as u32 - 1;
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
        // Refused pages wait behind the heap's active part, and are put back then.
        let mut active = self.heap.len();
        let mut victim = Err(AllRefused);
        while victim.is_err() && active > 0 {
            let page = self.heap[0];
            active -= 1;
            self.swap(0, active);
            self.sink(0, active);
            if caller.evict(page) {
                victim = Ok(page);
                self.entries[page as usize].position = ABSENT;
                self.heap.swap_remove(active);
                if let Some(&moved) = self.heap.get(active) {
                    self.entries[moved as usize].position = active as u32;
                }
            }
        }
        for position in active..self.heap.len() {
            self.rise(position);
        }
        victim
    }

    fn rank(&self, position: usize) -> (u64, u32, u32) {
        let page = self.heap[position];
        let Entry { rank, used, .. } = self.entries[page as usize];
        (rank, used, page)
    }

    /// Moves the page at a position up or down to where its rank belongs.
    fn settle(&mut self, at: usize) {
        let at = self.rise(at);
        self.sink(at, self.heap.len());
    }

    fn rise(&mut self, mut at: usize) -> usize {
        while at > 0 && self.rank(at) < self.rank((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        at
    }

    /// Down, no further than the heap's first `end` pages go.
    fn sink(&mut self, mut at: usize, end: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|&child| child < end);
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
        assert!(if self.rule == Rule::Lru { self.heap.is_empty() } else { self.recency.is_empty() }); // UO0
        for position in 0..self.heap.len() {
            assert_eq!(self.entries[self.heap[position] as usize].position as usize, position); // UO1
            assert!(position == 0 || self.rank((position - 1) / 2) <= self.rank(position)); // UO2
        }
        assert_eq!(self.entries.iter().filter(|entry| entry.position != ABSENT).count(), self.heap.len()); // UO1
        assert!(self.entries.iter().all(|entry| entry.used <= self.clock)); // UO3
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

    #[test]
    fn times_are_counted_anew_before_they_run_over() {
        let leaving_from = |clock: u32| {
            let mut nodes = Nodes::new(10);
            let mut others = Others::new(10, 4, "lru-2");
            others.count_references_from(clock);
            for (now, page) in [3, 1, 2, 1, 0].into_iter().enumerate() {
                others.refer(&mut nodes, page, now as u64 + 1);
                if now == 2 {
                    // It comes back with the time that it had.
                    assert_eq!(others.evict(&mut nodes, &mut Refuses(vec![])), Ok(3));
                }
            }
            others.refer(&mut nodes, 3, 6);
            others.check(&nodes);
            (others.clock, [(); 4].map(|()| others.evict(&mut nodes, &mut Refuses(vec![])).unwrap()))
        };
        assert_eq!(leaving_from(0), (6, [2, 0, 3, 1]));
        for clock in 1..=6 {
            assert_eq!(leaving_from(u32::MAX - clock).1, [2, 0, 3, 1], "{clock}");
        }
        assert!(leaving_from(u32::MAX - 3).0 < 10);
    }
}
