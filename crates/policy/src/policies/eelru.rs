//! EELRU: LRU, unless pages just evicted come back so often that some of the younger ones had better go early to let
//! the others stay.
//!
//! Y. Smaragdakis, S. Kaplan and P. Wilson, "EELRU: Simple and Effective Adaptive Page Replacement", SIGMETRICS 1999;
//! "The EELRU Adaptive Replacement Algorithm", Performance Evaluation 53(2), 2003.
//!
//! The LRU queue goes on beyond the memory's M pages, with pages that are no longer resident, up to 2.5 M. For an
//! early point e < M and a late one l > M, early eviction takes the page at e, unless the least recently used
//! resident page is beyond l: then that one. Pages between e and l are then resident with a probability of (M - e) /
//! (l - e), and so are as many of the references to them hits; LRU has those up to M. So with `total` references from
//! e to l, of which `early` up to M, the benefit of early eviction is `total (M - e) / (l - e) - early`. At each
//! eviction the pair with the greatest benefit is taken, and LRU when none is above zero.
//!
//! ```text
//!   used last  r r r | r r r | r r r r | r - r - r | - r - r - - | - - r - - -   r r     r resident, - ghost
//!                    e_1     e_2       M          l_1          l_2 = 2.5 M     beyond: resident pages alone
//! ```
//!
//! The possible points cut the queue into segments, each a list. A reference moves its page to the front, and one
//! page sinks across each boundary before its old place: so every page's segment is known without a search, and a
//! reference costs at most a step a segment, an eviction one a pair of points.
//!
//! From the paper: the queue and its length, early and late eviction, the cost-benefit rule, several pairs of points
//! of which the best is taken, and counts that favour the recent past. Decided here: early points at 1/32, 1/16, 1/8,
//! 1/4, 1/2, 3/4 of M, late ones at 9/8, 5/4, 3/2, 7/4, 2, 5/2 (few, and closest where M - e and l - e matter most);
//! every count is halved after M references to pages behind the first early point, the only ones that bear on the
//! choice; where the page at e is no longer resident, the next resident one behind it goes.
//!
//! Refused victims keep their place: the pages behind e come next, then those before it; in LRU, the next ones
//! towards the front.
//!
//! Reference figures: none outside (the paper was not at hand: these are its rules as we know them, not checked
//! against its text); tested against a plain model, and on a loop that the queue covers within 5 % of OPT. A loop
//! longer than 2.5 M it cannot see: there it is LRU. Parameters: none. Memory: 20 bytes a page (two links and the
//! segment, two links among resident pages), and 40 bytes for each of at most 15 lists.

use crate::drawing::{Drawing, Drawn, RECENCY};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// The early points, the memory and the late points, in 1/32 of the memory.
const POINTS: [u64; 13] = [1, 2, 4, 8, 16, 24, 32, 36, 40, 48, 56, 64, 80];

/// Part of the queue.
#[derive(Debug)]
struct Segment {
    /// Its last position in the queue.
    end: u32,
    pages: List,
    resident: List,
    /// References to its pages, halved from time to time.
    references: u64,
}

/// Early eviction LRU.
#[derive(Debug)]
pub struct Eelru {
    /// EE1. A page that is known is in `pages` of the segment that its value names, the most recently used at the
    /// front.
    nodes: Nodes<u8>,
    /// EE2. A resident page is also in that segment's `resident`, in the same order.
    resident_nodes: Nodes<()>,
    /// EE3. The segments of the queue, none with more pages than its place; then the one beyond the queue, of resident
    /// pages alone; then one of ghosts that a hit has pushed out of the queue and that wait to be forgotten.
    segments: Vec<Segment>,
    /// The segment that ends with the memory, and the one beyond the queue.
    memory: usize,
    beyond: usize,
    /// References counted since the counts were halved.
    counted: u32,
    /// EE4. The resident pages and the ghosts; the latter stay within 2.5 times the capacity.
    len: u32,
    ghosts: u32,
    capacity: u32,
}

impl Policy for Eelru {
    const INFO: Info = Info {
        name: "eelru",
        title: "EELRU: LRU with early eviction where that pays",
        paper: "Y. Smaragdakis, S. Kaplan and P. Wilson, EELRU: Simple and Effective Adaptive Page Replacement, SIGMETRICS 1999",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 3,
        bytes_per_page: 21,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let mut eelru = Self {
            nodes: Nodes::new(setup.pages),
            resident_nodes: Nodes::new(setup.pages),
            segments: Vec::with_capacity(POINTS.len() + 2),
            memory: 0,
            beyond: 0,
            counted: 0,
            len: 0,
            ghosts: 0,
            capacity: setup.capacity,
        };
        eelru.divide();
        eelru
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn ghosts(&self) -> u32 {
        self.ghosts
    }

    fn contains(&self, page: u32) -> bool {
        self.resident_nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
        self.resident_nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        self.count(page);
        self.leave(page);
        self.enter(page, true);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        if self.nodes.is_linked(page) {
            self.count(page);
        }
        if self.len == self.capacity {
            self.make_room(caller)?;
        }
        if self.nodes.is_linked(page) {
            self.leave(page);
        }
        self.enter(page, true);
        self.forget_pushed_out(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.make_room(caller)?;
        self.forget_pushed_out(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.leave(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        let oldest_first = self.segments.iter().rev().flat_map(|segment| segment.pages.back_to_front(&self.nodes));
        let pages: Vec<(u32, bool)> = oldest_first.map(|page| (page, self.contains(page))).collect();
        for &(page, _) in &pages {
            self.leave(page);
        }
        self.capacity = capacity;
        self.divide();
        for (page, resident) in pages {
            self.enter(page, resident);
        }
        self.forget_pushed_out(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
        self.resident_nodes.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let (early, late) = self.best_points().map_or((self.capacity, self.capacity), |(early, late)| {
            (self.segments[early].end, self.segments[late].end)
        });
        show("early point", f64::from(early));
        show("late point", f64::from(late));
        show("ghosts", f64::from(self.ghosts));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let drawn = |page| if self.contains(page) { Drawn::resident(page) } else { Drawn::ghost(page) };
        let pages = |of: &[Segment]| {
            of.iter().flat_map(|of| of.pages.front_to_back(&self.nodes)).map(drawn).collect::<Vec<_>>()
        };
        let (queue, pushed_out) = self.segments.split_at(self.beyond + 1);
        drawing.row("queue", RECENCY, pages(queue));
        drawing.row("pushed-out ghosts", RECENCY, pages(pushed_out));
        if let Some((early, late)) = self.best_points() {
            drawing.number("early point", self.segments[early].end);
            drawing.number("late point", self.segments[late].end);
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.resident_nodes.bytes() + self.segments.capacity() * size_of::<Segment>()
    }

    fn check_invariants(&self) {
        let (mut known, mut len, mut before) = (0, 0, 0);
        for (index, segment) in self.segments.iter().enumerate() {
            segment.pages.check(&self.nodes);
            segment.resident.check(&self.resident_nodes);
            assert!(segment.pages.front_to_back(&self.nodes).all(|page| self.nodes[page] as usize == index)); // EE1
            let resident = segment.pages.front_to_back(&self.nodes).filter(|&page| self.contains(page));
            assert!(segment.resident.front_to_back(&self.resident_nodes).eq(resident)); // EE2
            let most = match index.checked_sub(self.beyond) {
                None => segment.end - before,
                Some(0) => segment.resident.len(),
                Some(_) => segment.pages.len() - segment.resident.len(),
            };
            assert!(segment.pages.len() <= most); // EE3
            before = segment.end;
            known += segment.pages.len();
            len += segment.resident.len();
        }
        assert_eq!((len, known - len), (self.len, self.ghosts)); // EE4
        assert!(len <= self.capacity && 2 * u64::from(self.ghosts) <= 5 * u64::from(self.capacity)); // EE4
        assert_eq!(self.segments[self.memory].end, self.capacity);
    }
}

impl Eelru {
    /// Evicts by the better of LRU and early eviction. What waits to be forgotten still waits: a miss of such a page
    /// takes it back first.
    fn make_room<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let least_recent = self.segments.iter().rposition(|segment| !segment.resident.is_empty());
        let points = self.best_points().filter(|&(_, late)| least_recent.is_some_and(|segment| segment <= late));
        let victim = match points {
            Some((early, _)) => offer(self.starting_at(early), caller)?,
            None => offer(
                self.segments.iter().rev().flat_map(|of| of.resident.back_to_front(&self.resident_nodes)),
                caller,
            )?,
        };
        let segment = self.nodes[victim] as usize;
        if segment == self.beyond {
            self.leave(victim);
            caller.forget(victim);
        } else {
            self.segments[segment].resident.remove(&mut self.resident_nodes, victim);
            self.len -= 1;
            self.ghosts += 1;
        }
        Ok(())
    }

    /// Cuts an empty queue into segments. A small memory has fewer: points that fall together are one.
    fn divide(&mut self) {
        self.segments.clear();
        let segment = |end| Segment { end, pages: List::new(), resident: List::new(), references: 0 };
        let mut last = 0;
        for point in POINTS {
            let end = (u64::from(self.capacity) * point / 32).min(u64::from(u32::MAX)) as u32;
            if end > last {
                self.segments.push(segment(end));
                last = end;
            }
        }
        self.memory = self.segments.iter().position(|segment| segment.end == self.capacity).expect("1 is a point");
        self.beyond = self.segments.len();
        self.segments.extend([segment(u32::MAX), segment(u32::MAX)]);
        self.counted = 0;
    }

    /// The most pages of a segment of the queue.
    fn width(&self, segment: usize) -> u32 {
        self.segments[segment].end - if segment == 0 { 0 } else { self.segments[segment - 1].end }
    }

    /// Counts a reference to a page of the queue behind the first early point.
    fn count(&mut self, page: u32) {
        let segment = self.nodes[page] as usize;
        if segment == 0 || segment >= self.beyond {
            return;
        }
        self.segments[segment].references += 1;
        self.counted += 1;
        if self.counted == self.capacity {
            self.counted = 0;
            for segment in &mut self.segments {
                segment.references /= 2;
            }
        }
    }

    /// The segments that end at the early and the late point with the greatest benefit, if that is above zero.
    fn best_points(&self) -> Option<(usize, usize)> {
        let (mut best, mut greatest) = (None, 0.0);
        for e in 0..self.memory {
            let early: u64 = self.segments[e + 1..=self.memory].iter().map(|segment| segment.references).sum();
            let mut total = early;
            for l in self.memory + 1..self.beyond {
                total += self.segments[l].references;
                let [kept, of] =
                    [self.memory, l].map(|point| f64::from(self.segments[point].end - self.segments[e].end));
                let benefit = total as f64 * kept / of - early as f64;
                if benefit > greatest {
                    (best, greatest) = (Some((e, l)), benefit);
                }
            }
        }
        best
    }

    /// The resident pages: the one at the early point, those behind it from there on, then those before it from there
    /// on.
    fn starting_at(&self, early: usize) -> impl Iterator<Item = u32> {
        let at_point = self.segments[early].pages.back().filter(|&page| self.contains(page));
        let (before, behind) = self.segments.split_at(early + 1);
        let behind = behind.iter().flat_map(|segment| segment.resident.front_to_back(&self.resident_nodes));
        let before = before.iter().rev().flat_map(|segment| segment.resident.back_to_front(&self.resident_nodes));
        at_point.into_iter().chain(behind).chain(before.filter(move |&page| Some(page) != at_point))
    }

    /// Puts a page at the front of the queue, and lets one page sink across each boundary up to the first segment
    /// with room.
    fn enter(&mut self, page: u32, resident: bool) {
        self.push(page, 0, resident);
        let mut segment = 0;
        while segment < self.beyond && self.segments[segment].pages.len() > self.width(segment) {
            let page = self.segments[segment].pages.back().expect("the segment is not empty");
            let resident = self.contains(page);
            self.leave(page);
            segment += 1;
            self.push(page, if segment == self.beyond && !resident { segment + 1 } else { segment }, resident);
        }
    }

    fn push(&mut self, page: u32, segment: usize, resident: bool) {
        self.nodes[page] = segment as u8;
        self.segments[segment].pages.push_front(&mut self.nodes, page);
        if resident {
            self.segments[segment].resident.push_front(&mut self.resident_nodes, page);
            self.len += 1;
        } else {
            self.ghosts += 1;
        }
    }

    fn leave(&mut self, page: u32) {
        let segment = &mut self.segments[self.nodes[page] as usize];
        segment.pages.remove(&mut self.nodes, page);
        if self.resident_nodes.is_linked(page) {
            segment.resident.remove(&mut self.resident_nodes, page);
            self.len -= 1;
        } else {
            self.ghosts -= 1;
        }
    }

    fn forget_pushed_out<C: Caller>(&mut self, caller: &mut C) {
        while let Some(page) = self.segments[self.beyond + 1].pages.back() {
            self.leave(page);
            caller.forget(page);
        }
    }
}
