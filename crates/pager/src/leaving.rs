//! Pages that have left, and whose memory is given back several at a time: those in a row by one call.
//!
//! 1. A page that leaves is clean and protected, or its bytes are of no use any more. Until its memory is given back its program may go on reading it; a write is
//!    a fault, and waits until then (3).
//! 2. At most [`most`] pages wait here, and the limit of memory counts them: whoever adds one more gives all back.
//! 3. A page that is to come again while it waits here has its memory given back first. So no page that has come is taken for one that left.
//! 4. What is removed in storage, and a region that ends, has its pages given back before the call for it returns.
//!
//! They are given back under the lock of the pool, by the thread that has the fault. By a thread of its own, on another core, a page took longer, as the kernel keeps
//! free memory by core; and without the lock, beside the faults of another thread, both took longer.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pages that wait, and the part of the frames that they are at most.
const MOST: usize = 256;
const PART: usize = 128;

/// How many pages wait at most, of a pager with this many frames.
pub(crate) fn most(frames: usize) -> usize {
    (frames / PART).min(MOST)
}

/// A page that has left: its object, and where in it.
pub(crate) type Left = (u32, usize);

#[derive(Debug)]
pub(crate) struct Leaving {
    most: usize,
    pages: Mutex<Vec<Left>>,
}

impl Leaving {
    pub(crate) fn new(frames: usize) -> Self {
        let most = most(frames);
        Self { most, pages: Mutex::new(Vec::with_capacity(most + 1)) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Left>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page has left.
    pub(crate) fn add(&self, left: Left, give: impl FnOnce(&mut [Left])) {
        let mut pages = self.lock();
        pages.push(left);
        if pages.len() > self.most {
            give(&mut pages);
            pages.clear();
        }
    }

    /// A page is to come: if it waits it is given back first (3).
    pub(crate) fn take(&self, left: Left, give: impl FnOnce(&mut [Left])) {
        let mut pages = self.lock();
        if let Some(place) = pages.iter().position(|&other| other == left) {
            give(&mut [pages.swap_remove(place)]);
        }
    }

    /// Gives all back (4).
    pub(crate) fn give_all(&self, give: impl FnOnce(&mut [Left])) {
        let mut pages = self.lock();
        give(&mut pages);
        pages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_wait_until_they_are_too_many_and_one_that_comes_again_is_given_back_first() {
        let leaving = Leaving::new(2 * PART);
        let none = |_: &mut [Left]| panic!("nothing is given back yet");
        leaving.add((1, 8192), none);
        leaving.add((2, 4096), none);
        leaving.take((2, 8192), none);
        leaving.take((2, 4096), |given| assert_eq!(given, [(2, 4096)]));
        leaving.add((1, 0), none);
        leaving.add((1, 4096), |given| assert_eq!(given, [(1, 8192), (1, 0), (1, 4096)]));
        leaving.add((1, 4096), none);
        leaving.give_all(|given| assert_eq!(given, [(1, 4096)]));
        assert_eq!(most(16), 0, "a small limit has no room for them");
    }
}
