//! A policy that is written elsewhere, in another language: it keeps its own lists, and is asked for victims.
//!
//! It is not in the registry, since it has no name that a user could write: a [`Spec`](crate::Spec) is given its [`Host`]. Who is resident is
//! kept here, so that a reference costs one call of it, and a mistake in it is found where it is made.

use crate::drawing::{Drawing, Drawn};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};
use std::fmt;
use std::sync::Arc;

/// Where policies are written that are not ours: an interpreter, a library.
pub trait Host: Send + Sync + fmt::Debug {
    /// A policy of that many pages at most.
    fn make(&self, capacity: u32) -> Box<dyn Guest>;

    /// Does work that calls the policy often, on this thread: takes once what each call needs, as an interpreter's lock.
    fn within(&self, work: &mut dyn FnMut());
}

/// A policy that is written elsewhere. What fails in it unwinds.
pub trait Guest: Send {
    /// A resident page is referenced.
    fn hit(&mut self, page: u32);

    /// A page becomes resident; there is room for it.
    fn miss(&mut self, page: u32);

    /// Chooses a victim, which then is resident no more, to make room for `page`, or for nobody.
    fn evict(&mut self, page: Option<u32>) -> u32;

    /// These pages, which it chose one after the other, stay resident: they may not go now.
    fn refused(&mut self, pages: &[u32]);

    /// A resident page is dropped.
    fn remove(&mut self, page: u32);

    /// The most pages are now this many; there are no more.
    fn resize(&mut self, capacity: u32);

    /// It chose a page that is not resident.
    fn chose_wrong(&mut self, page: u32) -> !;
}

/// A guest under the contract. Invariants:
///
/// - G1. `resident[page]` if and only if the guest was told of a miss of the page, and has neither chosen it since nor was told to remove it.
/// - G2. `len` counts them, and is at most `capacity`.
pub struct Hosted {
    host: Arc<dyn Host>,
    guest: Box<dyn Guest>,
    resident: Vec<bool>,
    len: u32,
    capacity: u32,
}

impl Hosted {
    /// Evicts one page to make room for `page`. Those that are refused come back once another is found.
    fn make_room<C: Caller>(&mut self, page: Option<u32>, caller: &mut C) -> Result<(), AllRefused> {
        let mut refused = Vec::new();
        let mut answer = Err(AllRefused);
        while self.len > 0 {
            let victim = self.guest.evict(page);
            if !self.contains(victim) {
                self.guest.chose_wrong(victim);
            }
            self.resident[victim as usize] = false;
            self.len -= 1;
            if caller.evict(victim) {
                caller.forget(victim);
                answer = Ok(());
                break;
            }
            refused.push(victim);
        }
        if !refused.is_empty() {
            self.guest.refused(&refused);
            refused.iter().for_each(|&page| self.resident[page as usize] = true);
            self.len += refused.len() as u32;
        }
        answer
    }
}

impl Policy for Hosted {
    const INFO: Info = Info {
        name: "hosted",
        title: "A policy written elsewhere",
        paper: "its author, who knows",
        parameters: &[],
        uses: Uses::PAGE,
        ghosts: 0,
        bytes_per_page: 2,
        // Its calls are slow, so each run replays a loaded trace in one call.
        needs_footprint: true,
        ..Info::PLAIN
    };

    fn new(setup: &Setup) -> Self {
        let host = setup.host.clone().expect("a hosted policy has a host");
        let guest = host.make(setup.capacity);
        Self { host, guest, resident: vec![false; setup.pages as usize], len: 0, capacity: setup.capacity }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.len
    }

    fn contains(&self, page: u32) -> bool {
        self.resident.get(page as usize).copied().unwrap_or(false)
    }

    fn hit(&mut self, reference: &Reference) {
        self.guest.hit(reference.page);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        if self.len == self.capacity {
            self.make_room(Some(reference.page), caller)?;
        }
        self.guest.miss(reference.page);
        self.resident[reference.page as usize] = true;
        self.len += 1;
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.make_room(None, caller)
    }

    fn remove<C: Caller>(&mut self, page: u32, _: &mut C) {
        if self.contains(page) {
            self.guest.remove(page);
            self.resident[page as usize] = false;
            self.len -= 1;
        }
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, _: &mut C) {
        self.capacity = capacity;
        self.guest.resize(capacity);
    }

    fn reserve(&mut self, pages: u32) {
        self.resident.resize(self.resident.len().max(pages as usize), false);
    }

    fn host(&self) -> Option<Arc<dyn Host>> {
        Some(Arc::clone(&self.host))
    }

    fn draw(&self, drawing: &mut Drawing) {
        let resident = (0..).zip(&self.resident).filter(|&(_, &resident)| resident);
        drawing.row(
            "resident pages",
            ["lowest number", "highest number"],
            resident.map(|(page, _)| Drawn::resident(page)),
        );
    }

    /// Its own alone: what the guest keeps is not known here.
    fn bytes(&self) -> usize {
        self.resident.capacity()
    }

    fn check_invariants(&self) {
        assert_eq!(self.resident.iter().filter(|&&resident| resident).count(), self.len as usize, "G2");
        assert!(self.len <= self.capacity, "G2");
    }
}
