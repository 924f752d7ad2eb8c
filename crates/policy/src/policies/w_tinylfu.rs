//! W-TinyLFU: a page enters the main cache only if it is used more often than the page that it would push out.
//!
//! G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions on
//! Storage 13(4), 2017; the main cache after Caffeine, the third author's library. The window that adapts: G. Einziger,
//! O. Eytan, R. Friedman and B. Manes, "Adaptive Software Cache Management", Middleware 2018.
//!
//! ```text
//!   new page --> window (LRU, 1 %) --candidate--> TinyLFU --> main (segmented LRU): probation <--> protected (80 %)
//!                                                    |                                  |
//!                                                    '-- the one used less is evicted --' victim
//! ```
//!
//! The least recent page of the window is the candidate, the least recent one of probation the victim. The candidate
//! goes on to probation if its estimated frequency is higher, and is evicted otherwise. A page used in probation
//! becomes protected, and the least recent protected one falls back if there are too many.
//!
//! Frequencies are estimated for all pages, resident or not, by a count-min sketch: four counters of 4 bits for a page,
//! chosen by hashes, of which the lowest is believed. After 10 references for each page of the cache all counters are
//! halved, the paper's *reset*.
//!
//! `adaptive=on` lets the window climb the hill of the hit ratio: after 10 references for each page of the cache it
//! goes on in the same direction if the ratio has not fallen, and turns round if it has. Its steps start at 1/16 of the
//! cache and shrink by 2 % each, until the ratio changes by 5 points. A larger window fills with the pages missed next;
//! what a smaller one has too many goes to probation.
//!
//! What differs from the sources:
//!
//! - Pages are hashed by their place, not by their number, which stands for another page once it has been forgotten.
//!   This is the one policy that hashes: its estimate is of pages that nothing else remembers.
//! - As in Caffeine, no doorkeeper, and every counter of a page is raised, not the lowest alone.
//! - Caffeine admits one candidate in 128 against its estimate, as a defence against hostile keys: not here.
//! - Caffeine's climber begins by shrinking the window. From 1 % there is nowhere to go: here it begins by growing it.
//!
//! Refused victims: the other of the two is offered, then probation, the protected pages and the window, least recent
//! first.
//!
//! Reference figures: none outside; tested against a plain model. Parameters: `window`, `adaptive`.
//! Memory: 16 bytes a page (two links, hash, segment), and the sketch: 8 bytes a page of the cache, rounded up to a
//! power of two.

use crate::drawing::{Drawing, Drawn, RECENCY};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use forebay_basis::Place;

/// References for each page of the cache between two resets of the sketch, and between two steps of the climber.
const SAMPLE: u64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Segment {
    #[default]
    None,
    Window,
    Probation,
    Protected,
}

#[derive(Clone, Copy, Debug, Default)]
struct Status {
    /// Of the page's place.
    hash: u32,
    segment: Segment,
}

/// W-TinyLFU.
#[derive(Debug)]
pub struct WTinyLfu {
    /// W1. A page is in the list that its status names, most recently used at the front.
    nodes: Nodes<Status>,
    /// W2. No longer than `most_in_window`, which is between 1 and the capacity.
    window: List,
    probation: List,
    /// W3. No longer than four fifths of the main cache.
    protected: List,
    most_in_window: u32,
    sketch: Sketch,
    climber: Option<Climber>,
    share: f64,
    capacity: u32,
    pages: u32,
}

impl Policy for WTinyLfu {
    const INFO: Info = Info {
        name: "w-tinylfu",
        title: "W-TinyLFU: admission by estimated frequency",
        paper: "G. Einziger, R. Friedman and B. Manes, TinyLFU: A Highly Efficient Cache Admission Policy, ACM TOS 13(4), 2017",
        parameters: &[
            Parameter {
                name: "window",
                help: "share of the cache for the window",
                kind: Kind::Real { least: 0.0, most: 1.0 },
                default: "0.01",
            },
            Parameter {
                name: "adaptive",
                help: "adapt the window to the hit ratio",
                kind: Kind::Choice(&["off", "on"]),
                default: "off",
            },
        ],
        uses: Uses { place: true, ..Uses::PAGE },
        ghosts: 0,
        bytes_per_page: 32,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let Setup { capacity, pages, .. } = *setup;
        let share = setup.settings.real("window");
        let most_in_window = window(capacity, share);
        Self {
            nodes: Nodes::new(pages),
            window: List::new(),
            probation: List::new(),
            protected: List::new(),
            most_in_window,
            sketch: Sketch::new(capacity, pages),
            climber: (setup.settings.choice("adaptive") == "on").then(|| Climber::new(capacity, most_in_window)),
            share,
            capacity,
            pages,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.window.len() + self.probation.len() + self.protected.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        let Status { hash, segment } = self.nodes[page];
        self.sketch.increment(hash);
        match segment {
            Segment::Window => self.window.move_to_front(&mut self.nodes, page),
            _ => self.move_to(page, Segment::Protected),
        }
        self.limit_segments();
        self.climb(true);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let hash = hash(&reference.place);
        self.sketch.increment(hash);
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        self.nodes[reference.page] = Status { hash, segment: Segment::Window };
        self.window.push_front(&mut self.nodes, reference.page);
        self.limit_segments();
        self.climb(false);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let candidate = self.window.back().filter(|_| self.window.len() == self.most_in_window);
        let victim = self.probation.back().or(self.protected.back());
        let frequency = |page: Option<u32>| page.map(|page| self.sketch.frequency(self.nodes[page].hash));
        let pair = match frequency(candidate) > frequency(victim) {
            true => [victim, candidate],
            false => [candidate, victim],
        };
        let lists = [&self.probation, &self.protected, &self.window];
        let others = lists.into_iter().flat_map(|list| list.back_to_front(&self.nodes));
        let others = others.filter(|&page| !pair.contains(&Some(page)));
        let evicted = offer(pair.into_iter().flatten().chain(others), caller)?;
        self.leave(evicted);
        caller.forget(evicted);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.most_in_window = window(capacity, self.share);
        self.climber = self.climber.is_some().then(|| Climber::new(capacity, self.most_in_window));
        self.sketch.fit(capacity, self.pages);
        self.limit_segments();
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
        self.pages = self.pages.max(pages);
        self.sketch.fit(self.capacity, self.pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("window", f64::from(self.window.len()));
        show("window target", f64::from(self.most_in_window));
        show("probation", f64::from(self.probation.len()));
        show("protected", f64::from(self.protected.len()));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let frequency = |page: u32| self.sketch.frequency(self.nodes[page].hash) as f64;
        let drawn = |page| Drawn::resident(page).number("estimated frequency", frequency(page));
        for (name, list) in
            [("window", &self.window), ("probation segment", &self.probation), ("protected segment", &self.protected)]
        {
            drawing.row(name, RECENCY, list.front_to_back(&self.nodes).map(drawn));
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes() + self.sketch.words.capacity() * size_of::<u64>()
    }

    fn check_invariants(&self) {
        let lists = [&self.window, &self.probation, &self.protected];
        for (list, segment) in lists.into_iter().zip([Segment::Window, Segment::Probation, Segment::Protected]) {
            list.check(&self.nodes);
            assert!(list.back_to_front(&self.nodes).all(|page| self.nodes[page].segment == segment)); // W1
        }
        assert!((1..=self.capacity).contains(&self.most_in_window) && self.window.len() <= self.most_in_window); // W2
        assert!(self.protected.len() <= self.most_protected()); // W3
        assert!(self.len() <= self.capacity);
    }
}

/// The pages of a window with that share.
fn window(capacity: u32, share: f64) -> u32 {
    ((f64::from(capacity) * share).round() as u32).max(1)
}

impl WTinyLfu {
    fn most_protected(&self) -> u32 {
        (u64::from(self.capacity - self.most_in_window) * 4 / 5) as u32
    }

    fn leave(&mut self, page: u32) {
        match self.nodes[page].segment {
            Segment::None => {}
            Segment::Window => self.window.remove(&mut self.nodes, page),
            Segment::Probation => self.probation.remove(&mut self.nodes, page),
            Segment::Protected => self.protected.remove(&mut self.nodes, page),
        }
        self.nodes[page].segment = Segment::None;
    }

    /// To the front of a segment of the main cache.
    fn move_to(&mut self, page: u32, segment: Segment) {
        self.leave(page);
        self.nodes[page].segment = segment;
        let list = if segment == Segment::Protected { &mut self.protected } else { &mut self.probation };
        list.push_front(&mut self.nodes, page);
    }

    /// What the window and the protected pages have too many goes to probation.
    fn limit_segments(&mut self) {
        while self.window.len() > self.most_in_window {
            self.move_to(self.window.back().expect("the window is not empty"), Segment::Probation);
        }
        while self.protected.len() > self.most_protected() {
            self.move_to(self.protected.back().expect("there are protected pages"), Segment::Probation);
        }
    }

    fn climb(&mut self, hit: bool) {
        if let Some(window) = self.climber.as_mut().and_then(|climber| climber.count(hit, self.capacity)) {
            self.most_in_window = window;
            self.limit_segments();
        }
    }
}

/// Adapts the window.
#[derive(Debug)]
struct Climber {
    hits: u64,
    references: u64,
    last_ratio: f64,
    /// The pages of the window, and by how many they change next: small steps add up.
    window: f64,
    step: f64,
}

impl Climber {
    fn new(capacity: u32, window: u32) -> Self {
        Self { hits: 0, references: 0, last_ratio: 0.0, window: f64::from(window), step: f64::from(capacity) / 16.0 }
    }

    /// Counts a reference. At the end of a sample: how many pages the window may hold now, four fifths of the cache at
    /// most.
    fn count(&mut self, hit: bool, capacity: u32) -> Option<u32> {
        self.hits += u64::from(hit);
        self.references += 1;
        if self.references < SAMPLE * u64::from(capacity) {
            return None;
        }
        let ratio = self.hits as f64 / self.references as f64;
        let gain = ratio - self.last_ratio;
        let change = if gain >= 0.0 { self.step } else { -self.step };
        self.step = if gain.abs() >= 0.05 { f64::from(capacity) / 16.0 * change.signum() } else { change * 0.98 };
        (self.hits, self.references, self.last_ratio) = (0, 0, ratio);
        self.window = (self.window + change).clamp(1.0, (f64::from(capacity) * 0.8).max(1.0));
        Some(self.window.round() as u32)
    }
}

/// How often each page has been used lately, as an estimate that is never too low but for the halving.
#[derive(Debug)]
struct Sketch {
    /// 16 counters of 4 bits each; their number is a power of two.
    words: Vec<u64>,
    additions: u64,
    sample: u64,
}

impl Sketch {
    fn new(capacity: u32, pages: u32) -> Self {
        let mut sketch = Self { words: Vec::new(), additions: 0, sample: 0 };
        sketch.fit(capacity, pages);
        sketch
    }

    /// Makes room for the frequencies of a cache. A page's words in a sketch twice as long are those it had, or as far behind them as the sketch was long: with a copy
    /// in each half, every estimate stays what it was.
    fn fit(&mut self, capacity: u32, pages: u32) {
        let words = (capacity.min(pages) as usize).next_power_of_two().max(8);
        if words > self.words.len() {
            let old = std::mem::take(&mut self.words);
            self.words = if old.is_empty() { vec![0; words] } else { old.repeat(words / old.len()) };
        }
        self.sample = SAMPLE * u64::from(capacity);
    }

    /// The page's counters: their words, and their bits' place in these.
    fn counters(&self, hash: u32) -> [(usize, u32); 4] {
        let bits = mix(u64::from(hash));
        let (start, stride) = (bits as u32, (bits >> 32) as u32 | 1);
        std::array::from_fn(|i| {
            let word = start.wrapping_add(stride.wrapping_mul(i as u32)) as usize & (self.words.len() - 1);
            (word, ((hash & 3) * 4 + i as u32) * 4)
        })
    }

    fn frequency(&self, hash: u32) -> u64 {
        let counts = self.counters(hash).map(|(word, shift)| self.words[word] >> shift & 15);
        counts.into_iter().min().expect("there are four")
    }

    fn increment(&mut self, hash: u32) {
        let mut added = false;
        for (word, shift) in self.counters(hash) {
            if self.words[word] >> shift & 15 < 15 {
                self.words[word] += 1 << shift;
                added = true;
            }
        }
        self.additions += u64::from(added);
        if self.additions >= self.sample {
            for word in &mut self.words {
                *word = *word >> 1 & 0x7777_7777_7777_7777;
            }
            self.additions /= 2;
        }
    }
}

fn hash(place: &Place) -> u32 {
    (mix(place.block ^ mix(u64::from(place.object))) >> 32) as u32
}

/// SplitMix64's mixing: every bit of the result depends on every bit given.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window after samples with these hits, out of 1,600 references each to a cache of 160 pages.
    fn windows(hits: &[u64]) -> Vec<u32> {
        let mut climber = Climber::new(160, 2);
        let mut sample = |hits| (0..1600).find_map(|i| climber.count(i < hits, 160)).expect("the sample is complete");
        hits.iter().map(|&hits| sample(hits)).collect()
    }

    #[test]
    fn the_climber_goes_on_while_hits_do_not_fall_and_turns_round_when_they_do() {
        // Up by 10 pages, twice, for the first jump restarts the steps; down by 9.8 and 9.6; up by 9.4.
        assert_eq!(windows(&[800, 801, 800, 801, 800]), [12, 22, 12, 3, 12]);
        // Up by 10, 9.8, 9.6 and 9.4.
        assert_eq!(windows(&[0, 0, 0, 0]), [12, 22, 31, 41]);
    }

    #[test]
    fn a_sketch_that_grows_estimates_as_before() {
        let (mut small, pages) = (Sketch::new(1_000, 8), 300_u32);
        for number in 0..pages {
            (0..number % 13).for_each(|_| small.increment(mix(u64::from(number)) as u32));
        }
        let estimates = |sketch: &Sketch| -> Vec<u64> {
            (0..pages).map(|number| sketch.frequency(mix(u64::from(number)) as u32)).collect()
        };
        let before = (estimates(&small), small.additions);
        small.fit(1_000, 700);
        assert_eq!(small.words.len(), 1_024);
        assert_eq!((estimates(&small), small.additions), before);
    }

    #[test]
    fn the_window_stays_between_a_page_and_four_fifths_of_the_cache() {
        let rising: Vec<u64> = (0..20).map(|i| i * 80).collect();
        assert_eq!(windows(&rising).last(), Some(&128));
        assert_eq!(windows(&[800, 0, 800, 800]), [12, 2, 1, 1]);
    }
}
