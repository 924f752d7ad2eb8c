//! What both forms of MQ are made of: the queues and Qout, with each page's place, count and time. What a time means, and which page
//! leaves, is theirs.

use crate::drawing::{Drawing, Drawn};
use crate::parts::list::{List, Nodes};

/// Where the metadata of a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unknown,
    Out,
    /// A sampled ghost that has left Qout. There are none with a fixed lifeTime.
    Far,
    /// In the queue of that number.
    Queue(usize),
}

/// The place takes the low bits of a block's second word, its count the others.
const PLACE_BITS: u32 = 6;
const MOST_USES: u32 = u32::MAX >> PLACE_BITS;
/// The most queues: a page used `MOST_USES` times is in the last of them.
pub(super) const NAMES: [&str; (u32::BITS - PLACE_BITS) as usize] = [
    "Q0", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6", "Q7", "Q8", "Q9", "Q10", "Q11", "Q12", "Q13", "Q14", "Q15", "Q16", "Q17",
    "Q18", "Q19", "Q20", "Q21", "Q22", "Q23", "Q24", "Q25",
];

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// When it entered its queue, in the low bits of the form's clock.
    pub(super) entered: u32,
    /// Where it is, and how often it was used as far as the queues and Qout remember.
    place_and_reference: u32,
}

impl Block {
    pub(super) fn place(self) -> Place {
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

    pub(super) fn reference(self) -> u32 {
        self.place_and_reference >> PLACE_BITS
    }

    pub(super) fn set_reference(&mut self, reference: u32) {
        let place = self.place_and_reference & ((1 << PLACE_BITS) - 1);
        self.place_and_reference = reference.min(MOST_USES) << PLACE_BITS | place;
    }

    /// The count at a use that comes now: of a page that is resident or in Qout it goes on.
    pub(super) fn next_reference(self) -> u32 {
        if matches!(self.place(), Place::Queue(_) | Place::Out) { self.reference() + 1 } else { 1 }
    }
}

#[derive(Debug)]
pub(super) struct Blocks {
    /// MB1. A page is in the list that its place names. The tail is the front, the head the back.
    pub(super) nodes: Nodes<Block>,
    pub(super) queues: Vec<List>,
    /// MB2. At most `out` times the capacity.
    pub(super) q_out: List,
    pub(super) far: List,
    /// MB3. The pages in `queues`, at most the capacity.
    pub(super) len: u32,
    pub(super) capacity: u32,
    pub(super) out: u32,
}

impl Blocks {
    pub(super) fn new(pages: u32, queues: usize, capacity: u32, out: u32) -> Self {
        let queues = vec![List::new(); queues];
        Self { nodes: Nodes::new(pages), queues, q_out: List::new(), far: List::new(), len: 0, capacity, out }
    }

    pub(super) fn place(&self, page: u32) -> Place {
        self.nodes[page].place()
    }

    /// `QueueNum(f)`.
    pub(super) fn queue_num(&self, reference: u32) -> usize {
        (reference.max(1).ilog2() as usize).min(self.queues.len() - 1)
    }

    /// A page that is in no list comes to the tail of a queue.
    #[inline]
    pub(super) fn enter(&mut self, page: u32, k: usize, time: u32) {
        let block = &mut self.nodes[page];
        block.set_place(Place::Queue(k));
        block.entered = time;
        self.queues[k].push_front(&mut self.nodes, page);
        self.len += 1;
    }

    /// A page becomes unknown, from wherever it is.
    #[inline]
    pub(super) fn leave(&mut self, page: u32) {
        match self.nodes[page].place() {
            Place::Unknown => return,
            Place::Queue(k) => {
                self.queues[k].remove(&mut self.nodes, page);
                self.len -= 1;
            }
            Place::Out => self.q_out.remove(&mut self.nodes, page),
            Place::Far => self.far.remove(&mut self.nodes, page),
        }
        self.nodes[page].set_place(Place::Unknown);
    }

    /// An unknown page becomes the newest ghost.
    pub(super) fn enter_q_out(&mut self, page: u32) {
        self.q_out.push_front(&mut self.nodes, page);
        self.nodes[page].set_place(Place::Out);
    }

    pub(super) fn enter_far(&mut self, page: u32) {
        self.far.push_front(&mut self.nodes, page);
        self.nodes[page].set_place(Place::Far);
    }

    /// Takes the oldest ghost out of Qout, if there are too many.
    pub(super) fn too_old_for_q_out(&mut self) -> Option<u32> {
        if u64::from(self.q_out.len()) <= u64::from(self.out) * u64::from(self.capacity) {
            return None;
        }
        let page = self.q_out.back()?;
        self.leave(page);
        if let Some(next) = self.q_out.back().and_then(|page| self.nodes.towards_front(page)) {
            self.prefetch(next);
        }
        Some(page)
    }

    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        self.nodes.prefetch_value(page);
        self.nodes.prefetch_links(page);
    }

    /// The pages that leave a queue next will be looked at soon.
    #[inline]
    pub(super) fn prefetch_head(&self, k: usize) {
        if let Some(next) = self.queues[k].back().and_then(|page| self.nodes.towards_front(page)) {
            self.prefetch(next);
        }
    }

    /// All resident pages, queue by queue, the heads first.
    pub(super) fn resident(&self) -> impl Iterator<Item = u32> {
        self.queues.iter().flat_map(|queue| queue.back_to_front(&self.nodes))
    }

    /// `expires` says of when a page entered its queue when its life ends, if that is fixed.
    pub(super) fn draw(&self, drawing: &mut Drawing, expires: impl Fn(u32) -> Option<u32>) {
        let counted = |drawn: Drawn| {
            let count = self.nodes[drawn.page].reference();
            drawn.number("count", count)
        };
        let drawn = |page| {
            let drawn = counted(Drawn::resident(page));
            match expires(self.nodes[page].entered) {
                Some(time) => drawn.number("expiry", time),
                None => drawn,
            }
        };
        let ends = ["tail", "head"];
        for (name, queue) in NAMES.into_iter().zip(&self.queues).rev() {
            drawing.row(name, ends, queue.front_to_back(&self.nodes).map(drawn));
        }
        for (name, list) in [("Qout", &self.q_out), ("beyond Qout", &self.far)] {
            let ghost = |page| counted(Drawn::ghost(page));
            if name == "Qout" || !list.is_empty() {
                drawing.row(name, ends, list.front_to_back(&self.nodes).map(ghost));
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.nodes.bytes() + self.queues.capacity() * size_of::<List>()
    }

    pub(super) fn check(&self) {
        let mut len = 0;
        for (k, queue) in self.queues.iter().enumerate() {
            queue.check(&self.nodes);
            assert!(queue.back_to_front(&self.nodes).all(|page| self.place(page) == Place::Queue(k))); // MB1
            len += queue.len();
        }
        assert_eq!(len, self.len); // MB3
        assert!(len <= self.capacity); // MB3
        for (list, place) in [(&self.q_out, Place::Out), (&self.far, Place::Far)] {
            list.check(&self.nodes);
            assert!(list.back_to_front(&self.nodes).all(|page| self.place(page) == place)); // MB1
        }
        assert!(u64::from(self.q_out.len()) <= u64::from(self.out) * u64::from(self.capacity)); // MB2
    }
}
