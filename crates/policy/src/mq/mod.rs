//! MQ: queues for ever more frequent use, in which a page stays for a time without being used; for second-level caches, where
//! temporal distances are long and frequencies uneven.
//!
//! Y. Zhou, J. F. Philbin and K. Li, "The Multi-Queue Replacement Algorithm for Second Level Buffer Caches", USENIX 2001,
//! section 4, Figure 5.
//!
//! ```text
//!   Q7    tail  h h  head
//!   ...                      LRU queues; a page used f times enters Q[log2 f], and goes one down when it has not been used
//!   Q1    tail  w w  head      for lifeTime references
//!   Q0    tail  c c c  head  the head of the lowest queue that is not empty is the victim
//!   Qout  tail  g g g g g  head   ghosts with their counts, FIFO, 4 times the cache
//! ```
//!
//! **The adaptive lifeTime** (the paper leaves it to a thesis). The temporal distances of a sample of the pages, one of up to 8,
//! are counted by queue (`sample.rs`); `life_time.rs` says what follows from them. To see distances beyond Qout, sampled ghosts that leave
//! it are remembered for longer, up to as many as there are frames: they reach as far as 2 to 16 times the cache would. They do
//! not count as known for the algorithm: their use starts again at Q0. lifeTime is 2 times the cache for the first 8 times the
//! cache references, and then adjusted once in as many references as there are frames (at least 4,096).
//!
//! What it costs against the best fixed lifeTime, in points of the hit ratio: OLTP at 1,000 to 15,000 pages at most 0.1 (or
//! ahead by up to 0.4), P6 at 8,000 0.6, at 40,000 and 160,000 at most 0.4, P12 at 30,000 1.3, at 150,000 0.7; on the vSCSI
//! trace at 1,000 and 5,000 0.2, but at 20,000 4.9 (25.5 against 30.4 %, LRU 20.5): there the best is 8 times the cache, a loop
//! that the sample sees too late.
//!
//! Deviations: none with a fixed `lifetime`.
//!
//! Refused victims keep their places and the next is offered, queue by queue.
//! Reference figures: the MQ column of ARC's OLTP table, within 1 point or above. Parameters: `queues`, `lifetime`, `out`.
//! Memory: 16 bytes a page (two links, expiry, count and place), 8 for each sampled page, one of 8 from 512 frames on and
//! every one below 128, and 38 KiB for the distances.

mod life_time;
mod sample;

use crate::list::{List, Nodes, offer};
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use sample::Sample;

/// Where the metadata of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unknown,
    Out,
    /// A sampled ghost that has left Qout.
    Far,
    /// In the queue of that number.
    Queue(usize),
}

/// Times are kept in 32 bits and compared by their difference, so no lifeTime is longer than this. A page leaves its queue when its
/// life is over and so are those of the pages before it, one a reference: well within 2^31 references of its expiry.
const LONGEST_LIFE: u32 = 1 << 30;
/// The place takes the low bits of a block's second word, its count the others.
const PLACE_BITS: u32 = 6;
const MOST_USES: u32 = u32::MAX >> PLACE_BITS;
/// A page used `MOST_USES` times is in the last of so many queues.
const MOST_QUEUES: u64 = (u32::BITS - PLACE_BITS) as u64;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    expire_time: u32,
    /// Where it is, and how often it was used as far as the queues and Qout remember.
    place_and_reference: u32,
}

impl Block {
    fn place(self) -> Place {
        match self.place_and_reference & ((1 << PLACE_BITS) - 1) {
            0 => Place::Unknown,
            1 => Place::Out,
            2 => Place::Far,
            k => Place::Queue(k as usize - 3),
        }
    }

    fn set_place(&mut self, place: Place) {
        let place = match place {
            Place::Unknown => 0,
            Place::Out => 1,
            Place::Far => 2,
            Place::Queue(k) => k as u32 + 3,
        };
        self.place_and_reference = self.reference() << PLACE_BITS | place;
    }

    fn reference(self) -> u32 {
        self.place_and_reference >> PLACE_BITS
    }

    fn set_reference(&mut self, reference: u32) {
        let place = self.place_and_reference & ((1 << PLACE_BITS) - 1);
        self.place_and_reference = reference.min(MOST_USES) << PLACE_BITS | place;
    }
}

/// Multi-Queue.
#[derive(Debug)]
pub struct Mq {
    /// M1. A page is in the list that its place names. The tail is the front, the head the back.
    blocks: Nodes<Block>,
    queues: Vec<List>,
    /// M2. At most `out` times the capacity.
    q_out: List,
    /// M3. At most `capacity`, all sampled.
    far: List,
    /// M4. The pages in `queues`.
    len: u32,
    now: u64,
    life_time: u32,
    /// M5. Before this time no queue's head but Q0's is expired.
    next_expiry: u64,
    /// What `life_time` is drawn from, if it is adaptive.
    sample: Option<Sample>,
    next_adjustment: u64,
    capacity: u32,
    out: u32,
}

impl Policy for Mq {
    const INFO: Info = Info {
        name: "mq",
        title: "MQ: multi-queue, for second-level caches",
        paper: "Y. Zhou, J. F. Philbin and K. Li, The Multi-Queue Replacement Algorithm for Second Level Buffer Caches, USENIX 2001",
        parameters: &[
            Parameter {
                name: "queues",
                help: "m, the number of LRU queues",
                kind: Kind::Integer { least: 1, most: MOST_QUEUES },
                default: "8",
            },
            Parameter {
                name: "lifetime",
                help: "references without use after which a page is demoted; 0: adapted to the references",
                kind: Kind::Integer { least: 0, most: LONGEST_LIFE as u64 },
                default: "0",
            },
            Parameter {
                name: "out",
                help: "the size of Qout in multiples of the capacity",
                kind: Kind::Integer { least: 0, most: 100 },
                default: "4",
            },
        ],
        uses: Uses::PAGE,
        off_line: false,
        ghosts: 101,
        bytes_per_page: 24,
    };

    const HISTORY: Option<&'static str> = Some("out");

    /// One page of 8 is sampled, by its number. Known ones of these are an 8th of the cache and of Qout, and as many beyond as there are
    /// frames: 8 × (5/8 + 1). With fewer numbers the sampled ones run out: long distances are not seen, and lifeTime is too long.
    const NUMBERS_KEPT: u32 = 13;

    fn new(setup: &Setup) -> Self {
        let queues = setup.settings.integer("queues") as usize;
        let life_time = setup.settings.integer("lifetime") as u32;
        let mut mq = Self {
            blocks: Nodes::new(setup.pages),
            queues: vec![List::new(); queues],
            q_out: List::new(),
            far: List::new(),
            len: 0,
            now: 0,
            life_time,
            next_expiry: u64::MAX,
            sample: (life_time == 0).then(|| Sample::new(setup.pages, setup.capacity, queues)),
            next_adjustment: u64::MAX,
            capacity: setup.capacity,
            out: setup.settings.integer("out") as u32,
        };
        mq.start_adaptation();
        mq
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn ghosts(&self) -> u32 {
        self.q_out.len() + self.far.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.blocks[page].place(), Place::Queue(_))
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.blocks.prefetch_value(page);
        self.blocks.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.use_now(reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len == self.capacity {
            self.free_a_frame(caller)?;
        }
        self.use_now(reference.page);
        self.limit_ghosts(caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.free_a_frame(caller)?;
        self.limit_ghosts(caller);
        Ok(())
    }

    /// The page goes to the queue of its uses in both caches, where its life begins anew: now its next use can come to this one. Of a
    /// ghost the count is remembered. It is no reference: no time passes, and the sample sees nothing.
    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        let page = reference.page;
        let block = &mut self.blocks[page];
        let place = block.place();
        if matches!(place, Place::Queue(_) | Place::Out) {
            block.set_reference(block.reference().saturating_add(hits));
        }
        if matches!(place, Place::Queue(_)) {
            let k = self.queue_num(self.blocks[page].reference());
            self.leave(page);
            self.enter(page, k);
        }
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        if let Some(sample) = &mut self.sample
            && sample.set_capacity(capacity)
        {
            while let Some(page) = self.far.back() {
                self.leave(page);
                caller.forget(page);
            }
        }
        self.start_adaptation();
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.blocks.reserve(pages);
        if let Some(sample) = &mut self.sample {
            sample.reserve(pages);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        const NAMES: [&str; 8] = ["Q0", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7"];
        for (name, queue) in NAMES.into_iter().zip(&self.queues) {
            show(name, f64::from(queue.len()));
        }
        show("Qout", f64::from(self.q_out.len()));
        show("lifeTime", f64::from(self.life_time));
    }

    fn bytes(&self) -> usize {
        self.blocks.bytes() + self.queues.capacity() * size_of::<List>() + self.sample.as_ref().map_or(0, Sample::bytes)
    }

    fn check_invariants(&self) {
        let mut len = 0;
        for (k, queue) in self.queues.iter().enumerate() {
            queue.check(&self.blocks);
            assert!(queue.back_to_front(&self.blocks).all(|page| self.blocks[page].place() == Place::Queue(k))); // M1
            len += queue.len();
            if let Some(page) = queue.back()
                && k > 0
                && self.now < self.next_expiry
            {
                assert!(!self.is_expired(page)); // M5
            }
        }
        assert_eq!(len, self.len); // M4
        for (list, place) in [(&self.q_out, Place::Out), (&self.far, Place::Far)] {
            list.check(&self.blocks);
            assert!(list.back_to_front(&self.blocks).all(|page| self.blocks[page].place() == place)); // M1
        }
        assert!(u64::from(self.q_out.len()) <= u64::from(self.out) * u64::from(self.capacity)); // M2
        assert!(self.far.back_to_front(&self.blocks).all(|page| self.is_sampled(page))); // M3
        assert!(self.far.len() <= self.capacity && self.len <= self.capacity); // M3
    }
}

impl Mq {
    /// `QueueNum(f)`.
    fn queue_num(&self, reference: u32) -> usize {
        (reference.max(1).ilog2() as usize).min(self.queues.len() - 1)
    }

    /// A reference to a page for which there is room.
    #[inline]
    fn use_now(&mut self, page: u32) {
        let block = self.blocks[page];
        let place = block.place();
        let reference = if matches!(place, Place::Queue(_) | Place::Out) { block.reference() + 1 } else { 1 };
        if let Some(sample) = &mut self.sample {
            sample.refer(page, place != Place::Unknown, self.now);
        }
        let k = self.queue_num(reference);
        self.blocks[page].set_reference(reference);
        if place == Place::Queue(k) && self.queues[k].back() != Some(page) {
            // Most hits: neither the queue nor its head changes, so M5 stays.
            self.blocks[page].expire_time = self.expiry();
            self.queues[k].move_to_front(&mut self.blocks, page);
        } else {
            self.leave(page);
            self.enter(page, k);
        }
        self.adjust();
    }

    /// When what enters a queue now expires.
    #[inline]
    fn expiry(&self) -> u32 {
        (self.now as u32).wrapping_add(self.life_time)
    }

    #[inline]
    fn enter(&mut self, page: u32, k: usize) {
        let expire_time = self.expiry();
        let block = &mut self.blocks[page];
        block.set_place(Place::Queue(k));
        block.expire_time = expire_time;
        let queue = &mut self.queues[k];
        if queue.is_empty() && k > 0 {
            self.next_expiry = self.next_expiry.min(self.now + u64::from(self.life_time)); // M5
        }
        queue.push_front(&mut self.blocks, page);
        self.len += 1;
    }

    #[inline]
    fn leave(&mut self, page: u32) {
        match self.blocks[page].place() {
            Place::Unknown => return,
            Place::Queue(k) => {
                let queue = &mut self.queues[k];
                if queue.back() == Some(page) {
                    // M5. The next one may have entered with a shorter lifeTime.
                    self.next_expiry = self.next_expiry.min(self.now);
                }
                queue.remove(&mut self.blocks, page);
                self.len -= 1;
            }
            Place::Out => self.q_out.remove(&mut self.blocks, page),
            Place::Far => self.far.remove(&mut self.blocks, page),
        }
        self.blocks[page].set_place(Place::Unknown);
    }

    /// `Adjust()`: demotes the pages whose time in their queue is over.
    fn adjust(&mut self) {
        self.now += 1;
        if self.now > self.next_expiry {
            self.demote();
        }
        if self.now == self.next_adjustment {
            self.adapt_life_time();
        }
    }

    #[inline(never)]
    fn demote(&mut self) {
        for k in 1..self.queues.len() {
            if let Some(page) = self.queues[k].back()
                && self.is_expired(page)
            {
                self.leave(page);
                self.enter(page, k - 1);
                self.prefetch_head(k);
            }
        }
        let heads = self.queues[1..].iter().filter_map(List::back);
        let lives = heads.map(|page| self.life_left(page));
        self.next_expiry = lives.min().map_or(u64::MAX, |life| self.now + u64::from(life.max(0).unsigned_abs())); // M5
    }

    /// The pages that leave a queue next will be looked at soon.
    #[inline]
    fn prefetch_head(&self, k: usize) {
        if let Some(next) = self.queues[k].back().and_then(|page| self.blocks.towards_front(page)) {
            self.prefetch(next);
        }
    }

    /// References until a page in a queue is expired.
    fn life_left(&self, page: u32) -> i32 {
        self.blocks[page].expire_time.wrapping_sub(self.now as u32) as i32
    }

    fn is_expired(&self, page: u32) -> bool {
        self.life_left(page) < 0
    }

    /// `EvictBlock()`.
    fn free_a_frame<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let victim = offer(self.queues.iter().flat_map(|queue| queue.back_to_front(&self.blocks)), caller)?;
        if let Place::Queue(k) = self.blocks[victim].place() {
            self.leave(victim);
            self.prefetch_head(k);
        }
        self.q_out.push_front(&mut self.blocks, victim);
        self.blocks[victim].set_place(Place::Out);
        Ok(())
    }

    fn limit_ghosts<C: Caller>(&mut self, caller: &mut C) {
        while u64::from(self.q_out.len()) > u64::from(self.out) * u64::from(self.capacity) {
            let page = self.q_out.back().expect("there are ghosts");
            self.leave(page);
            if let Some(next) = self.q_out.back().and_then(|page| self.blocks.towards_front(page)) {
                self.prefetch(next);
            }
            if self.is_sampled(page) {
                self.far.push_front(&mut self.blocks, page);
                self.blocks[page].set_place(Place::Far);
            } else {
                caller.forget(page);
            }
        }
        while self.far.len() > self.capacity {
            let page = self.far.back().expect("there are ghosts");
            self.leave(page);
            caller.forget(page);
        }
    }

    fn is_sampled(&self, page: u32) -> bool {
        self.sample.as_ref().is_some_and(|sample| sample.has(page))
    }

    /// Starts the adaptation of `lifeTime` anew, for the capacity that is set.
    fn start_adaptation(&mut self) {
        if self.sample.is_some() {
            self.life_time = self.capacity.saturating_mul(2).min(LONGEST_LIFE);
            self.next_adjustment = self.now + 8 * u64::from(self.capacity).max(512);
        }
    }

    #[cfg(test)]
    fn begin_at(&mut self, now: u64) {
        self.now = now;
        self.start_adaptation();
    }

    fn adapt_life_time(&mut self) {
        let period = u64::from(self.capacity).max(4096);
        if let Some(sample) = &mut self.sample {
            if let Some(life_time) = sample.distances.best(self.capacity, self.now, period) {
                self.life_time = life_time.min(u64::from(LONGEST_LIFE)) as u32;
            }
            self.next_adjustment = self.now + period;
            // Once in 2^30 references, of which a period has fewer.
            if self.now >> 30 != self.next_adjustment >> 30 {
                sample.forget_older(self.now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::long_run;

    #[test]
    fn times_of_32_bits_may_come_round() {
        let later: [fn(&mut Mq); 2] = [|mq| mq.begin_at((1 << 32) - 7), |mq| mq.begin_at((1 << 45) - 3_000)];
        for spec in ["mq", "mq:lifetime=50", "mq:lifetime=3:queues=3:out=1"] {
            long_run::is_as_the_first(spec, &later);
        }
    }
}
