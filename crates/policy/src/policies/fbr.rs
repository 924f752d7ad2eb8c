//! FBR: an LRU stack in which uses close together count once, and the page used least often among the old ones is the
//! victim.
//!
//! J. T. Robinson and M. V. Devarakonda, "Data Cache Management Using Frequency-Based Replacement", SIGMETRICS 1990.
//!
//! The LRU stack has three sections. A hit moves its page to the top; only a hit outside the *new* section raises the
//! page's count, so that a burst of uses ("factoring out locality") counts once. The victim is the page with the
//! lowest count in the *old* section, the least recently used among equals. The *middle* section between them gives a
//! page time to be used again before it may be evicted on a low count.
//!
//! ```text
//!   sections     new  p p p p | middle  p p p | old  p p p p p p p       most to least recently used
//!   chains       count 1: p p p p     count 2: p p     …     count C_max: p       each most to least recently used
//! ```
//!
//! The authors' constant time: a pointer at each boundary (here, a list for each section), and an LRU chain for each
//! count up to C_max. If a chain has an old page, its least recently used one is old, so a look at the end of each
//! chain finds the victim; when no old page has a count within C_max, the least recently used page goes. Once the
//! average count exceeds A_max, every count C becomes C/2, rounded up; the chains are then made anew, which costs no
//! more than a few steps for each of the hits that raised the average.
//!
//! Refused victims keep their place. After the old pages come the others, the least recently used first.
//!
//! Decided here: the old section has at least one page, and the new one takes what room it leaves. Sections are
//! filled from the top, so a page taken out by `remove` leaves its section one short until the next admission. Counts
//! are forgotten with the page, or kept with `history`, as MQ's authors gave it to FBR for fairness: the last pages evicted are
//! ghosts with their counts, FIFO, which do not age, and one that comes back goes on from its count. Counting and ageing stop at nothing
//! but A_max; a count above C_max is still part of
//! the average. Defaults: the sections of 25 % and 60 % are as commonly quoted for the authors and for the study of
//! D. L. Willick, D. L. Eager and R. B. Bunt (ICDCS 1993); which of them chose them we could not check, nor their
//! C_max and A_max. Ours are those with the best hit ratios on cpp, sprite, multi1 and OLTP together: A_max of 4 (3
//! and 5 are near it; 30 loses 11 points on sprite with 100 pages). C_max hardly matters: 3, 10 and 30 differ by 1.6
//! points at most, at an A_max of 10.
//!
//! Reference figures: none outside; tested against a plain model, equal to LRU with `new=1:old=0` and to LFU with
//! `new=0:old=1` and no ageing. Parameters: `new`, `old`, `c-max`, `a-max`, `history`. Memory: 24 bytes a page (two links and
//! the section, two links and the count), and 12 bytes a chain.

use crate::drawing::{Drawing, Drawn, ENTRY, RECENCY};
use crate::parameters::{Kind, Parameter, Settings};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Section {
    #[default]
    New,
    Middle,
    Old,
    Ghost,
}
use Section::{Ghost, Middle, New, Old};

/// Frequency-based replacement.
#[derive(Debug)]
pub struct Fbr {
    /// B1. A resident page is in the list of the section that its value names; each list is in the order of last use.
    /// A ghost is in `ghosts`.
    stack: Nodes<Section>,
    /// B5. At most `history` times the capacity, the one evicted last at the front.
    ghosts: List,
    sections: [List; 3],
    /// B2. A resident page's value is its count; if that is C_max or less, the page is in the chain of that count,
    /// which is in the order of last use.
    counts: Nodes<u32>,
    /// The chain of count 1 is at 0; there are C_max.
    chains: Vec<List>,
    /// B3. The sum of the resident pages' counts, no more than A_max for each.
    sum: u64,
    a_max: f64,
    capacity: u32,
    /// B4. The most pages of the new and the middle section: together less than the capacity.
    most: [u32; 2],
    /// The shares of the new and the old section.
    shares: [f64; 2],
    history: u32,
}

impl Policy for Fbr {
    const INFO: Info = Info {
        name: "fbr",
        title: "frequency-based replacement: counts within an LRU stack",
        paper: "J. T. Robinson and M. V. Devarakonda, Data Cache Management Using Frequency-Based Replacement, SIGMETRICS 1990",
        parameters: &[
            Parameter {
                name: "new",
                help: "the share of the new section, where hits are not counted",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.25",
            },
            Parameter {
                name: "old",
                help: "the share of the old section, where victims are chosen; at least one page",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.6",
            },
            Parameter {
                name: "c-max",
                help: "the highest count that distinguishes old pages",
                kind: Kind::Integer { least: 1, most: 1000 },
                default: "10",
            },
            Parameter {
                name: "a-max",
                help: "halve all counts once their average exceeds this",
                kind: Kind::Real { least: 2.0, most: 1e6 },
                default: "4",
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
        bytes_per_page: 25,
        history: Some("history"),
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let mut fbr = Self {
            stack: Nodes::new(setup.pages),
            ghosts: List::new(),
            sections: [List::new(); 3],
            counts: Nodes::new(setup.pages),
            chains: vec![List::new(); setup.settings.integer("c-max") as usize],
            sum: 0,
            a_max: setup.settings.real("a-max"),
            capacity: setup.capacity,
            most: [0; 2],
            shares: [setup.settings.real("new"), setup.settings.real("old")],
            history: setup.settings.integer("history") as u32,
        };
        fbr.divide();
        fbr
    }

    fn check_settings(settings: &Settings) -> Result<(), String> {
        let [new, old] = ["new", "old"].map(|name| settings.real(name));
        match new + old <= 1.0 + f64::EPSILON {
            true => Ok(()),
            false => Err(format!("new={new} and old={old} are together more than the whole stack, 1")),
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.sections.iter().map(List::len).sum()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.stack.is_linked(page) && self.stack[page] != Ghost
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.stack.prefetch_value(page);
        self.stack.prefetch_links(page);
        self.counts.prefetch_value(page);
        self.counts.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        let section = self.stack[page];
        self.leave(page);
        let counted = u32::from(section != New && self.counts[page] < u32::MAX);
        self.enter(page, self.counts[page] + counted);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let page = reference.page;
        let mut count = 1;
        if self.stack.is_linked(page) {
            self.ghosts.remove(&mut self.stack, page);
            count = self.counts[page].saturating_add(1);
        }
        self.enter(page, count);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let is_old = |&page: &u32| self.stack[page] == Old;
        let by_count = self.chains.iter().flat_map(|chain| chain.back_to_front(&self.counts).take_while(is_old));
        let others = self.by_recency().filter(|page| !is_old(page) || self.chain(*page).is_none());
        let victim = offer(by_count.chain(others), caller)?;
        self.leave(victim);
        self.age();
        self.stack[victim] = Ghost;
        self.ghosts.push_front(&mut self.stack, victim);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.leave(page);
            self.age();
        } else if self.stack.is_linked(page) {
            self.ghosts.remove(&mut self.stack, page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.divide();
        self.settle();
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.stack.reserve(pages);
        self.counts.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        for (name, section) in ["new", "middle", "old"].into_iter().zip(&self.sections) {
            show(name, f64::from(section.len()));
        }
        show("average count", if self.is_empty() { 0.0 } else { self.sum as f64 / f64::from(self.len()) });
    }

    fn draw(&self, drawing: &mut Drawing) {
        for (name, section) in ["new section", "middle section", "old section"].into_iter().zip(&self.sections) {
            let drawn = |page| Drawn::resident(page).number("count", self.counts[page]);
            drawing.row(name, RECENCY, section.front_to_back(&self.stack).map(drawn));
        }
        if self.history > 0 {
            let drawn = |page| Drawn::ghost(page).number("count", self.counts[page]);
            drawing.row("history", ENTRY, self.ghosts.front_to_back(&self.stack).map(drawn));
        }
    }

    fn bytes(&self) -> usize {
        self.stack.bytes() + self.counts.bytes() + self.chains.capacity() * size_of::<List>()
    }

    fn check_invariants(&self) {
        for section in [New, Middle, Old] {
            let list = &self.sections[section as usize];
            list.check(&self.stack);
            assert!(list.back_to_front(&self.stack).all(|page| self.stack[page] == section)); // B1
        }
        for (below, chain) in self.chains.iter().enumerate() {
            chain.check(&self.counts);
            let of_count = self.by_recency().filter(|&page| self.counts[page] as usize == below + 1);
            assert!(chain.back_to_front(&self.counts).eq(of_count)); // B2
        }
        assert_eq!(self.sum, self.by_recency().map(|page| u64::from(self.counts[page])).sum::<u64>()); // B3
        assert!(self.sum as f64 <= self.a_max * f64::from(self.len()).max(1.0)); // B3
        assert!(self.sections.iter().zip(self.most).all(|(list, most)| list.len() <= most)); // B4
        self.ghosts.check(&self.stack);
        assert!(self.ghosts.back_to_front(&self.stack).all(|page| self.stack[page] == Ghost)); // B1
        assert!(u64::from(self.ghosts.len()) <= u64::from(self.history) * u64::from(self.capacity)); // B5
        assert!(self.len() <= self.capacity && self.most.iter().sum::<u32>() < self.capacity); // B4
    }
}

impl Fbr {
    /// The stack, the least recently used page first.
    fn by_recency(&self) -> impl Iterator<Item = u32> {
        self.sections.iter().rev().flat_map(|list| list.back_to_front(&self.stack))
    }

    /// The chain of the page's count, if that is C_max or less.
    fn chain(&self, page: u32) -> Option<usize> {
        let index = self.counts[page] as usize - 1;
        (index < self.chains.len()).then_some(index)
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while u64::from(self.ghosts.len()) > u64::from(self.history) * u64::from(self.capacity) {
            let page = self.ghosts.back().expect("there are ghosts");
            self.ghosts.remove(&mut self.stack, page);
            caller.forget(page);
        }
    }

    /// Shares the capacity out.
    fn divide(&mut self) {
        let [new, old] = self.shares.map(|share| (share * f64::from(self.capacity)) as u32);
        let rest = self.capacity - old.max(1);
        let new = new.min(rest);
        self.most = [new, rest - new];
    }

    /// Puts a page on top of the stack.
    fn enter(&mut self, page: u32, count: u32) {
        self.stack[page] = New;
        self.sections[New as usize].push_front(&mut self.stack, page);
        self.settle();
        self.counts[page] = count;
        if let Some(chain) = self.chain(page) {
            self.chains[chain].push_front(&mut self.counts, page);
        }
        self.sum += u64::from(count);
        self.age();
    }

    fn leave(&mut self, page: u32) {
        self.sections[self.stack[page] as usize].remove(&mut self.stack, page);
        if let Some(chain) = self.chain(page) {
            self.chains[chain].remove(&mut self.counts, page);
        }
        self.sum -= u64::from(self.counts[page]);
    }

    /// Lets pages that are too many for a section sink into the next.
    fn settle(&mut self) {
        for (section, next) in [(New, Middle), (Middle, Old)] {
            while self.sections[section as usize].len() > self.most[section as usize] {
                let page = self.sections[section as usize].back().expect("the section is not empty");
                self.sections[section as usize].remove(&mut self.stack, page);
                self.sections[next as usize].push_front(&mut self.stack, page);
                self.stack[page] = next;
            }
        }
    }

    /// Halves all counts, and makes the chains anew in the order of the stack, while the average exceeds A_max. From
    /// A_max of 2 on, that takes the average down by a quarter and more.
    fn age(&mut self) {
        while !self.is_empty() && self.sum as f64 > self.a_max * f64::from(self.len()) {
            self.sum = 0;
            for section in [Old, Middle, New] {
                let mut next = self.sections[section as usize].back();
                while let Some(page) = next {
                    next = self.stack.towards_front(page);
                    let chain = self.chain(page);
                    if let Some(chain) = chain {
                        self.chains[chain].remove(&mut self.counts, page);
                    }
                    self.counts[page] = self.counts[page].div_ceil(2);
                    self.sum += u64::from(self.counts[page]);
                    if let Some(chain) = self.chain(page) {
                        self.chains[chain].push_front(&mut self.counts, page);
                    }
                }
            }
        }
    }
}
