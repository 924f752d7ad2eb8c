//! A circle of pages and the hand that goes round it: the list of a clock whose pages come and go anywhere in it, over the
//! links of `list.rs`.
//!
//! ```text
//!          hand
//!           v
//!   ... --> 2 --> 0 --> 3 --> ...      a new page enters behind the hand, which meets it last
//! ```
//!
//! Seen as a list, the hand stands at the back, and what it passes goes to the front. But passing a page writes nothing: it
//! only moves the hand.

use crate::list::{NONE, Nodes};

/// One circle of pages over shared [`Nodes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circle {
    hand: u32,
    len: u32,
}

impl Circle {
    pub(crate) const fn new() -> Self {
        Self { hand: NONE, len: 0 }
    }

    /// The page at the hand.
    #[inline]
    pub(crate) fn hand(&self) -> Option<u32> {
        (self.hand != NONE).then_some(self.hand)
    }

    /// Moves the hand on to the next page.
    #[inline]
    pub(crate) fn turn<T>(&mut self, nodes: &Nodes<T>) {
        self.hand = nodes.after(self.hand);
        nodes.prefetch_links(self.hand);
        nodes.prefetch_value(self.hand);
    }

    /// Puts a page behind the hand.
    #[inline]
    pub(crate) fn push<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        if self.len == 0 {
            self.hand = page;
            nodes.link(page, page);
        } else {
            let behind = nodes.before(self.hand);
            nodes.link(behind, page);
            nodes.link(page, self.hand);
        }
        self.len += 1;
    }

    /// Takes a page out; the hand, if it is there, moves on.
    #[inline]
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        let (before, after) = (nodes.before(page), nodes.after(page));
        nodes.link(before, after);
        nodes.unlink(page);
        self.len -= 1;
        if self.hand == page {
            self.hand = if self.len == 0 { NONE } else { after };
            if self.len > 0 {
                nodes.prefetch_links(after);
                nodes.prefetch_value(after);
            }
        }
    }

    /// The pages in the order in which the hand meets them.
    pub(crate) fn pages<'a, T>(&self, nodes: &'a Nodes<T>) -> impl Iterator<Item = u32> + use<'a, T> {
        std::iter::successors(self.hand(), |&page| Some(nodes.after(page))).take(self.len as usize)
    }

    /// Recounts the circle.
    pub(crate) fn check<T>(&self, nodes: &Nodes<T>) {
        assert_eq!(self.len == 0, self.hand().is_none());
        for page in self.pages(nodes) {
            assert_eq!(nodes.before(nodes.after(page)), page);
        }
        let first_again = self.pages(nodes).last().map(|page| nodes.after(page));
        assert_eq!(first_again, self.hand());
        assert!(self.pages(nodes).skip(1).all(|page| page != self.hand));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_meets_pages_in_the_order_in_which_they_came() {
        let mut nodes: Nodes<()> = Nodes::new(4);
        let mut circle = Circle::new();
        for page in [2, 0, 3] {
            circle.push(&mut nodes, page);
            circle.check(&nodes);
        }
        circle.turn(&nodes);
        assert_eq!(circle.pages(&nodes).collect::<Vec<_>>(), [0, 3, 2]);
        circle.push(&mut nodes, 1);
        assert_eq!(circle.pages(&nodes).collect::<Vec<_>>(), [0, 3, 2, 1]);
        circle.remove(&mut nodes, 0);
        circle.remove(&mut nodes, 2);
        circle.check(&nodes);
        assert_eq!(circle.pages(&nodes).collect::<Vec<_>>(), [3, 1]);
        assert!(!nodes.is_linked(0) && nodes.is_linked(1));
        circle.remove(&mut nodes, 1);
        circle.remove(&mut nodes, 3);
        circle.check(&nodes);
        assert!(circle.hand().is_none());
    }
}
