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
//! Two forms: with a fixed `lifetime` it is Figure 5 (`figure_5.rs`), and no more. By default lifeTime is adapted (`ranked.rs`), which
//! the paper leaves to a thesis.
//!
//! **The adaptive form.** Small copies of MQ are tried on a sample of the pages (`trials.rs`): eight lifeTimes, from 1/8 to 32 times the
//! cache, and the *density* of hits (`density.rs`). What has the most hits is taken, looked at 32 times while as many references pass as
//! there are frames; it is 2 times the cache at first. Each copy has a Qout of its own: it forgets the counts that the policy would
//! forget. To see distances beyond Qout, sampled ghosts that leave it are remembered for longer, up to as many as there are frames. They
//! do not count as known for the algorithm: their use starts again at Q0.
//!
//! A lifeTime orders the pages by frequency and age in one way, the same at all distances, and within a queue it is LRU. So it must
//! choose between pages that come back soon and those that come back late, and of a loop larger than the cache it keeps nothing. The
//! density counts the uses of each queue at each age, and evicts what has the fewest uses to come for the time that it would take. On P6
//! that can give far more than the best lifeTime. Where a lifeTime is better, as where frequency is all that counts, that is taken.
//!
//! Against the best fixed lifeTime the adaptive form costs little, and gains much where the density does (`papers/mq/lifetime.toml`;
//! figures: `papers/mq/README.md`, *What the decisions cost*).
//!
//! Deviations: none with a fixed `lifetime`. The adaptive form has these (figures in the same place).
//!
//! - When lifeTime changes, a page's place follows at once. So pages stay in the queue of their last use, and of the queues' heads that
//!   one is the victim which Figure 5 would evict first, had lifeTime always been what it is now: the least `last use + k × lifeTime`, in
//!   32nds of the cache. (With Figure 5 as it is, pages whose life is over since lifeTime was shortened go down one a reference, each to
//!   the tail of its queue as if it had just been used.) With a lifeTime that stays the same, its hits are nearly those of Figure 5.
//! - The density is not of the paper; `density=off` leaves lifeTimes alone.
//! - More than eight queues count as eight.
//!
//! Refused victims keep their places and the next is offered, queue by queue.
//! Reference figures: the MQ column of ARC's OLTP table, within 1 point or above. Parameters: `queues`, `lifetime`, `out`, `density`.
//! Memory: 16 bytes a page (two links, time, count and place). The adaptive form has 4 more for each sampled page, one of two from 4,096
//! frames on, one of four from 8,192 and so on, and 160 KiB, which are most of what is stated for each page in a small cache. A reference
//! looks at each queue's head once at most, a change of what is taken takes no longer than other references do, and what is computed once
//! a turn is bounded: 128 steps for each queue. Densities are sorted once for 1,024 references or more.

mod blocks;
mod dense;
mod density;
mod figure_5;
mod life;
mod ranked;
mod trials;

use crate::drawing::Drawing;
use crate::parameters::{Kind, Parameter};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use blocks::{Blocks, NAMES, Place};
use figure_5::{Figure5, LONGEST_LIFE};
use ranked::Ranked;
use trials::MOST_QUEUES;

/// Multi-Queue.
#[derive(Debug)]
pub struct Mq(Form);

#[derive(Debug)]
enum Form {
    Fixed(Figure5),
    Adaptive(Box<Ranked>),
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
            Parameter {
                name: "density",
                help: "whether pages may be ranked by the density of their hits where that gives more of them than any lifetime",
                kind: Kind::Choice(&["on", "off"]),
                default: "on",
            },
        ],
        uses: Uses::PAGE,
        ghosts: 101,
        bytes_per_page: 34,
        history: Some("out"),
        // Of 2^b pages one is sampled. With numbers for 13 times the cache the trials see the cache, Qout and 8 times the cache beyond; in larger
        // caches more sampled ghosts may be remembered, 2^b times the cache, where numbers are not given again.
        numbers_kept: 13,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let life_time = setup.settings.integer("lifetime") as u32;
        let queues = setup.settings.integer("queues") as usize;
        let queues = if life_time == 0 { queues.min(MOST_QUEUES) } else { queues };
        let blocks = Blocks::new(setup.pages, queues, setup.capacity, setup.settings.integer("out") as u32);
        Self(match life_time {
            0 => {
                let density = setup.settings.choice("density") == "on";
                Form::Adaptive(Box::new(Ranked::new(blocks, setup.pages, density)))
            }
            _ => Form::Fixed(Figure5::new(blocks, life_time)),
        })
    }

    fn capacity(&self) -> u32 {
        self.blocks().capacity
    }

    fn len(&self) -> u32 {
        self.blocks().len
    }

    fn ghosts(&self) -> u32 {
        self.blocks().q_out.len() + self.blocks().far.len()
    }

    fn contains(&self, page: u32) -> bool {
        matches!(self.blocks().place(page), Place::Queue(_))
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.blocks().prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.use_now(reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity() {
            // Before Qout is looked into, as in Figure 5: the page may be the very ghost that is forgotten.
            self.evict(caller)?;
        }
        self.use_now(reference.page);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        match &mut self.0 {
            Form::Fixed(form) => form.evict(caller),
            Form::Adaptive(form) => form.evict(caller),
        }
    }

    /// The page goes to the queue of its uses in both caches, where its life begins anew: now its next use can come to this one. Of a
    /// ghost the count is remembered. It is no reference: no time passes, and no trial has a hit.
    fn evicted_above(&mut self, reference: &Reference, hits: u32) {
        let page = reference.page;
        if !matches!(self.blocks().place(page), Place::Queue(_) | Place::Out) {
            return;
        }
        match &mut self.0 {
            Form::Fixed(form) => form.evicted_above(page, hits),
            Form::Adaptive(form) => form.evicted_above(page, hits),
        }
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        match &mut self.0 {
            Form::Fixed(form) => form.blocks.leave(page),
            Form::Adaptive(form) => form.drop_page(page),
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        match &mut self.0 {
            Form::Fixed(form) => {
                form.blocks.capacity = capacity;
                form.limit_ghosts(caller);
            }
            Form::Adaptive(form) => form.set_capacity(capacity, caller),
        }
    }

    fn reserve(&mut self, pages: u32) {
        match &mut self.0 {
            Form::Fixed(form) => form.blocks.nodes.reserve(pages),
            Form::Adaptive(form) => form.reserve(pages),
        }
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        for (name, queue) in NAMES.into_iter().zip(&self.blocks().queues) {
            show(name, f64::from(queue.len()));
        }
        show("Qout", f64::from(self.blocks().q_out.len()));
        match &self.0 {
            Form::Fixed(form) => show("lifeTime", f64::from(form.life_time)),
            Form::Adaptive(form) => {
                show("lifeTime", form.trials.life_time_in_references() as f64);
                show("by density", f64::from(u8::from(form.trials.by_density())));
            }
        }
    }

    fn draw(&self, drawing: &mut Drawing) {
        self.blocks().draw(drawing, |entered| match &self.0 {
            Form::Fixed(form) => Some(entered.wrapping_add(form.life_time)),
            Form::Adaptive(_) => None,
        });
        if let Form::Adaptive(form) = &self.0 {
            drawing.number("lifeTime", form.trials.life_time_in_references() as f64);
        }
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Form::Fixed(form) => form.blocks.bytes(),
            Form::Adaptive(form) => form.bytes(),
        }
    }

    fn check_invariants(&self) {
        match &self.0 {
            Form::Fixed(form) => form.check(),
            Form::Adaptive(form) => form.check(),
        }
    }
}

impl Mq {
    fn blocks(&self) -> &Blocks {
        match &self.0 {
            Form::Fixed(form) => &form.blocks,
            Form::Adaptive(form) => &form.blocks,
        }
    }

    /// A reference to a page for which there is room.
    #[inline]
    fn use_now(&mut self, page: u32) {
        match &mut self.0 {
            Form::Fixed(form) => form.use_now(page),
            Form::Adaptive(form) => form.use_now(page),
        }
    }
}

#[cfg(test)]
mod tests;
