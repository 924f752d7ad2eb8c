//! CAR: ARC's two lists and its moving border, with clocks in place of LRU lists, so that a hit only sets a bit.
//!
//! S. Bansal and D. S. Modha, "CAR: Clock with Adaptive Replacement", FAST 2004, Figure 2.
//!
//! `four_lists.rs` has the lists and the border `p`; here T1 and T2 are clocks, their hands at the backs. A page of T1 whose bit is
//! set moves to T2; one of T2 goes around again. The hand of T1 runs while T1 has at least max(1, p) pages, else that of T2.
//!
//! Deviations: none when no victim is refused and no page removed.
//!
//! The hands pass refused victims. After two rounds without success all pages are offered, whatever their bits.
//! Reference figures: CLOCK-Pro's Tables 1 and 2, column CAR, within 0.4 points from 50 blocks on. Parameters: none.
//! Memory: 10 bytes a page.

use crate::drawing::Drawing;
use crate::parts::four_lists::{FourLists, Within};
use crate::parts::list::offer;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// Clock with adaptive replacement.
#[derive(Debug)]
pub struct Car {
    lists: FourLists,
}

impl Policy for Car {
    const INFO: Info = Info {
        name: "car",
        title: "CAR: clock with adaptive replacement",
        paper: "S. Bansal and D. S. Modha, CAR: Clock with Adaptive Replacement, FAST 2004",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 1,
        bytes_per_page: 10,
        hit_sets_bit: true,
        awaits_uses: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        Self { lists: FourLists::new(setup.pages, setup.capacity) }
    }

    fn capacity(&self) -> u32 {
        self.lists.capacity
    }

    fn len(&self) -> u32 {
        self.lists.len()
    }

    fn ghosts(&self) -> u32 {
        self.lists.ghosts()
    }

    fn contains(&self, page: u32) -> bool {
        self.lists.is_resident(page)
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.lists.pages.prefetch_value(page);
        self.lists.pages.prefetch_links(page);
    }

    fn hit(&mut self, reference: &Reference) {
        self.lists.pages[reference.page].referenced = true;
    }

    fn awaits_use(&self, page: u32) -> bool {
        !self.lists.pages[page].referenced
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len() == self.capacity() {
            self.replace(caller)?;
        }
        self.lists.p = self.lists.adapted(self.lists.within(reference.page));
        self.lists.admit(reference.page, caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.replace(caller)?;
        self.lists.limit_ghosts(caller);
        Ok(())
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        self.lists.leave(page);
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.lists.set_capacity(capacity, caller);
    }

    fn reserve(&mut self, pages: u32) {
        self.lists.pages.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.lists.show(show);
    }

    fn draw(&self, drawing: &mut Drawing) {
        self.lists.draw(drawing, true);
    }

    fn bytes(&self) -> usize {
        self.lists.pages.bytes()
    }

    fn check_invariants(&self) {
        self.lists.check();
    }
}

impl Car {
    /// Turns the hands until a page is evicted, which becomes a ghost.
    fn replace<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        for _ in 0..2 * u64::from(self.len()) {
            let FourLists { pages, t1, t2, p, .. } = &mut self.lists;
            let of_t1 = !t1.is_empty() && f64::from(t1.len()) >= p.max(1.0) || t2.is_empty();
            let clock = if of_t1 { t1 } else { t2 };
            let page = clock.back().expect("the clock is not empty");
            if pages[page].referenced {
                self.lists.move_to(page, Within::T2);
                caller.await_use(page);
            } else if caller.evict(page) {
                self.lists.turn_ghost(page);
                return Ok(());
            } else {
                clock.move_to_front(pages, page);
            }
        }
        let FourLists { pages, t1, t2, .. } = &self.lists;
        let victim = offer(t1.back_to_front(pages).chain(t2.back_to_front(pages)), caller)?;
        self.lists.turn_ghost(victim);
        Ok(())
    }
}
