//! Pages that have left, and whose memory is given back several at a time: one call takes the mappings of all of them away, so that the other cores are
//! interrupted once.
//!
//! 1. A page that leaves is clean and protected, or its bytes are of no use any more. Until its memory is given back its program may go on reading it; a write is
//!    a fault, and waits until then (3).
//! 2. At most [`most`] pages wait here, and the limit of memory counts them.
//! 3. A page that is to come again while it waits here has its memory given back first. So no page that has come is taken for one that left.
//! 4. What is removed in storage, and a region that ends, has its pages given back before the call for it returns.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most pages that leave together, and the part of the frames that they are at most.
const TOGETHER: usize = 64;
const PART: usize = 256;

/// How many pages wait at most before their memory is given back.
pub(crate) fn most(frames: usize) -> usize {
    (frames / PART).clamp(1, TOGETHER)
}

/// A page that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Left {
    pub(crate) object: u32,
    pub(crate) at: usize,
    /// It may be mapped for the program.
    pub(crate) mapped: bool,
}

#[derive(Debug)]
pub(crate) struct Leaving {
    most: usize,
    pages: Mutex<Vec<Left>>,
}

impl Leaving {
    pub(crate) fn new(frames: usize) -> Self {
        let most = most(frames);
        Self { most, pages: Mutex::new(Vec::with_capacity(most)) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Left>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Leaving {
    /// A page has left. All that wait, if it is time to give their memory back.
    pub(crate) fn add(&self, left: Left) -> Option<MutexGuard<'_, Vec<Left>>> {
        let mut pages = self.lock();
        pages.push(left);
        (pages.len() >= self.most).then_some(pages)
    }

    /// A page is to come: it, if it waits (3).
    pub(crate) fn take(&self, object: u32, at: usize) -> Option<Left> {
        let mut pages = self.lock();
        let place = pages.iter().position(|left| left.object == object && left.at == at)?;
        Some(pages.swap_remove(place))
    }

    /// All that wait. Nobody's page comes meanwhile (3).
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<Left>> {
        self.lock()
    }
}

/// Pages of one object that lie in a row: the object, the first, and their length.
pub(crate) fn runs(pages: &mut [Left], page_size: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    pages.sort_unstable();
    let in_a_row = move |one: &Left, next: &Left| one.object == next.object && one.at + page_size == next.at;
    pages.chunk_by(in_a_row).map(move |run| (run[0].object, run[0].at, run.len() * page_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_wait_until_they_are_enough_and_one_that_comes_again_is_taken_out() {
        let leaving = Leaving::new(3 * PART);
        let left = |object, at| Left { object, at, mapped: true };
        assert!(leaving.add(left(1, 8192)).is_none());
        assert!(leaving.add(left(2, 4096)).is_none());
        assert_eq!(leaving.take(2, 8192), None);
        assert_eq!(leaving.take(2, 4096), Some(left(2, 4096)));
        assert!(leaving.add(left(1, 0)).is_none());
        let mut all = leaving.add(left(1, 4096)).expect("three wait").split_off(0);
        assert_eq!(runs(&mut all, 4096).collect::<Vec<_>>(), [(1, 0, 3 * 4096)]);
        assert_eq!(most(16), 1, "a small limit has no room for them");
    }
}
