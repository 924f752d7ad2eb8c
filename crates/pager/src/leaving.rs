//! Pages that have left, and whose memory a thread gives back, several at a time: so a fault waits for none of that, and one call takes the mappings of all of them
//! away, which interrupts the other cores once.
//!
//! 1. A page that leaves is clean and protected, or its bytes are of no use any more. Until its memory is given back its program may go on reading it; a write is
//!    a fault, and waits until then (3).
//! 2. At most [`MOST_ROUNDS`] times [`together`] pages wait here, and the limit of memory counts them: the thread that adds one more gives all back itself.
//! 3. A page that is to come again while it waits here has its memory given back first. So no page that has come is taken for one that left.
//! 4. What is removed in storage, and a region that ends, has its pages given back before the call for it returns.
//! 5. Pages are given back without this lock by the thread alone, which says which they are. It needs no lock of the pool, so others may wait for it.

use crate::space::Space;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The most pages that leave together, and the part of the frames that they are at most.
const TOGETHER: usize = 64;
const PART: usize = 512;

/// So many times as many wait at most.
const MOST_ROUNDS: usize = 4;

/// What the stack of the thread may take.
const STACK: usize = 128 << 10;

/// How many pages are given back together, of a pager with this many frames.
fn together(frames: usize) -> usize {
    (frames / PART).clamp(1, TOGETHER)
}

/// How many pages wait at most.
pub(crate) fn most(frames: usize) -> usize {
    match together(frames) {
        1 => 0,
        pages => MOST_ROUNDS * pages,
    }
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
    together: usize,
    most: usize,
    pages: Mutex<Pages>,
    /// There is something to give back, or it is to stop.
    enough: Condvar,
    /// What the thread had taken is given back.
    given: Condvar,
}

#[derive(Debug, Default)]
struct Pages {
    waiting: Vec<Left>,
    /// What the thread gives back.
    going: Vec<Left>,
    stopped: bool,
}

impl Leaving {
    pub(crate) fn new(frames: usize) -> Self {
        let (together, most) = (together(frames), most(frames));
        let pages = Pages { waiting: Vec::with_capacity(most.max(1)), ..Pages::default() };
        Self { together, most, pages: Mutex::new(pages), enough: Condvar::new(), given: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A page has left.
    pub(crate) fn add(&self, left: Left, give: impl FnOnce(&mut [Left])) {
        let mut pages = self.lock();
        pages.waiting.push(left);
        if pages.waiting.len() + pages.going.len() > self.most {
            give(&mut pages.waiting);
            pages.waiting.clear();
        } else if pages.waiting.len() == self.together {
            self.enough.notify_one();
        }
    }

    /// A page is to come: if it waits it is given back first (3).
    pub(crate) fn take(&self, object: u32, at: usize, give: impl FnOnce(&mut [Left])) {
        let is_it = |left: &Left| left.object == object && left.at == at;
        let mut pages = self.lock();
        if let Some(place) = pages.waiting.iter().position(is_it) {
            give(&mut [pages.waiting.swap_remove(place)]);
        }
        while pages.going.iter().any(is_it) {
            pages = self.given.wait(pages).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives all back (4).
    pub(crate) fn give_all(&self, give: impl FnOnce(&mut [Left])) {
        let mut pages = self.lock();
        give(&mut pages.waiting);
        pages.waiting.clear();
        while !pages.going.is_empty() {
            pages = self.given.wait(pages).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Gives back what waits, as soon as it is enough. `false`: it is to stop.
    fn give_some(&self, give: impl FnOnce(&mut [Left])) -> bool {
        let mut pages = self.lock();
        while pages.waiting.len() < self.together && !pages.stopped {
            pages = self.enough.wait(pages).unwrap_or_else(PoisonError::into_inner);
        }
        if pages.stopped {
            return false;
        }
        let mut going = std::mem::take(&mut pages.going);
        going.extend_from_slice(&pages.waiting);
        pages.waiting.clear();
        pages.going.clone_from(&going);
        drop(pages);
        give(&mut going);
        going.clear();
        self.lock().going = going;
        self.given.notify_all();
        true
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.enough.notify_one();
    }
}

/// Starts the thread; none where pages leave one by one.
pub(crate) fn start(space: &Arc<Space>) -> std::io::Result<Option<JoinHandle<()>>> {
    if space.leaving.most == 0 {
        return Ok(None);
    }
    let own = Arc::clone(space);
    let body = move || while own.leaving.give_some(|left| own.give(left)) {};
    std::thread::Builder::new().name("forebay-leaving".to_owned()).stack_size(STACK).spawn(body).map(Some)
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
    fn pages_wait_until_they_are_enough_and_one_that_comes_again_is_given_back_first() {
        let leaving = Leaving::new(2 * PART);
        let left = |object, at| Left { object, at, mapped: true };
        let none = |_: &mut [Left]| panic!("nothing is given back yet");
        leaving.add(left(1, 8192), none);
        leaving.add(left(2, 4096), none);
        leaving.take(2, 8192, none);
        leaving.take(2, 4096, |given| assert_eq!(given, [left(2, 4096)]));
        leaving.add(left(1, 0), none);
        assert!(leaving.give_some(|given| {
            assert_eq!(runs(given, 4096).collect::<Vec<_>>(), [(1, 0, 4096), (1, 8192, 4096)]);
            leaving.add(left(1, 4096), none);
        }));
        (1..8).for_each(|page| leaving.add(left(3, page * 4096), none));
        let mut given = 0;
        leaving.add(left(3, 0), |all| given = all.len());
        assert_eq!(given, 9, "whoever adds one too many gives all back");
        leaving.stop();
        assert!(!leaving.give_some(none));
        assert_eq!(most(16), 0, "a small limit has no room for them");
    }
}
