//! Pages that their owners give up first: a list for each owner that has given up any.
//!
//! Each step takes constant time, so that an owner with a long list, or one that gives up pages all the time, keeps nobody waiting.
//!
//! Memory: 12 bytes a page, once there is a list.

use crate::parts::list::{List, Nodes};
use std::collections::HashMap;

#[derive(Debug)]
pub(super) struct FreeLists {
    /// GU1. By owner; the page given up first is at the back. No list is empty.
    lists: HashMap<u32, List>,
    /// GU2. A linked page is in the list of the owner that is its value. No page has a node before the first list.
    pages: Nodes<u32>,
}

impl FreeLists {
    pub(super) fn new() -> Self {
        Self { lists: HashMap::new(), pages: Nodes::new(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// How many pages an owner has given up.
    pub(super) fn len(&self, owner: u32) -> u32 {
        self.lists.get(&owner).map_or(0, List::len)
    }

    /// Page numbers below `pages` may occur.
    pub(super) fn reserve(&mut self, pages: u32) {
        if !self.is_empty() {
            self.pages.reserve(pages);
        }
    }

    /// An owner gives up resident pages, behind those that it has given up already. Page numbers are below `numbers`.
    pub(super) fn add(&mut self, owner: u32, pages: impl Iterator<Item = u32>, numbers: u32) {
        let mut pages = pages.peekable();
        if pages.peek().is_none() {
            return;
        }
        self.pages.reserve(numbers);
        let list = self.lists.entry(owner).or_insert_with(List::new);
        for page in pages {
            if !self.pages.is_linked(page) {
                self.pages[page] = owner;
                list.push_front(&mut self.pages, page);
            }
        }
        self.keep(owner);
    }

    /// A page is used, or resident no more: it is on no list.
    pub(super) fn remove(&mut self, page: u32) {
        if self.is_empty() || !self.pages.is_linked(page) {
            return;
        }
        let owner = self.pages[page];
        if let Some(list) = self.lists.get_mut(&owner) {
            list.remove(&mut self.pages, page);
        }
        self.keep(owner);
    }

    /// Takes the page off the list that an owner gave up first.
    pub(super) fn take(&mut self, owner: u32) -> Option<u32> {
        let page = self.lists.get(&owner)?.back()?;
        self.remove(page);
        Some(page)
    }

    /// Nothing of an owner's is to go first any more.
    pub(super) fn empty(&mut self, owner: u32) {
        while self.take(owner).is_some() {}
    }

    /// Drops an owner's list if it is empty.
    fn keep(&mut self, owner: u32) {
        if self.len(owner) == 0 {
            self.lists.remove(&owner);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.bytes() + self.lists.capacity() * size_of::<(u32, List)>()
    }

    pub(super) fn check(&self) {
        for (&owner, list) in &self.lists {
            assert!(!list.is_empty()); // GU1
            list.check(&self.pages);
            assert!(list.front_to_back(&self.pages).all(|page| self.pages[page] == owner)); // GU2
        }
    }
}
