//! LRU-SP.

use crate::models::{Model, Reference, take};
use std::collections::BTreeMap;

/// The global list and the place-holders, in the paper's words, and what is needed to know whose page is whose.
pub(crate) struct Managed {
    /// The resident pages, the end of the paper's LRU list first.
    list: Vec<u32>,
    /// Ghost to the resident page that its place-holder points to.
    place_holders: BTreeMap<u32, u32>,
    capacity: usize,
    swapping: bool,
    placing: bool,
    manager: Manager,
    /// Resident page to its object, and to who manages it: an owner, or all owners together.
    objects: BTreeMap<u32, u32>,
    managed_by: BTreeMap<u32, Who>,
    /// Object to those who have used it since it last had no resident page. All have one rule, so that it does not matter when.
    users: BTreeMap<u32, Vec<u32>>,
    /// The times of each page's uses, as long as it is resident or has a place-holder.
    uses: BTreeMap<u32, Vec<usize>>,
    /// The time of the last use of a page under each manager.
    last: BTreeMap<Who, usize>,
    /// Ghosts whose place-holder a hit has deleted since the last miss.
    settled: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq)]
enum Manager {
    Lru,
    Mru,
    AccessOnce,
    Lru2,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Who {
    Owner(u32),
    AllTogether,
}

impl Managed {
    pub(crate) fn new(label: &str, capacity: usize) -> Self {
        let manager = match label {
            _ if label.contains("=mru") => Manager::Mru,
            _ if label.contains("=access-once") => Manager::AccessOnce,
            _ if label.contains("=lru-k") => Manager::Lru2,
            _ => Manager::Lru,
        };
        Self {
            list: Vec::new(),
            place_holders: BTreeMap::new(),
            capacity,
            swapping: !label.contains("swapping=off"),
            placing: !label.contains("place-holders=off"),
            manager,
            objects: BTreeMap::new(),
            managed_by: BTreeMap::new(),
            users: BTreeMap::new(),
            uses: BTreeMap::new(),
            last: BTreeMap::new(),
            settled: Vec::new(),
        }
    }

    fn holder_to(&self, page: u32) -> Option<u32> {
        self.place_holders.iter().find(|&(_, &to)| to == page).map(|(&ghost, _)| ghost)
    }

    /// The page that the manager gives up instead of the candidate.
    fn choice(&self, candidate: u32) -> u32 {
        let who = self.managed_by[&candidate];
        let mut pages: Vec<u32> = self.list.iter().copied().filter(|page| self.managed_by[page] == who).collect();
        pages.sort_by_key(|page| std::cmp::Reverse(self.uses[page].last().copied()));
        match self.manager {
            Manager::Lru => candidate,
            Manager::Mru => pages[0],
            // The page used last of all of them, resident or not, may still be in use; it goes when it is the only one.
            Manager::AccessOnce => {
                *pages.iter().find(|page| self.uses[page].last() != self.last.get(&who)).unwrap_or(&pages[0])
            }
            Manager::Lru2 => {
                let second_last = |page: &u32| self.uses[page].iter().rev().nth(1).copied();
                let last = |page: &u32| self.uses[page].last().copied();
                // `None` is before every time.
                pages.into_iter().min_by_key(|page| (second_last(page), last(page))).unwrap()
            }
        }
    }

    fn drop_page(&mut self, page: u32) {
        take(&mut self.list, page);
        let object = self.objects.remove(&page).unwrap();
        self.managed_by.remove(&page);
        if !self.objects.values().any(|&other| other == object) {
            self.users.remove(&object);
        }
    }
}

impl Model for Managed {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let (page, object, owner) = (reference.page, reference.place.object, reference.owner);
        let mut evicted = Vec::new();
        if take(&mut self.list, page) {
            if let Some(ghost) = self.holder_to(page) {
                self.place_holders.remove(&ghost);
                self.settled.push(ghost);
            }
        } else {
            for ghost in std::mem::take(&mut self.settled) {
                self.uses.remove(&ghost);
            }
            if self.list.len() == self.capacity {
                if let Some(to) = self.place_holders.remove(&page) {
                    self.drop_page(to);
                    evicted.push(to);
                } else {
                    let a = self.list[0];
                    let b = self.choice(a);
                    let in_place_of_a = self.holder_to(a);
                    let in_place_of_b = self.holder_to(b);
                    for ghost in in_place_of_a.iter().chain(&in_place_of_b) {
                        self.place_holders.remove(ghost);
                    }
                    if a != b {
                        if self.swapping {
                            let place = self.list.iter().position(|&other| other == b).unwrap();
                            self.list.swap(0, place);
                        }
                        if self.placing {
                            self.place_holders.insert(in_place_of_b.unwrap_or(b), a);
                        }
                    }
                    self.drop_page(b);
                    evicted.push(b);
                }
            }
            // Uses are remembered of resident pages and of those with a place-holder.
            let (list, place_holders) = (&self.list, &self.place_holders);
            let remembered = |other: &u32| other == &page || list.contains(other) || place_holders.contains_key(other);
            self.uses.retain(|other, _| remembered(other));
        }
        self.list.push(page);
        self.uses.entry(page).or_default().push(now);
        self.objects.insert(page, object);
        let users = self.users.entry(object).or_default();
        users.push(owner);
        let who = if users.iter().all(|&user| user == owner) { Who::Owner(owner) } else { Who::AllTogether };
        self.managed_by.insert(page, who);
        self.last.insert(who, now);
        evicted
    }
}
