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
//! - `detector.rs` finds passes over consecutive blocks; `runs.rs` is the table of (file, start, end, period), section 3.1.
//!   `classifier.rs` is those two without a cache, to look at a trace.
//! - `loops.rs` and `other.rs` are the partitions of section 3.2; the sequential one is a list.
//! - `gain.rs` fits Belady's lifetime function 1 - c n^-k to hits counted in ghost buffers, section 3.3.
//! - Here is section 3.4: at a miss the sequential blocks leave first, else a block of the partition with the smaller gain.
//!
//! A unit of time is a reference. `MG_loop(n)` is 1/p of the longest period that has a resident block, since the
//! partition holds periods in rising order. c and k come from the preset sizes on both sides of n (the cache's, and its halves six
//! times over), whenever a gain is asked for; the counts are halved now and then, so that old ones fade.
//!
//! Where the paper leaves a choice, or files cannot be told apart (all blocks one object, numbered by first use, so that the files of
//! several programs lie between each other):
//!
//! - A run needs `run` references. Several are open at once (`open`), and blocks may be skipped (`gap`), for they may be another
//!   file's. A run that is read again only in part is split. Where a known run began, the next pass needs no proof.
//! - The table is as long as there are page numbers; the run grown least recently makes room, and so in time do those of objects
//!   that are gone.
//! - Periods are averaged with weight 1/2, and within a quarter of an octave they are one period to the partition.
//! - A looping block that returns more than three times sooner or later than its period has no regular interval: it is other.
//!
//! Deviations, all for a file server's references (sprite), where the paper's rules lose up to 2.4 points to LRU, now 0.9:
//!
//! - A looping block overdue by a quarter of its period counts as one of twice the time it has waited. In the paper a loop that has
//!   ended keeps its buffers for ever.
//! - `MG_seq` is not taken to be 0 but measured, as section 4.7 proposes: if so many blocks of new runs return soon that keeping one
//!   earns more than the other partition's last buffer, new runs' blocks go to that partition. The sequential one stays as it is.
//!
//! With another replacement of the other partition than LRU, its hits are still estimated as LRU's.
//!
//! Refused victims: each partition offers its blocks in its order, and the one with the larger gain is asked last; nobody
//! moves. A page evicted as other stays as a ghost in the LRU stack, no deeper than the cache (section 5.2); all others are forgotten.
//!
//! Reference figures, in `sim/tests/ubm.rs`: on multi1 with 1,400 blocks 77.5 % (the paper 76.5); mean gains over LRU 23.2 %
//! on multi1 and 27.7 % on multi2 (29.2 % over the paper's sizes and traces, with files told apart);
//! on multi2 at time 20,000 the gains 0.000244 and 0.000245 (0.000222). Classes on the embedded sample, file by file.
//!
//! Parameters: `other`, `run`, `gap`, `open`. Memory: 8 bytes a page (its slot, its run); for each resident page and ghost 61
//! (page, partition, stack, rank as other); 8 a frame for that heap; 72 a run, of which there are no more than pages.

mod classifier;
mod detector;
mod gain;
mod loops;
mod other;
mod runs;

pub use classifier::{Classified, Classifier, Course, KnownRun};
pub use detector::Class;

use crate::list::{List, Nodes, offer};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Operation, Place, Policy, Reference, Setup, Uses};
use crate::prefetch::prefetch;
use crate::slots::Slots;
use detector::Detector;
use gain::{Recurrence, Stack};
use loops::Loops;
use other::Others;

/// What is known of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Status {
    /// The partition of a resident page.
    partition: Option<Class>,
    /// In the partition of loops: the bucket of its period.
    bucket: u8,
    /// When it was referenced last.
    used: u64,
}

/// Unified buffer management.
#[derive(Debug)]
pub struct Ubm {
    detector: Detector,
    /// By page, the run that its block was put into last: where to look for it first.
    runs_of: Vec<u32>,
    /// Of the resident pages and the ghosts: their numbers in all that follows.
    slots: Slots,
    /// U1. A resident page is in the list, the bucket or the heap of its partition, and in no other.
    status: Nodes<Status>,
    /// The page used last at the front.
    sequential: List,
    loops: Loops,
    others: Others,
    /// U2. Has the pages that were referenced last as other: resident ones of that partition, and `ghosts` others.
    stack: Stack,
    /// U3. No more than the capacity.
    ghosts: u32,
    recurrence: Recurrence,
    capacity: u32,
    /// Virtual time: references so far.
    now: u64,
    /// References by class.
    counts: [u64; 3],
}

/// The resident pages and the ghosts: a miss makes a ghost and admits its page before the stack is cut.
fn most_known(capacity: u32) -> u64 {
    2 * u64::from(capacity) + 1
}

/// A loop: blocks that are referenced one after another, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loop {
    /// Its first block.
    pub start: Place,
    /// Its last block.
    pub end: u64,
    /// References from one use of a block to its next.
    pub period: f32,
}

impl Policy for Ubm {
    const INFO: Info = Info {
        name: "ubm",
        title: "UBM: partitions for sequential, looping and other references, sized by marginal gain",
        paper: "J. M. Kim et al., A Low-Overhead High-Performance Unified Buffer Management Scheme that Exploits Sequential and Looping References, OSDI 2000",
        parameters: &[
            Parameter {
                name: "other",
                help: "the replacement of other references",
                kind: Kind::Choice(&["lru", "lfu", "lru-2", "lrfu"]),
                default: "lru",
            },
            Parameter {
                name: "run",
                help: "how much of consecutive pages makes a run",
                kind: Kind::Length,
                default: "64KiB",
            },
            Parameter {
                name: "gap",
                help: "how many blocks further on the next one of a run may be",
                kind: Kind::Integer { least: 1, most: 1_000_000 },
                default: "8",
            },
            Parameter {
                name: "open",
                help: "how many runs may be referenced at once",
                kind: Kind::Integer { least: 1, most: 1024 },
                default: "32",
            },
        ],
        uses: Uses { place: true, request: false },
        off_line: false,
        ghosts: 1,
        bytes_per_page: 160,
    };

    fn new(setup: &Setup) -> Self {
        let settings = &setup.settings;
        let slots = Slots::new(setup.pages, most_known(setup.capacity));
        Self {
            detector: Detector::of(settings, setup.pages, setup.page_size),
            runs_of: vec![0; setup.pages as usize],
            status: Nodes::new(slots.end()),
            sequential: List::new(),
            loops: Loops::new(),
            others: Others::new(slots.end(), setup.capacity, settings.choice("other")),
            stack: Stack::new(slots.end(), setup.capacity),
            slots,
            ghosts: 0,
            recurrence: Recurrence::default(),
            capacity: setup.capacity,
            now: 0,
            counts: [0; 3],
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.sequential.len() + self.loops.len() + self.others.len()
    }

    fn ghosts(&self) -> u32 {
        self.ghosts
    }

    fn contains(&self, page: u32) -> bool {
        self.slots.of(page).is_some_and(|slot| self.is_resident(slot))
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.slots.prefetch(page);
        prefetch(&self.runs_of, page as usize);
    }

    fn hit(&mut self, reference: &Reference) {
        let slot = self.slots.of(reference.page).expect("a hit is of a resident page");
        let (partition, period) = self.classify(reference);
        if self.status[slot].partition != Some(Class::Other) || partition != Class::Other {
            self.leave(slot);
        }
        self.enter(slot, partition, period);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let (partition, period) = match reference.operation {
            Operation::Readahead => (Class::Other, f32::INFINITY),
            _ => self.classify(reference),
        };
        if self.len() == self.capacity {
            self.evict(caller)?;
        }
        let slot = match self.slots.of(reference.page) {
            Some(ghost) => {
                self.ghosts -= 1;
                if partition != Class::Other {
                    self.stack.remove(ghost);
                    self.others.forget(ghost);
                }
                ghost
            }
            None => self.slots.give(reference.page),
        };
        self.enter(slot, partition, period);
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
        let loops_first = self.gain_of_loops() <= self.gain_of_others() || self.others.len() == 0;
        if loops_first && self.evict_looping(caller).is_ok() {
            return Ok(());
        }
        self.evict_other(caller).or_else(|refused| if loops_first { Err(refused) } else { self.evict_looping(caller) })
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
        self.reserve(self.slots.pages());
        self.stack.set_capacity(capacity);
        self.limit_stack(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.detector.reserve(pages);
        if pages as usize > self.runs_of.len() {
            self.runs_of.resize(pages as usize, 0);
        }
        self.slots.reserve(pages, most_known(self.capacity));
        let slots = self.slots.end();
        self.status.reserve(slots);
        self.others.reserve(slots);
        self.stack.reserve(slots);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("sequential", f64::from(self.sequential.len()));
        show("looping", f64::from(self.loops.len()));
        show("other", f64::from(self.others.len()));
        show("marginal gain of loops", self.gain_of_loops());
        show("marginal gain of others", self.gain_of_others());
        show("sequential references", self.counts[Class::Sequential as usize] as f64);
        show("looping references", self.counts[Class::Looping as usize] as f64);
        show("other references", self.counts[Class::Other as usize] as f64);
        let (loops, sum) =
            self.loops().fold((0.0, 0.0), |(loops, sum), each| (loops + 1.0, sum + f64::from(each.period)));
        show("loops", loops);
        show("mean period", if loops > 0.0 { sum / loops } else { 0.0 });
        show("runs", f64::from(self.detector.runs().len()));
        show("ghosts", f64::from(self.ghosts));
    }

    fn bytes(&self) -> usize {
        let partitions = self.status.bytes() + self.loops.bytes() + self.others.bytes() + self.stack.bytes();
        self.detector.bytes() + self.runs_of.capacity() * size_of::<u32>() + self.slots.bytes() + partitions
    }

    fn check_invariants(&self) {
        self.detector.check();
        self.sequential.check(&self.status);
        self.loops.check(&self.status);
        self.others.check();
        self.stack.check();
        self.slots.check(self.len() + self.ghosts);
        let partition = |slot: u32| self.status[slot].partition;
        assert!(self.sequential.front_to_back(&self.status).all(|page| partition(page) == Some(Class::Sequential))); // U1
        assert!(self.loops.victims(&self.status).all(|page| partition(page) == Some(Class::Looping))); // U1
        assert!(self.others.pages().all(|page| partition(page) == Some(Class::Other))); // U1
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
    /// The class of the last reference to a block; `None` if its run is not known (any more).
    pub fn class_of(&self, place: Place) -> Option<Class> {
        self.detector.run_of(place).map(|run| run.class)
    }

    /// The loops that are known. A loop over several files, or over blocks that others lie between, is one for each
    /// stretch of consecutive blocks.
    pub fn loops(&self) -> impl Iterator<Item = Loop> {
        let looping = self.detector.runs().iter().filter(|run| run.class == Class::Looping);
        looping.map(|run| Loop { start: run.start, end: run.end(), period: run.period })
    }

    /// Detects and counts a reference, and says to which partition its page goes.
    fn classify(&mut self, reference: &Reference) -> (Class, f32) {
        self.now += 1;
        let now = self.now;
        let run_of = &mut self.runs_of[reference.page as usize];
        let finding = self.detector.refer(reference.place, Some(*run_of), now);
        *run_of = finding.run.unwrap_or(*run_of);
        self.counts[finding.class as usize] += 1;
        if let Some(before) = finding.before
            && before.class == Class::Sequential
        {
            self.recurrence.again(before.gap);
        }
        let mut partition = finding.class;
        if partition == Class::Sequential {
            if !finding.repeated {
                self.recurrence.count();
            }
            if self.recurrence.marginal_gain() > self.gain_of_others() {
                partition = Class::Other;
            }
        }
        self.stack.count((partition == Class::Other).then(|| self.slots.of(reference.page)));
        self.loops.age(&mut self.status, now);
        (partition, finding.period)
    }

    /// `MG_loop(n)`: the n-th buffer is held by the loop with the longest period.
    fn gain_of_loops(&self) -> f64 {
        self.loops.longest().map_or(0.0, |period| 1.0 / f64::from(period))
    }

    /// `MG_other(C - n)`.
    fn gain_of_others(&self) -> f64 {
        self.stack.marginal_gain(self.others.len())
    }

    fn is_resident(&self, slot: u32) -> bool {
        self.status[slot].partition.is_some()
    }

    fn enter(&mut self, slot: u32, partition: Class, period: f32) {
        let status = &mut self.status[slot];
        (status.partition, status.used) = (Some(partition), self.now);
        match partition {
            Class::Sequential => self.sequential.push_front(&mut self.status, slot),
            Class::Looping => self.loops.push(&mut self.status, slot, period),
            Class::Other => {
                self.others.refer(slot, self.now);
                if self.stack.contains(slot) {
                    self.stack.remove(slot);
                }
                self.stack.push(slot);
            }
        }
    }

    /// A resident page leaves its partition without a ghost.
    fn leave(&mut self, slot: u32) {
        match self.status[slot].partition.take() {
            Some(Class::Sequential) => self.sequential.remove(&mut self.status, slot),
            Some(Class::Looping) => self.loops.remove(&mut self.status, slot),
            Some(Class::Other) => {
                self.others.remove(slot);
                self.others.forget(slot);
                if self.stack.contains(slot) {
                    self.stack.remove(slot);
                }
            }
            None => {}
        }
    }

    fn evict_looping<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.loops.victims(&self.status), &mut self.slots.offered(caller))?;
        self.leave(victim);
        caller.forget(self.slots.take_back(victim));
        Ok(())
    }

    /// The page stays in the stack, as a ghost, if it is still there.
    fn evict_other<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = self.others.evict(&mut self.slots.offered(caller))?;
        self.recurrence.evicted(self.now - self.status[victim].used);
        self.status[victim].partition = None;
        if self.stack.contains(victim) {
            self.ghosts += 1;
        } else {
            self.others.forget(victim);
            caller.forget(self.slots.take_back(victim));
        }
        self.limit_stack(caller);
        Ok(())
    }

    /// The stack is no deeper than the cache has pages (section 5.2).
    fn limit_stack<C: Caller>(&mut self, caller: &mut C) {
        while self.stack.len() > self.capacity {
            let slot = self.stack.oldest().expect("the stack is deeper than the cache");
            self.stack.remove(slot);
            if !self.is_resident(slot) {
                self.ghosts -= 1;
                self.others.forget(slot);
                caller.forget(self.slots.take_back(slot));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::long_run;

    #[test]
    fn its_clock_and_the_numbers_of_passes_do_not_run_over() {
        for spec in ["ubm", "ubm:other=lfu", "ubm:other=lru-2", "ubm:other=lrfu:run=3"] {
            long_run::is_as_the_first::<Ubm>(
                spec,
                &[
                    |ubm| ubm.now = u64::from(u32::MAX) - 99,
                    |ubm| ubm.now = (1 << 40) - 99,
                    |ubm| ubm.now = 1 << 44,
                    |ubm| ubm.detector.count_passes_from(u64::from(u32::MAX) - 99),
                ],
            );
        }
    }
}
