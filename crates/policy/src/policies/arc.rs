//! ARC: the memory is shared between pages used once and pages used often, at a border that moves with the ghosts that are used.
//!
//! N. Megiddo and D. S. Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, Figure 4.
//!
//! `four_lists.rs` has the lists and the border `p`; here T1 and T2 are LRU lists. The victim is the back of T1 if that is longer than
//! `p`, else of T2.
//!
//! Deviations: none when no victim is refused and no page removed. The victim's ghost is entered before another one is
//! dropped, which drops the same one.
//!
//! Refused victims keep their places and the next is offered; when one list is through, the other's pages are.
//! Reference figures: the paper's OLTP table, within 0.02 points. Parameters: none.
//! Memory: 10 bytes a page.

use crate::drawing::Drawing;
use crate::parts::four_lists::{FourLists, Within};
use crate::parts::list::offer;
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

/// Adaptive replacement cache.
#[derive(Debug)]
pub struct AdaptiveReplacement {
    lists: FourLists,
}

impl Policy for AdaptiveReplacement {
    const INFO: Info = Info {
        name: "arc",
        title: "ARC: adaptive replacement cache",
        paper: "N. Megiddo and D. S. Modha, ARC: A Self-Tuning, Low Overhead Replacement Cache, FAST 2003",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 1,
        bytes_per_page: 10,
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
        self.lists.use_again(reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let was = self.lists.within(reference.page);
        let p = self.lists.adapted(was);
        if self.len() == self.capacity() {
            self.replace(p, was == Within::B2, caller)?;
        }
        self.lists.p = p;
        self.lists.admit(reference.page, caller);
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.replace(self.lists.p, false, caller)?;
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
        self.lists.draw(drawing, false);
    }

    fn bytes(&self) -> usize {
        self.lists.pages.bytes()
    }

    fn check_invariants(&self) {
        self.lists.check();
    }
}

impl AdaptiveReplacement {
    /// Evicts the least recent page of T1 or T2, which becomes a ghost.
    fn replace<C: Caller>(&mut self, p: f64, for_b2: bool, caller: &mut C) -> Result<(), AllRefused> {
        let FourLists { pages, t1, t2, .. } = &self.lists;
        let len = f64::from(t1.len());
        let (t1, t2) = (t1.back_to_front(pages), t2.back_to_front(pages));
        let victim =
            if len > p || for_b2 && len == p { offer(t1.chain(t2), caller)? } else { offer(t2.chain(t1), caller)? };
        self.lists.turn_ghost(victim);
        Ok(())
    }
}
