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
//! **The adaptive lifeTime** (the paper leaves it to a thesis). On a sample of the pages nine lifeTimes are tried, from 1/8 to 64 times
//! the cache, and the one with the most hits is taken, looked at 32 times while as many references pass as there are frames
//! (`trials.rs`). It is 2 times the cache at first. To see distances beyond Qout, sampled ghosts that leave it are remembered
//! for longer, up to as many as there are frames. They do not count as known for the algorithm: their use starts again at Q0.
//!
//! What it costs against the best fixed lifeTime at 1, 5, 10, 20, 30 and 50 % of the pages: at most 0.8 points of the hit ratio on OLTP,
//! P6, P12, sprite, multi3 and the vSCSI trace (`papers/mq/lifetime.toml`).
//!
//! Deviations: none with a fixed `lifetime`. When lifeTime changes, a page's place follows at once. So with the adaptive one pages
//! stay in the queue of their last use, and of the queues' heads that one is the victim which Figure 5 would evict first, had lifeTime always
//! been what it is now: the least `last use + k × lifeTime`, in 32nds of the cache. (With Figure 5 as it is, pages whose life is over
//! since lifeTime was shortened go down one a reference, each to the tail of its queue as if it had just been used: a loss of
//! 2.1 points on the vSCSI trace at 30 %.) With a lifeTime that stays the same, its hits are those of Figure 5 within 0.1 points.
//!
//! Refused victims keep their places and the next is offered, queue by queue.
//! Reference figures: the MQ column of ARC's OLTP table, within 1 point or above. Parameters: `queues`, `lifetime`, `out`.
//! Memory: 16 bytes a page (two links, time, count and place); for an adaptive lifeTime 8 for each sampled page, one of two from 4,096
//! frames on, one of four from 8,192 and so on, and 32 KiB. A reference looks at each queue's head once at most, and a
//! change of lifeTime takes no longer than other references do.

mod trials;

use crate::parameters::{Kind, Parameter};
use crate::parts::list::{List, Nodes, offer};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use trials::Trials;

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
/// life is over and so are those of the pages before it, one a reference: well within 2^31 references of its entry and that life.
const LONGEST_LIFE: u32 = 1 << 30;
/// The place takes the low bits of a block's second word, its count the others.
const PLACE_BITS: u32 = 6;
const MOST_USES: u32 = u32::MAX >> PLACE_BITS;
/// The most queues: a page used `MOST_USES` times is in the last of them.
const NAMES: [&str; (u32::BITS - PLACE_BITS) as usize] = [
    "Q0", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q16", "Q17",
    "Q18", "Q19", "Q20", "Q21", "Q22", "Q23", "Q24", "Q25",
];
/// With trials no page's entry is longer ago than this many turns, as far as is remembered.
const OLDEST: u32 = 1 << 30;
/// Page numbers looked at in a turn for that.
const SWEPT: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// When it entered its queue, in references; with an adaptive lifeTime in turns of the trials.
    entered: u32,
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
    /// In the units of [`Block::entered`].
    life_time: u32,
    /// M5. Before this time no queue's head but Q0's is expired, if lifeTime is fixed.
    next_expiry: u64,
    /// What `life_time` follows from, if it is adaptive.
    trials: Option<Trials>,
    /// With trials: the page number whose age is looked at next.
    swept: u32,
    capacity: u32,
    pages: u32,
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
                kind: Kind::Integer { least: 1, most: NAMES.len() as u64 },
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

    /// Of 2^b pages one is sampled. With numbers for 13 times the cache the trials see the cache, Qout and 8 times the cache beyond; in larger
    /// caches more sampled ghosts may be remembered, 2^b times the cache, where numbers are not given again.
    const NUMBERS_KEPT: u32 = 13;

    fn new(setup: &Setup) -> Self {
        let queues = setup.settings.integer("queues") as usize;
        let life_time = setup.settings.integer("lifetime") as u32;
        let trials = (life_time == 0).then(|| Trials::new(setup.pages, setup.capacity, queues));
        Self {
            blocks: Nodes::new(setup.pages),
            queues: vec![List::new(); queues],
            q_out: List::new(),
            far: List::new(),
            len: 0,
            now: 0,
            life_time: trials.as_ref().map_or(life_time, Trials::life_time),
            next_expiry: u64::MAX,
            trials,
            swept: 0,
            capacity: setup.capacity,
            pages: setup.pages,
            out: setup.settings.integer("out") as u32,
        }
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
            // Before Qout is looked into, as in Figure 5: the page may be the very ghost that is forgotten.
            self.evict(caller)?;
        }
        self.use_now(reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.free_a_frame(caller)?;
        self.limit_ghosts(caller);
        Ok(())
    }

    /// The page goes to the queue of its uses in both caches, where its life begins anew: now its next use can come to this one. Of a
    /// ghost the count is remembered. It is no reference: no time passes, and the trials see nothing.
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
        self.drop_page(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.capacity = capacity;
        if let Some(trials) = &self.trials {
            let trials = trials.anew(capacity);
            while let Some(page) = self.far.back() {
                self.leave(page);
                caller.forget(page);
            }
            self.life_time = trials.life_time();
            self.trials = Some(trials);
        }
        self.limit_ghosts(caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.pages = self.pages.max(pages);
        self.blocks.reserve(pages);
        if let Some(trials) = &mut self.trials {
            trials.reserve(pages);
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        for (name, queue) in NAMES.into_iter().zip(&self.queues) {
            show(name, f64::from(queue.len()));
        }
        show("Qout", f64::from(self.q_out.len()));
        let adaptive = self.trials.as_ref().map(Trials::life_time_in_references);
        show("lifeTime", adaptive.unwrap_or_else(|| u64::from(self.life_time)) as f64);
    }

    fn bytes(&self) -> usize {
        self.blocks.bytes() + self.queues.capacity() * size_of::<List>() + self.trials.as_ref().map_or(0, Trials::bytes)
    }

    fn check_invariants(&self) {
        let mut len = 0;
        for (k, queue) in self.queues.iter().enumerate() {
            queue.check(&self.blocks);
            assert!(queue.back_to_front(&self.blocks).all(|page| self.blocks[page].place() == Place::Queue(k))); // M1
            len += queue.len();
            if let Some(page) = queue.back()
                && k > 0
                && self.trials.is_none()
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
        self.trials.iter().for_each(Trials::check_invariants);
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
        if let Some(trials) = &mut self.trials {
            trials.refer(page);
        }
        let k = self.queue_num(reference);
        self.blocks[page].set_reference(reference);
        if place == Place::Queue(k) && self.queues[k].back() != Some(page) {
            // Most hits: neither the queue nor its head changes, so M5 stays.
            self.blocks[page].entered = self.time();
            self.queues[k].move_to_front(&mut self.blocks, page);
        } else {
            self.leave(page);
            self.enter(page, k);
        }
        self.adjust();
    }

    /// Now, in the units of [`Block::entered`].
    #[inline]
    fn time(&self) -> u32 {
        self.trials.as_ref().map_or(self.now as u32, Trials::now)
    }

    #[inline]
    fn enter(&mut self, page: u32, k: usize) {
        let entered = self.time();
        let block = &mut self.blocks[page];
        block.set_place(Place::Queue(k));
        block.entered = entered;
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
                // M5. The next head entered later.
                self.queues[k].remove(&mut self.blocks, page);
                self.len -= 1;
            }
            Place::Out => self.q_out.remove(&mut self.blocks, page),
            Place::Far => self.far.remove(&mut self.blocks, page),
        }
        self.blocks[page].set_place(Place::Unknown);
    }

    /// A page becomes unknown, to the trials too.
    fn drop_page(&mut self, page: u32) {
        self.leave(page);
        if let Some(trials) = &mut self.trials
            && trials.has(page)
        {
            trials.forget(page);
        }
    }

    /// `Adjust()`: demotes the pages whose time in their queue is over, or takes the lifeTime that is now the best.
    #[inline]
    fn adjust(&mut self) {
        self.now += 1;
        match self.trials.as_mut().map(Trials::passes) {
            None if self.now > self.next_expiry => self.demote(),
            Some(true) => self.take_the_best(),
            _ => {}
        }
    }

    /// A turn of the trials is over. A few page numbers are looked at in each: so no entry is so long ago that the turns' numbers come round.
    #[inline(never)]
    fn take_the_best(&mut self) {
        self.life_time = self.trials.as_ref().map_or(self.life_time, Trials::life_time);
        let now = self.time();
        for _ in 0..SWEPT {
            self.swept = if self.swept + 1 < self.pages { self.swept + 1 } else { 0 };
            let block = &mut self.blocks[self.swept];
            if now.wrapping_sub(block.entered) > OLDEST {
                block.entered = now.wrapping_sub(OLDEST);
            }
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
        self.blocks[page].entered.wrapping_add(self.life_time).wrapping_sub(self.now as u32) as i32
    }

    fn is_expired(&self, page: u32) -> bool {
        self.life_left(page) < 0
    }

    /// `EvictBlock()`.
    fn free_a_frame<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let pages = self.queues.iter().flat_map(|queue| queue.back_to_front(&self.blocks));
        let victim = offer(self.ranked_first().into_iter().chain(pages), caller)?;
        if let Place::Queue(k) = self.blocks[victim].place() {
            self.leave(victim);
            self.prefetch_head(k);
        }
        self.q_out.push_front(&mut self.blocks, victim);
        self.blocks[victim].set_place(Place::Out);
        Ok(())
    }

    /// With an adaptive lifeTime: the head that would be evicted first, had lifeTime always been what it is now.
    fn ranked_first(&self) -> Option<u32> {
        let now = self.trials.as_ref()?.now();
        let heads = self.queues.iter().enumerate().filter_map(|(k, queue)| Some((k, queue.back()?)));
        let life_left = |&(k, page): &(usize, u32)| {
            k as i64 * i64::from(self.life_time) - i64::from(now.wrapping_sub(self.blocks[page].entered))
        };
        heads.min_by_key(life_left).map(|(_, page)| page)
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
            self.drop_page(page);
            caller.forget(page);
        }
    }

    fn is_sampled(&self, page: u32) -> bool {
        self.trials.as_ref().is_some_and(|trials| trials.has(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::long_run;
    use crate::registry::Spec;

    #[test]
    fn times_of_32_bits_may_come_round() {
        let later: [fn(&mut Mq); 2] = [|mq| mq.begin_at((1 << 32) - 7), |mq| mq.begin_at((1 << 45) - 3_000)];
        for spec in ["mq", "mq:lifetime=50", "mq:lifetime=3:queues=3:out=1"] {
            long_run::is_as_the_first(spec, &later);
        }
    }

    impl Mq {
        fn begin_at(&mut self, now: u64) {
            self.now = now;
            self.trials.iter_mut().for_each(|trials| trials.begin_at(now as u32));
        }
    }

    struct AnyVictim;

    impl Caller for AnyVictim {
        fn evict(&mut self, _: u32) -> bool {
            true
        }

        fn forget(&mut self, _: u32) {}
    }

    fn make(spec: &str, capacity: u32, pages: u32) -> Mq {
        Mq::new(&Spec::parse(spec).expect("a policy of the registry").setup(capacity, pages))
    }

    fn refer(mq: &mut Mq, page: u32) -> bool {
        let hit = mq.contains(page);
        if hit {
            mq.hit(&Reference::of(page));
        } else {
            mq.miss(&Reference::of(page), &mut AnyVictim).expect("any victim will do");
        }
        hit
    }

    /// Skewed references.
    fn skewed(pages: u32) -> impl Iterator<Item = u32> {
        let mut state = 1u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let part = (state >> 40) as f64 / (1u64 << 24) as f64;
            (part * part * part * f64::from(pages)) as u32
        })
    }

    #[test]
    fn a_victim_pushes_the_oldest_ghost_out_before_qout_is_looked_into() {
        let mut mq = make("mq:lifetime=100:out=1", 1, 3);
        for page in [0, 0, 1] {
            refer(&mut mq, page);
        }
        // 0 is in Qout, used twice. To make room for it 1 goes there, and there is room for one.
        refer(&mut mq, 0);
        assert_eq!(mq.blocks[0].reference(), 1);
        assert_eq!(mq.blocks[0].place(), Place::Queue(0));
    }

    #[test]
    fn by_rank_the_same_lifetime_gives_the_hits_of_figure_5() {
        for turns in [8, 64, 256] {
            let mut ranked = make("mq", 320, 5_000);
            ranked.trials.as_mut().expect("it is adaptive").always(turns);
            let mut figure_5 = make(&format!("mq:lifetime={}", turns * 10), 320, 5_000);
            let mut hits = [0, 0];
            for page in skewed(5_000).take(200_000) {
                hits[0] += u32::from(refer(&mut ranked, page));
                hits[1] += u32::from(refer(&mut figure_5, page));
            }
            assert!(hits[0].abs_diff(hits[1]) <= 200, "{hits:?} with a lifeTime of {turns} turns");
        }
    }

    #[test]
    fn a_change_of_the_capacity_starts_the_trials_anew() {
        let mut mq = make("mq", 400, 5_000);
        for (time, page) in skewed(5_000).take(40_000).enumerate() {
            refer(&mut mq, page);
            if time % 5_000 == 0 {
                mq.resize(100 + time as u32 / 10, &mut AnyVictim).expect("any victim will do");
                mq.check_invariants();
            }
        }
        mq.check_invariants();
    }
}
