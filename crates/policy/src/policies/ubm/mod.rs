//! UBM: blocks read once go at once, loops stay by their periods, the rest is replaced by LRU, and buffers go where they earn most.
//!
//! J. M. Kim, J. Choi, J. Kim, S. H. Noh, S. L. Min, Y. Cho and C. S. Kim, "A Low-Overhead High-Performance Unified Buffer
//! Management Scheme that Exploits Sequential and Looping References", OSDI 2000.
//!
//! ```text
//! reference --> detector --> sequential   MRU, no more than one buffer once the cache is full   MG_seq = 0
//!               (runs)       looping      longest period first, MRU within a period           MG_loop = 1/p
//!                            other        LRU                              MG_other = Hit(n) - Hit(n-1)
//! ```
//!
//! - `detector.rs` finds passes over consecutive blocks among those open (`passes.rs`); `runs.rs` is the table of section 3.1, by (file, start,
//!   end, period). Both are found by place, so it does not matter how a cache numbers its pages. `classifier.rs` is the detector without a cache.
//! - `loops.rs` and `other.rs` are the partitions of section 3.2; the sequential one is a list. `partitions.rs` moves pages between them.
//! - `gain.rs` fits Belady's lifetime function 1 - c n^-k to hits counted in ghost buffers, section 3.3.
//! - Here is section 3.4: at a miss the sequential blocks leave first, else a block of the partition with the smaller gain.
//!
//! A unit of time is a reference. `MG_loop(n)` is 1/p of the longest period that has a resident block, since the
//! partition holds periods in rising order. c and k come from the preset sizes on both sides of n (the cache's, and its halves six
//! times over), every 64 references; the counts are halved now and then, so that old ones fade.
//!
//! Where the paper leaves a choice, or files cannot be told apart (all blocks one object, numbered by first use, so that the files of
//! several programs lie between each other; figures: `papers/ubm/README.md`, *What the decisions cost*):
//!
//! - A run needs `run` of references, by default eight pages, as the paper's blocks. In bytes it holds for pages of any size, and a
//!   single request of small pages is no run. Any number is open at once, as memory allows; where there are more the ones that cost the
//!   least to find again end. Where a known run began, the next pass needs no proof. Two passes at one block are one.
//! - The table has detected runs alone: a reference without order neither makes the next scan a loop nor changes a loop's period. When a block was
//!   referenced is reckoned from the run's first and last, so a pass that rests begins another run. The table has room for two runs a
//!   page of the cache, and 1,024; the ones that cost the least to lose leave.
//! - Stretches of a request or two are loops where they come again, and hit: on P6, with pages of 512 bytes, more often than with
//!   `run=64KiB`. But they are no sequence the first time: up to 64 KiB, eight of the paper's blocks, what is new goes to the other
//!   partition. Let go at once, what is read again soon is lost, as on OLTP.
//! - Periods are averaged with weight 1/2, and within a quarter of an octave they are one period to the partition: the middle one. A resident block
//!   whose period comes to be the next one stays where it is: else measured periods that fluctuate change which blocks of a loop stay, in each
//!   round.
//! - With many passes open, references all over a few thousand blocks make runs by chance. That costs hardly a hit.
//! - A looping block that returns more than 4.5 times sooner or later than its period has no regular interval: it is other.
//! - A hit of the other partition, be it larger, counts as one whatever the block turns to then.
//!
//! Deviations (figures in the same place). All at once, `ubm:gap=1:sequential=first:curve=fitted:ended=keeps:in-use=leaves` is the
//! paper's scheme:
//!
//! - Blocks may be skipped (`gap=8`), for they may be another file's. With consecutive blocks alone (`gap=1`, the paper's rule) loops over
//!   files that lie between each other are found in part, and the gain over LRU is much smaller.
//! - `MG_other` is not taken to be below the slope of the hull of all hits counted. The function, fitted around n, does not see hits at
//!   deeper presets: a cycle of other references then stays at one buffer for good (`tests/all/loops.rs`). `curve=fitted` is the paper's.
//! - A block at which a pass is does not leave before those of its partition that the pass has left. Requests that begin in the block where
//!   the one before ended refer to it again; the paper's one sequential buffer, and MRU, give it to the next pass.
//!   `in-use=leaves` is the paper's.
//! - A looping block that has waited for one and a half of its periods counts as one of half as much again as it has waited. In the paper
//!   a loop that has ended keeps its buffers for ever. And a loop's gain is 1/p times the part of the blocks of
//!   such periods (an octave) that returned within a round. `ended=keeps` is the paper's for both.
//! - `MG_seq` is not taken to be 0 but measured, as section 4.7 proposes: if blocks of new runs return so soon and often that keeping one
//!   earns more than the other partition's last buffer, new runs' blocks go to that partition. The sequential one stays as it is.
//!   `sequential=first` is the paper's rule.
//!
//! With `gain=time`, where the device is known, a hit is worth the time that it saves (`cost.rs`). It saves device time on OLTP, and costs
//! some on P6 in large caches, so it is no default (figures: `papers/ubm/README.md`, *Gain in the device's time*).
//!
//! With another replacement of the other partition than LRU, its hits are still estimated as LRU's.
//!
//! Refused victims: each partition offers its blocks in its order, and the one with the larger gain is asked last; nobody
//! moves. A page evicted as other stays as a ghost in the LRU stack, no deeper than the cache (section 5.2); all others are forgotten.
//!
//! Reference figures, in `sim/tests/all/ubm.rs`: on multi1 with 1,400 blocks at least the paper's 76.5 %; the mean gain over LRU on multi1,
//! multi2 and multi3 at least 28 % (29.2 % over the paper's sizes, with files told apart); on multi2 at time 20,000 both gains near
//! the paper's 0.000222. Classes on the embedded sample, file by file.
//!
//! A refused miss may be repeated, so it changes nothing but that the page which its pass leaves may go.
//!
//! Parameters, in `parameters.rs`: `other`, `run`, `gap`, `sequential`, `gain`, `curve`, `ended`, `in-use`.
//!
//! Memory: for each page number 4 bytes; for each resident page and ghost 33 (page, partition, stack), and 16 more with another
//! replacement than LRU; for each frame 144 for two runs, 4 for that heap, and an eighth of what an open pass takes, 116 bytes, or up to 148 where `run` is
//! longer than 8 pages. That is up to 144 a page number at worst, where numbers are kept for the resident pages and the ghosts alone.
//! A reference costs O(log n) steps in the tables of passes and runs.

mod classifier;
mod cost;
mod detector;
mod gain;
mod loops;
mod other;
mod parameters;
mod partitions;
mod passes;
mod runs;

pub use classifier::{Classified, Classifier, Course, KnownRun};
pub use detector::Class;

use crate::drawing::{Drawing, Drawn, ENTRY, RECENCY, WORTH};
use crate::parts::list::{List, Nodes, offer};
use crate::parts::slots::PageSlots;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use cost::Costs;
use detector::Detector;
use forebay_basis::{Operation, Place};
use gain::{Recurrence, Stack};
use loops::{Loops, bucket, period};
use other::Others;
use passes::Found;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Status {
    /// The partition of a resident page.
    partition: Option<Class>,
    /// A looping page's bucket of periods.
    bucket: u8,
    /// Whether its last reference was sequential.
    once: bool,
    /// A sequential or looping page at which a pass is.
    in_use: bool,
    /// When it was referenced last: the low half of the time.
    used: u32,
    /// U4. The pass at a page in use.
    pass: u32,
}

/// Unified buffer management.
#[derive(Debug)]
pub struct Ubm {
    detector: Detector,
    /// Of the resident pages and the ghosts: their numbers in all that follows.
    slots: PageSlots,
    /// U1. A resident page is in the list, the bucket or the heap of its partition, and in no other.
    status: Nodes<Status>,
    /// The page used last at the front; as long as a pass is at it, a sequential or looping page is in `in_use` instead.
    sequential: List,
    in_use: List,
    /// U4. By the number of a pass, the page in use at which it is.
    resting: Vec<u32>,
    loops: Loops,
    others: Others,
    /// U2. Has the pages that were referenced last as other: resident ones of that partition, and `ghosts` others.
    stack: Stack,
    /// U3. No more than the capacity.
    ghosts: u32,
    recurrence: Recurrence,
    costs: Costs,
    /// Sequential blocks leave first, whatever they would earn.
    sequential_first: bool,
    /// Blocks of loops that have missed a round are taken for those of longer ones.
    ages: bool,
    /// A block stays while a pass is at it.
    stays: bool,
    capacity: u32,
    /// Virtual time: references so far.
    now: u64,
    /// References by class, and the class of the last one.
    counts: [u64; 3],
    last: Class,
}

/// Where a page goes that is referenced.
#[derive(Clone, Copy, Debug)]
struct Going {
    partition: Class,
    /// A loop's period, as its partition counts it.
    bucket: u8,
    /// Whether it is read for the first time in a run.
    once: bool,
    pass: u32,
}

impl Going {
    /// A page read ahead is not referenced yet.
    const AHEAD: Self = Self { partition: Class::Other, bucket: 0, once: false, pass: NONE };
}

/// No page.
const NONE: u32 = u32::MAX;

/// The cache by the pages that are kept at most because they are in use; one is kept in any cache.
const IN_USE: u32 = 64;

/// The resident pages and the ghosts: a miss makes a ghost and admits its page before the stack is cut.
fn most_known(capacity: u32) -> u64 {
    2 * u64::from(capacity) + 1
}

impl Policy for Ubm {
    const INFO: Info = Info {
        name: "ubm",
        title: "UBM: partitions for sequential, looping and other references, sized by marginal gain",
        paper: "J. M. Kim et al., A Low-Overhead High-Performance Unified Buffer Management Scheme that Exploits Sequential and Looping References, OSDI 2000",
        parameters: parameters::PARAMETERS,
        uses: Uses { place: true, ..Uses::PAGE },
        ghosts: 1,
        bytes_per_page: 144,
        // The table of runs is by place.
        remembers_by_place: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let settings = &setup.settings;
        let slots = PageSlots::new(setup.pages, most_known(setup.capacity));
        let detector = Detector::of(settings, setup.capacity, setup.page_size);
        Self {
            resting: vec![NONE; detector.most_passes() as usize],
            detector,
            status: Nodes::new(slots.end()),
            sequential: List::new(),
            in_use: List::new(),
            loops: Loops::new(),
            others: Others::new(slots.end(), setup.capacity, settings.choice("other")),
            stack: Stack::new(slots.end(), setup.capacity, settings.choice("curve") == "hull"),
            slots,
            ghosts: 0,
            recurrence: Recurrence::default(),
            costs: Costs::new(setup.device.filter(|_| settings.choice("gain") == "time")),
            sequential_first: settings.choice("sequential") == "first",
            ages: settings.choice("ended") == "ages",
            stays: settings.choice("in-use") == "stays",
            capacity: setup.capacity,
            now: 0,
            counts: [0; 3],
            last: Class::Other,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.sequential.len() + self.loops.len() + self.others.len() + self.in_use.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some_and(|slot| {
            self.stack.prefetch(slot);
            self.is_resident(slot)
        })
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        self.costs.hit();
        let found = self.arrive(reference.place);
        let mut going = self.classify(reference, &found);
        let Status { partition, bucket, .. } = self.status[slot];
        if partition == Some(Class::Looping) && !found.repeated {
            self.loops.has_returned(bucket);
        }
        if partition == Some(Class::Looping) && bucket.abs_diff(going.bucket) <= 1 {
            going.bucket = bucket;
        }
        if self.status[slot].partition != Some(Class::Other) || going.partition != Class::Other {
            self.leave(slot);
        }
        self.enter(slot, going);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        // A refused miss may be repeated: nothing is counted before there is room.
        let found = (reference.operation != Operation::Readahead).then(|| self.arrive(reference.place));
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let going = found.map_or(Going::AHEAD, |found| self.classify(reference, &found));
        if reference.operation != Operation::Readahead {
            self.costs.miss(self.last, reference.place);
        }
        let slot = match self.slots.of(reference.page) {
            Some(ghost) => {
                self.ghosts -= 1;
                if going.partition != Class::Other {
                    self.stack.remove(ghost);
                    self.others.forget(ghost);
                }
                ghost
            }
            None => self.slots.give(reference.page),
        };
        self.enter(slot, going);
        self.limit_stack(caller);
        Ok(())
    }

    /// Sequential blocks leave first, then those of the partition with the smaller marginal gain (section 3.4).
    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let sequential = self.sequential.front_to_back(&self.status);
        if let Ok(victim) = offer(sequential, &mut self.slots.offered(caller)) {
            self.leave(victim);
            caller.forget(self.slots.take_back(victim));
            return Ok(());
        }
        let worth = self.gain_of_loops() * self.costs.of(Class::Looping);
        let loops_first = worth <= self.worth_of_others() || self.others.len() == 0;
        let result = if loops_first {
            self.evict_looping(caller).or_else(|_| self.evict_other(caller))
        } else {
            self.evict_other(caller).or_else(|_| self.evict_looping(caller))
        };
        result.or_else(|_| {
            let victim = offer(self.in_use.back_to_front(&self.status), &mut self.slots.offered(caller))?;
            self.leave(victim);
            caller.forget(self.slots.take_back(victim));
            Ok(())
        })
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        let Some(slot) = self.slots.of(page) else { return };
        if self.is_resident(slot) {
            self.leave(slot);
        } else {
            self.ghosts -= 1;
            self.stack.remove(slot);
            self.others.forget(slot);
        }
        self.slots.take_back(slot);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        self.detector.reserve(capacity);
        self.resting.resize(self.detector.most_passes() as usize, NONE);
        self.reserve(self.slots.pages());
        self.stack.set_capacity(capacity);
        self.limit_stack(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.slots.reserve(pages, most_known(self.capacity));
        let slots = self.slots.end();
        self.status.reserve(slots);
        self.others.reserve(slots, self.capacity);
        self.stack.reserve(slots);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("sequential", f64::from(self.sequential.len()));
        show("looping", f64::from(self.loops.len()));
        show("in use", f64::from(self.in_use.len()));
        show("other", f64::from(self.others.len()));
        show("marginal gain of loops", self.gain_of_loops());
        show("marginal gain of others", self.gain_of_others());
        show("sequential references", self.counts[Class::Sequential as usize] as f64);
        show("looping references", self.counts[Class::Looping as usize] as f64);
        show("other references", self.counts[Class::Other as usize] as f64);
        show("worth of a loop's hit", self.costs.of(Class::Looping));
        show("worth of another hit", self.costs.of(Class::Other));
        show("longest period", f64::from(self.loops.longest().unwrap_or_default()));
        show("open passes", f64::from(self.detector.open_passes()));
        show("ghosts", f64::from(self.ghosts));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let page = |slot| self.slots.page(slot);
        let resident = |slot| Drawn::resident(page(slot));
        let in_use = |slot| {
            let looping = self.status[slot].partition == Some(Class::Looping);
            resident(slot).state(if looping { "looping" } else { "sequential" })
        };
        drawing.row("blocks in use", RECENCY, self.in_use.front_to_back(&self.status).map(in_use));
        drawing.row("sequential partition", RECENCY, self.sequential.front_to_back(&self.status).map(resident));
        let mut looping: Vec<u32> = self.loops.victims(&self.status).collect();
        looping.reverse();
        let of_loop = |slot: u32| resident(slot).number("period", period(self.status[slot].bucket.into()));
        drawing.row("looping partition", WORTH, looping.into_iter().map(of_loop));
        drawing.row("other partition", RECENCY, self.others.in_order(&self.status).into_iter().map(resident));
        let ghosts = self.stack.pages().filter(|&slot| !self.is_resident(slot));
        drawing.row("history", ENTRY, ghosts.map(|slot| Drawn::ghost(page(slot))));
        drawing.number("gain of loops", self.gain_of_loops());
        drawing.number("gain of others", self.gain_of_others());
    }

    fn bytes(&self) -> usize {
        let partitions = self.status.bytes() + self.loops.bytes() + self.others.bytes() + self.stack.bytes();
        let resting = self.resting.capacity() * size_of::<u32>();
        self.detector.bytes() + self.slots.bytes() + partitions + resting
    }

    fn check_invariants(&self) {
        self.detector.check();
        self.sequential.check(&self.status);
        self.loops.check(&self.status);
        self.others.check(&self.status);
        self.stack.check();
        self.slots.check(self.len() + self.ghosts);
        let partition = |slot: u32| self.status[slot].partition;
        self.in_use.check(&self.status);
        let resting = |page: u32| self.resting[self.status[page].pass as usize];
        assert!(self.in_use.front_to_back(&self.status).all(|page| self.status[page].in_use && resting(page) == page)); // U1, U4
        assert_eq!(self.resting.iter().filter(|&&page| page != NONE).count(), self.in_use.len() as usize); // U4
        assert!(self.sequential.front_to_back(&self.status).all(|page| partition(page) == Some(Class::Sequential))); // U1
        assert!(self.loops.victims(&self.status).all(|page| partition(page) == Some(Class::Looping))); // U1
        assert!(self.others.pages(&self.status).all(|page| partition(page) == Some(Class::Other))); // U1
        let mut ghosts = 0;
        for page in self.stack.pages() {
            assert!(matches!(partition(page), None | Some(Class::Other))); // U2
            ghosts += u32::from(partition(page).is_none());
        }
        assert!(ghosts == self.ghosts && ghosts <= self.capacity); // U2, U3
        assert!(self.len() <= self.capacity);
    }
}

impl Ubm {
    /// The class of the last reference.
    pub fn last_class(&self) -> Class {
        self.last
    }

    /// A reference arrives: the page that its pass leaves may leave the cache, too.
    fn arrive(&mut self, place: Place) -> Found {
        let found = self.detector.find(place);
        if let Some(pass) = found.pass
            && !found.repeated
        {
            self.release_from(pass);
        }
        found
    }

    /// Detects and counts a reference, and says to which partition its page goes.
    fn classify(&mut self, reference: &Reference, found: &Found) -> Going {
        self.now += 1;
        let now = self.now;
        let finding = self.detector.refer(found, reference.place, now);
        self.last = finding.class;
        self.counts[finding.class as usize] += 1;
        let slot = self.slots.of(reference.page);
        // The first return of a block that was read once: later ones are to a page that is known by now, or come too late.
        if let Some(before) = finding.before
            && before.class == Class::Sequential
            && slot.is_none_or(|slot| self.status[slot].once)
        {
            self.recurrence.again(before.gap);
        }
        if !finding.repeated {
            // A pass that has ended may have had the number.
            self.release_from(finding.pass);
        }
        let mut partition = finding.class;
        if partition == Class::Sequential {
            if !finding.repeated {
                self.recurrence.count();
            }
            let gain = self.recurrence.marginal_gain() * self.costs.of(Class::Sequential);
            let earns = finding.short || gain > self.worth_of_others();
            if earns && !self.sequential_first {
                partition = Class::Other;
            }
        }
        // A hit that the other partition would have, be it larger, whatever the page turns to now.
        let other = partition == Class::Other || slot.is_some_and(|slot| self.stack.contains(slot));
        self.stack.count(other.then_some(slot));
        if self.ages {
            self.loops.age(&mut self.status, now as u32);
        }
        Going {
            partition,
            bucket: bucket(finding.period),
            once: finding.class == Class::Sequential,
            pass: finding.pass,
        }
    }

    /// `MG_loop(n)`: the n-th buffer is held by the loop with the longest period.
    fn gain_of_loops(&self) -> f64 {
        self.loops.longest().map_or(0.0, |period| self.loops.returning() / f64::from(period))
    }

    /// `MG_other(C - n)`.
    fn gain_of_others(&self) -> f64 {
        self.stack.marginal_gain(self.others.len())
    }

    /// The same in the device's time, if that is known.
    fn worth_of_others(&self) -> f64 {
        self.gain_of_others() * self.costs.of(Class::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::long_run;

    #[test]
    fn its_clock_and_the_numbers_of_passes_do_not_run_over() {
        for spec in ["ubm", "ubm:other=lfu", "ubm:other=lru-2", "ubm:other=lrfu:run=3"] {
            long_run::is_as_the_first::<Ubm>(
                spec,
                &[
                    |ubm| ubm.now = u64::from(u32::MAX) - 99,
                    |ubm| ubm.now = (1 << 40) - 99,
                    |ubm| ubm.now = 1 << 44,
                    |ubm| ubm.others.count_references_from(u32::MAX - 99),
                ],
            );
        }
    }
}
