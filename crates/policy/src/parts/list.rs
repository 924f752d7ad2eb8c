//! Doubly linked lists of pages, as index links in one array.
//!
//! ```text
//! nodes:  [page 0 | page 1 | page 2 | …]      links of each: towards the front, towards the back
//!         [page 0 | page 1 | page 2 | …]      the policy's own value of each
//! list:   front --> page 2 <--> page 0 <-- back
//! ```
//!
//! A page is in one list at most; several lists share the nodes. The front is where pages enter, so the back holds the
//! oldest. All operations take constant time and allocate nothing.

use crate::parts::prefetch::prefetch;
use crate::policy::{AllRefused, Caller};

/// No page: the end of a list.
const NONE: u32 = u32::MAX;
/// In a page's links: it is in no list.
const UNLINKED: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Links {
    towards_front: u32,
    towards_back: u32,
}

const IN_NO_LIST: Links = Links { towards_front: UNLINKED, towards_back: UNLINKED };

/// The links of all pages, and a value of the policy's for each. They lie apart, so that what only looks at values, as a hit
/// does under many policies, touches few cache lines.
#[derive(Debug)]
pub(crate) struct Nodes<T> {
    links: Vec<Links>,
    values: Vec<T>,
}

impl<T: Default + Clone> Nodes<T> {
    pub(crate) fn new(pages: u32) -> Self {
        let mut nodes = Self { links: Vec::new(), values: Vec::new() };
        nodes.reserve(pages);
        nodes
    }

    /// Page numbers below `pages` may occur.
    pub(crate) fn reserve(&mut self, pages: u32) {
        assert!(pages < UNLINKED, "page numbers stay below 2^32 - 2");
        if pages as usize > self.links.len() {
            self.links.resize(pages as usize, IN_NO_LIST);
            self.values.resize(pages as usize, T::default());
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Links>() + self.values.capacity() * size_of::<T>()
    }

    /// Whether the page is in a list.
    #[inline]
    pub(crate) fn is_linked(&self, page: u32) -> bool {
        self.links[page as usize].towards_front != UNLINKED
    }

    /// The neighbour towards the front of its list.
    #[inline]
    pub(crate) fn towards_front(&self, page: u32) -> Option<u32> {
        let other = self.links[page as usize].towards_front;
        (other != NONE).then_some(other)
    }

    /// The neighbour towards the back of its list.
    #[inline]
    pub(crate) fn towards_back(&self, page: u32) -> Option<u32> {
        let other = self.links[page as usize].towards_back;
        (other != NONE).then_some(other)
    }
}

impl<T> Nodes<T> {
    /// The values of all pages.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// The page's value will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_value(&self, page: u32) {
        if size_of::<T>() > 0 {
            prefetch(&self.values, page as usize);
        }
    }

    /// The page's links will be looked at soon.
    #[inline]
    pub(crate) fn prefetch_links(&self, page: u32) {
        prefetch(&self.links, page as usize);
    }
}

impl<T> std::ops::Index<u32> for Nodes<T> {
    type Output = T;

    fn index(&self, page: u32) -> &T {
        &self.values[page as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Nodes<T> {
    fn index_mut(&mut self, page: u32) -> &mut T {
        &mut self.values[page as usize]
    }
}

/// One list of pages over shared [`Nodes`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    front: u32,
    back: u32,
    len: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { front: NONE, back: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    pub(crate) fn back(&self) -> Option<u32> {
        (self.back != NONE).then_some(self.back)
    }

    #[inline]
    pub(crate) fn push_front<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        let links = &mut nodes.links[page as usize];
        debug_assert_eq!(links.towards_front, UNLINKED, "page {page} is in a list already");
        *links = Links { towards_front: NONE, towards_back: self.front };
        match self.front {
            NONE => self.back = page,
            front => nodes.links[front as usize].towards_front = page,
        }
        self.front = page;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn push_back<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        let links = &mut nodes.links[page as usize];
        debug_assert_eq!(links.towards_front, UNLINKED, "page {page} is in a list already");
        *links = Links { towards_front: self.back, towards_back: NONE };
        match self.back {
            NONE => self.front = page,
            back => nodes.links[back as usize].towards_back = page,
        }
        self.back = page;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn remove<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        let Links { towards_front, towards_back } = std::mem::replace(&mut nodes.links[page as usize], IN_NO_LIST);
        debug_assert_ne!(towards_front, UNLINKED, "page {page} is in no list");
        match towards_front {
            NONE => self.front = towards_back,
            page => nodes.links[page as usize].towards_back = towards_back,
        }
        match towards_back {
            NONE => {
                self.back = towards_front;
                // The oldest page is the next that is looked at.
                nodes.prefetch_value(towards_front);
            }
            page => nodes.links[page as usize].towards_front = towards_front,
        }
        self.len -= 1;
    }

    #[inline]
    pub(crate) fn move_to_front<T>(&mut self, nodes: &mut Nodes<T>, page: u32) {
        if self.front != page {
            self.remove(nodes, page);
            self.push_front(nodes, page);
        }
    }

    /// Puts `page` where `other` is, which leaves the list.
    #[inline]
    pub(crate) fn replace<T>(&mut self, nodes: &mut Nodes<T>, other: u32, page: u32) {
        let Links { towards_front, towards_back } = nodes.links[other as usize];
        debug_assert_ne!(towards_front, UNLINKED, "page {other} is in no list");
        debug_assert_eq!(nodes.links[page as usize].towards_front, UNLINKED, "page {page} is in a list already");
        nodes.links[other as usize] = IN_NO_LIST;
        nodes.links[page as usize] = Links { towards_front, towards_back };
        match towards_front {
            NONE => self.front = page,
            neighbour => nodes.links[neighbour as usize].towards_back = page,
        }
        match towards_back {
            NONE => self.back = page,
            neighbour => nodes.links[neighbour as usize].towards_front = page,
        }
    }

    /// The pages from the back to the front.
    pub(crate) fn back_to_front<'a, T: Default + Clone>(
        &self,
        nodes: &'a Nodes<T>,
    ) -> impl Iterator<Item = u32> + use<'a, T> {
        std::iter::successors(self.back(), |&page| nodes.towards_front(page))
    }

    /// The pages from the front to the back.
    pub(crate) fn front_to_back<'a, T: Default + Clone>(
        &self,
        nodes: &'a Nodes<T>,
    ) -> impl Iterator<Item = u32> + use<'a, T> {
        std::iter::successors(self.front(), |&page| nodes.towards_back(page))
    }

    /// Recounts the list.
    pub(crate) fn check<T: Default + Clone>(&self, nodes: &Nodes<T>) {
        assert_eq!(self.front_to_back(nodes).take(self.len as usize + 1).count(), self.len as usize);
        assert_eq!(self.back_to_front(nodes).take(self.len as usize + 1).count(), self.len as usize);
        assert_eq!(self.back_to_front(nodes).last(), self.front());
        assert_eq!(self.front_to_back(nodes).last(), self.back());
    }
}

/// Offers the pages in their order until the caller accepts one.
pub(crate) fn offer<C: Caller>(pages: impl IntoIterator<Item = u32>, caller: &mut C) -> Result<u32, AllRefused> {
    pages.into_iter().find(|&page| caller.evict(page)).ok_or(AllRefused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_the_place_of_another() {
        for other in [2, 0, 3] {
            let mut nodes: Nodes<()> = Nodes::new(5);
            let mut list = List::new();
            for page in [2, 0, 3] {
                list.push_front(&mut nodes, page);
            }
            list.replace(&mut nodes, other, 4);
            list.check(&nodes);
            assert!(!nodes.is_linked(other));
            let expected = [2, 0, 3].map(|page| if page == other { 4 } else { page });
            assert_eq!(list.back_to_front(&nodes).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn pages_leave_in_the_order_in_which_they_came() {
        let mut nodes: Nodes<()> = Nodes::new(4);
        let mut list = List::new();
        for page in [2, 0, 3] {
            list.push_front(&mut nodes, page);
        }
        list.check(&nodes);
        assert_eq!(list.back_to_front(&nodes).collect::<Vec<_>>(), [2, 0, 3]);
        list.move_to_front(&mut nodes, 2);
        list.remove(&mut nodes, 0);
        list.push_back(&mut nodes, 0);
        list.check(&nodes);
        assert_eq!(list.front_to_back(&nodes).collect::<Vec<_>>(), [2, 3, 0]);
        list.remove(&mut nodes, 0);
        list.check(&nodes);
        assert_eq!(list.front_to_back(&nodes).collect::<Vec<_>>(), [2, 3]);
        assert!(!nodes.is_linked(0) && nodes.is_linked(3));
        for page in [2, 3] {
            list.remove(&mut nodes, page);
        }
        list.check(&nodes);
        assert!(list.is_empty() && list.front().is_none() && list.back().is_none());
    }
}
