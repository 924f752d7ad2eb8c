//! SEQ: LRU, unless the pages missed form a long sequence of addresses; then the victim is a page of that sequence, a
//! little behind where it has got to.
//!
//! G. Glass and P. Cao, "Adaptive Page Replacement Based on Memory Reference Behavior", SIGMETRICS 1997.
//!
//! A sequence is a run of addresses that were missed one after the other in one direction, other misses possibly in
//! between. A miss at the address after a sequence's *head* extends it; the second miss gives it its direction. A
//! miss inside a sequence cuts off what is at and behind it; a miss that extends none begins one. To evict: of the
//! sequences longer than L, the one whose N-th most recent miss is the latest, which is the one that grows fastest;
//! in it, the resident page nearest to the head that is M or more pages from it. Where no sequence has such a page,
//! LRU. So a loop longer than the cache keeps its first part, and a scan passes through M pages.
//!
//! ```text
//!   first           start                                     head = end - 1
//!     .   .   .   .   p   .   p   p   p   .   .   p   p   p   p   -->
//!                     \------- far -------/       \--- near: less than M from the head
//!   recency   all resident pages in the order of last use
//! ```
//!
//! A sequence's resident pages are in two lists, so the victim is the front of `far`. Sequences are found by going
//! through a table of fixed size at each miss; every miss belongs to one of them, so a sequence that stopped growing
//! soon is the one whose last miss is the oldest, and gives up its place.
//!
//! From the paper: detection at misses alone, L, M and N with their values of 20, 20 and 5, and the choice of victim.
//! Decided here: what a miss inside a sequence does to it (the part towards the head was missed last; the part behind
//! the miss has been used again); that a sequence without such a page makes way for the next; the table's size; and
//! that a sequence stays within one file, where the paper has one address space a process.
//!
//! Refused victims keep their place: after the first sequence come the others, each found by a look at the table, then the
//! remaining pages by LRU. Of objects nothing is kept but in that table.
//!
//! Reference figures: none outside (the paper was not at hand: these are its rules as we know them, not checked
//! against its text); tested against a plain model, and on a loop within M + 2 pages of OPT a lap. It is up to 1.8
//! points below LRU on sprite with 1,000 pages, where files read in sequence are used again. Parameters: `length`
//! (L), `distance` (M), `misses` (N), `sequences`. Memory: 24 bytes a page (four links, the sequence and the position
//! in it), and 72 bytes a sequence with 8 more for each of N misses. A page leaves a sequence once for each time that
//! it was missed, so cutting off costs O(1) a miss.

use crate::drawing::{Drawing, Drawn, RECENCY};
use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use forebay_basis::Place;

#[derive(Clone, Copy, Debug, Default)]
struct Spot {
    sequence: u32,
    position: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
    /// Of a sequence of one address.
    Unknown,
}

#[derive(Debug)]
struct Sequence {
    first: Place,
    direction: Direction,
    /// SQ1. Positions, counted from `first` in the direction, from `start` until before `end`; a sequence without any
    /// is out of use.
    start: u32,
    end: u32,
    /// How many misses made it.
    misses: u64,
    /// SQ2. Its resident pages less than M from the head, and the others; the nearest to the head at the front.
    near: List,
    far: List,
}

impl Sequence {
    const UNUSED: Self = Self {
        first: Place { object: 0, block: 0 },
        direction: Direction::Unknown,
        start: 0,
        end: 0,
        misses: 0,
        near: List::new(),
        far: List::new(),
    };

    /// How far `place` is from the first address, in the direction.
    fn position(&self, place: Place) -> Option<u32> {
        let Place { object, block } = self.first;
        let offset = match self.direction {
            Direction::Up => place.block.checked_sub(block),
            Direction::Down => block.checked_sub(place.block),
            Direction::Unknown => Some(place.block.abs_diff(block)),
        };
        let offset = offset.filter(|&offset| place.object == object && offset < u64::from(u32::MAX));
        offset.map(|offset| offset as u32)
    }

    fn len(&self) -> u32 {
        self.end - self.start
    }
}

/// LRU with detection of sequences.
#[derive(Debug)]
pub struct Seq {
    /// SQ3. In `recency` if and only if resident, the most recently used at the front.
    nodes: Nodes<()>,
    recency: List,
    /// SQ4. Linked if and only if resident and in the sequence that its value names, where it has the position of the
    /// value.
    spots: Nodes<Spot>,
    sequences: Vec<Sequence>,
    /// The times of each sequence's last N misses, in rings of N.
    times: Vec<u64>,
    now: u64,
    length: u32,
    distance: u32,
    misses: usize,
    capacity: u32,
}

impl Policy for Seq {
    const INFO: Info = Info {
        name: "seq",
        title: "SEQ: LRU, but MRU in long sequences of misses",
        paper: "G. Glass and P. Cao, Adaptive Page Replacement Based on Memory Reference Behavior, SIGMETRICS 1997",
        parameters: &[
            Parameter {
                name: "length",
                help: "L: only longer sequences give victims",
                kind: Kind::Integer { least: 1, most: 1_000_000 },
                default: "20",
            },
            Parameter {
                name: "distance",
                help: "M: how far a victim is from the head of its sequence",
                kind: Kind::Integer { least: 1, most: 1_000_000 },
                default: "20",
            },
            Parameter {
                name: "misses",
                help: "N: the sequence with the latest N-th last miss gives the victim",
                kind: Kind::Integer { least: 1, most: 64 },
                default: "5",
            },
            Parameter {
                name: "sequences",
                help: "how many sequences are watched",
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "64",
            },
        ],
        uses: Uses { place: true, ..Uses::PAGE },
        ghosts: 0,
        bytes_per_page: 26,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let whole = |name| setup.settings.integer(name) as usize;
        Self {
            nodes: Nodes::new(setup.pages),
            recency: List::new(),
            spots: Nodes::new(setup.pages),
            sequences: (0..whole("sequences")).map(|_| Sequence::UNUSED).collect(),
            times: vec![0; whole("sequences") * whole("misses")],
            now: 0,
            length: whole("length") as u32,
            distance: whole("distance") as u32,
            misses: whole("misses"),
            capacity: setup.capacity,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.recency.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.nodes.is_linked(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.nodes.prefetch_links(page);
        self.spots.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.recency.move_to_front(&mut self.nodes, reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let sequence = self.watch(reference.place);
        if self.recency.len() == self.capacity {
            self.evict(caller)?;
        }
        self.recency.push_front(&mut self.nodes, reference.page);
        let Sequence { near, end, .. } = &mut self.sequences[sequence];
        self.spots[reference.page] = Spot { sequence: sequence as u32, position: *end - 1 };
        near.push_front(&mut self.spots, reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let growing = std::iter::successors(self.latest_before(u64::MAX), |&sequence| {
            self.latest_before(self.time_of_nth_last_miss(sequence))
        });
        let of_sequences = growing.flat_map(|sequence| self.sequences[sequence].far.front_to_back(&self.spots));
        let others = self.recency.back_to_front(&self.nodes).filter(|&page| !self.gives_victims(page));
        let victim = offer(of_sequences.chain(others), caller)?;
        self.drop_page(victim);
        caller.forget(victim);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.nodes.is_linked(page) {
            self.drop_page(page);
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
    }

    fn reserve(&mut self, pages: u32) {
        self.nodes.reserve(pages);
        self.spots.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let long = || self.sequences.iter().filter(|sequence| sequence.len() > self.length);
        show("long sequences", long().count() as f64);
        show("pages of long sequences", long().map(|of| f64::from(of.near.len() + of.far.len())).sum());
    }

    fn draw(&self, drawing: &mut Drawing) {
        drawing.row("list", RECENCY, self.recency.front_to_back(&self.nodes).map(Drawn::resident));
        for (index, Sequence { near, far, .. }) in self.sequences.iter().enumerate() {
            if near.is_empty() && far.is_empty() {
                continue;
            }
            let far_state = if self.is_long(index) { "ready to leave" } else { "far from the head" };
            let near = near.front_to_back(&self.spots).map(|page| Drawn::again(page).state("near the head"));
            let far = far.front_to_back(&self.spots).map(|page| Drawn::again(page).state(far_state));
            drawing.row(format!("sequence {}", index + 1), ["head", "start"], near.chain(far));
        }
    }

    fn bytes(&self) -> usize {
        self.nodes.bytes()
            + self.spots.bytes()
            + self.sequences.capacity() * size_of::<Sequence>()
            + self.times.capacity() * size_of::<u64>()
    }

    fn check_invariants(&self) {
        self.recency.check(&self.nodes); // SQ3
        assert!(self.len() <= self.capacity);
        let mut linked = 0;
        for (index, sequence) in self.sequences.iter().enumerate() {
            let Sequence { start, end, near, far, direction, .. } = sequence;
            assert!(start <= end && (*direction != Direction::Unknown || *end <= 1)); // SQ1
            near.check(&self.spots);
            far.check(&self.spots);
            let mut beyond = *end;
            for page in near.front_to_back(&self.spots).chain(far.front_to_back(&self.spots)) {
                let spot = self.spots[page];
                assert!(spot.sequence as usize == index && self.nodes.is_linked(page)); // SQ4
                assert!((*start..beyond).contains(&spot.position)); // SQ1, SQ2
                beyond = spot.position;
                linked += 1;
            }
            assert!(near.front_to_back(&self.spots).all(|page| !self.is_far(page))); // SQ2
            assert!(far.front_to_back(&self.spots).all(|page| self.is_far(page))); // SQ2
        }
        assert_eq!(linked, self.recency.back_to_front(&self.nodes).filter(|&page| self.spots.is_linked(page)).count()); // SQ4
    }
}

impl Seq {
    /// Takes note of a miss. The sequence that `place` is now the head of.
    fn watch(&mut self, place: Place) -> usize {
        let mut extended: Option<usize> = None;
        for index in 0..self.sequences.len() {
            let sequence = &self.sequences[index];
            let Some(position) = sequence.position(place) else { continue };
            if (sequence.start..sequence.end).contains(&position) {
                self.cut_off(index, position + 1);
            } else if position == sequence.end
                && sequence.len() > 0
                && extended.is_none_or(|other| self.time_of_last_miss(other) < self.time_of_last_miss(index))
            {
                extended = Some(index);
            }
        }
        let index = match extended {
            Some(index) => {
                self.extend(index, place);
                index
            }
            None => self.begin(place),
        };
        self.now += 1;
        let misses = &mut self.sequences[index].misses;
        self.times[index * self.misses + *misses as usize % self.misses] = self.now;
        *misses += 1;
        index
    }

    fn extend(&mut self, index: usize, place: Place) {
        let Sequence { first, direction, end, near, far, .. } = &mut self.sequences[index];
        if *direction == Direction::Unknown {
            *direction = if place.block > first.block { Direction::Up } else { Direction::Down };
        }
        *end += 1;
        // One page at most: the head has moved by one.
        if let Some(page) = near.back().filter(|&page| *end - 1 - self.spots[page].position >= self.distance) {
            near.remove(&mut self.spots, page);
            far.push_front(&mut self.spots, page);
        }
    }

    /// Begins a sequence where one is out of use, or else in place of the one whose last miss is the oldest.
    fn begin(&mut self, place: Place) -> usize {
        let index = (0..self.sequences.len())
            .min_by_key(|&index| (self.sequences[index].len() > 0, self.time_of_last_miss(index)))
            .expect("the table is not empty");
        self.cut_off(index, self.sequences[index].end);
        self.sequences[index] = Sequence { first: place, end: 1, ..Sequence::UNUSED };
        index
    }

    /// Cuts off what is before position `start`.
    fn cut_off(&mut self, index: usize, start: u32) {
        let sequence = &mut self.sequences[index];
        sequence.start = start;
        for list in [&mut sequence.far, &mut sequence.near] {
            while let Some(page) = list.back().filter(|&page| self.spots[page].position < start) {
                list.remove(&mut self.spots, page);
            }
        }
    }

    fn time_of_last_miss(&self, index: usize) -> u64 {
        match self.sequences[index].misses {
            0 => 0,
            misses => self.times[index * self.misses + (misses - 1) as usize % self.misses],
        }
    }

    fn time_of_nth_last_miss(&self, index: usize) -> u64 {
        self.times[index * self.misses + self.sequences[index].misses as usize % self.misses]
    }

    fn is_long(&self, index: usize) -> bool {
        let Sequence { misses, .. } = self.sequences[index];
        self.sequences[index].len() > self.length && misses >= self.misses as u64
    }

    /// Of the long sequences that have a victim, the one whose N-th last miss is the latest before `time`.
    fn latest_before(&self, time: u64) -> Option<usize> {
        (0..self.sequences.len())
            .filter(|&index| self.is_long(index) && !self.sequences[index].far.is_empty())
            .filter(|&index| self.time_of_nth_last_miss(index) < time)
            .max_by_key(|&index| self.time_of_nth_last_miss(index))
    }

    /// Whether the page, if in a sequence, is M or more from its head.
    fn is_far(&self, page: u32) -> bool {
        let Spot { sequence, position } = self.spots[page];
        self.sequences[sequence as usize].end - 1 - position >= self.distance
    }

    fn gives_victims(&self, page: u32) -> bool {
        self.spots.is_linked(page) && self.is_long(self.spots[page].sequence as usize) && self.is_far(page)
    }

    fn drop_page(&mut self, page: u32) {
        self.recency.remove(&mut self.nodes, page);
        if self.spots.is_linked(page) {
            let is_far = self.is_far(page);
            let sequence = &mut self.sequences[self.spots[page].sequence as usize];
            let list = if is_far { &mut sequence.far } else { &mut sequence.near };
            list.remove(&mut self.spots, page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Settings;
    use crate::parts::long_run;

    struct Victims(Vec<u32>);

    impl Caller for Victims {
        fn evict(&mut self, page: u32) -> bool {
            self.0.push(page);
            true
        }

        fn forget(&mut self, _: u32) {}
    }

    /// With N = 2 and misses of a and b in the order b a a b, b a a b, …: the second to last miss is the later one in b at
    /// the first two of these, in a at the others. Each then gives the page nearest to its head that is 2 or more away.
    #[test]
    fn the_sequence_with_the_latest_nth_last_miss_gives_the_victim() {
        let given = [("length", "3"), ("distance", "2"), ("misses", "2")];
        let mut seq = Seq::new(&Setup::new(24, 200, Settings::parse(Seq::INFO.parameters, given).unwrap()));
        let (mut next, mut victims) = ([0, 0], Victims(Vec::new()));
        for file in [1, 0, 0, 1].into_iter().cycle().take(32) {
            let place = Place { object: file, block: u64::from(next[file as usize]) };
            let page = 100 * file + next[file as usize];
            next[file as usize] += 1;
            seq.miss(&Reference { page, place, ..Reference::default() }, &mut victims).unwrap();
            seq.check_invariants();
        }
        assert_eq!(victims.0, [110, 109, 11, 10, 112, 111, 13, 12]);
    }

    #[test]
    fn its_clock_does_not_run_over() {
        long_run::is_as_the_first::<Seq>(
            "seq:length=5:distance=3",
            &[|seq| seq.now = u64::from(u32::MAX) - 99, |seq| seq.now = 1 << 60],
        );
    }
}
